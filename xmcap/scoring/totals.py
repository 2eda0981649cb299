"""Scores of many sets of images at once, in all languages: one matrix product, then each metric's formula."""

from collections.abc import Mapping

import numpy as np

from xmcap.scoring import tables
from xmcap.scoring.scores import Scores


def columns(scores: Mapping[str, Scores]) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the keys of all images, and `Scores.columns` of all languages side by side.

  Returns:
    The keys, sorted, so that the order of a file's lines decides about nothing; and float64 [images, sum of
    columns], zeros where a language lacks the image, which add nothing to any total.
  """
  keys = tuple(sorted({key for of_language in scores.values() for key in of_language.keys}))
  row = {key: i for i, key in enumerate(keys)}
  parts = []
  for of_language in scores.values():
    part = np.zeros((len(keys), of_language.columns.shape[1]))
    part[[row[key] for key in of_language.keys]] = of_language.columns
    parts.append(part)
  return keys, np.hstack(parts)


def scores(of_images: Mapping[str, Scores], sums: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
  """Returns the scores of S sets of images, given the sums over each set of what `columns` returns.

  Args:
    of_images: the scores of the images by language, as given to `columns`.
    sums: float64 [S, sum of columns].

  Returns:
    Language code or mean -> metric -> float64 [S]; NaN where a set holds no image of a language.
  """
  result, first = {}, 0
  for code, of_language in of_images.items():
    width = of_language.columns.shape[1]
    result[code] = of_language.of_totals(sums[:, first : first + width])
    first += width
  for name, codes in tables.mean_groups(of_images).items():
    result[name] = {
      metric: sum(result[code][metric] for code in codes) / len(codes) for metric in result[codes[0]]
    }
  return result
