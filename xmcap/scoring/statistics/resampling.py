"""Resampling of images, for bootstrap intervals and for the two paired tests that compare systems.

Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13 (percentile intervals); Koehn, "Statistical
Significance Tests for Machine Translation Evaluation" (EMNLP 2004); approximate randomisation as in Riezler and Maxwell
(2005). An image is drawn or exchanged in all languages at once, because its captions in 36 languages are correlated;
otherwise the intervals of the means would be too narrow. Document frequencies are held fixed.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcap.scoring.statistics.sufficient import Statistics, joint_columns, joint_scores

_CHUNK = 200  # resamples at a time; for 3,600 images they take 6 MB

Samples = dict[str, dict[str, np.ndarray]]
"""Language code or mean -> metric -> float64 [resamples]."""


def bootstrap(statistics: Mapping[str, Statistics], resamples: int, seed: int) -> Samples:
  """Returns the scores of resampled sets of images, drawn with replacement, the same for all languages.

  If a set has no image of a language, the score of the language and its means are NaN.
  """
  return bootstraps([statistics], resamples, seed)[0]


def bootstraps(systems: Sequence[Mapping[str, Statistics]], resamples: int, seed: int) -> list[Samples]:
  """Returns the `bootstrap` of each of several systems with the same images, which are drawn once for all."""
  columns = [joint_columns(statistics)[1] for statistics in systems]
  num_images = len(columns[0])
  rng = np.random.default_rng(seed)
  parts: list[list[Samples]] = [[] for _ in systems]
  for count in _chunks(resamples):
    drawn = rng.integers(0, num_images, (count, num_images))
    drawn += num_images * np.arange(count)[:, None]
    weights = np.bincount(drawn.ravel(), minlength=count * num_images).reshape(count, -1).astype(np.float64)
    for part, statistics, of_system in zip(parts, systems, columns, strict=True):
      part.append(joint_scores(statistics, weights @ of_system))
  return [_joined(part) for part in parts]


def exchanged(
  first: Mapping[str, Statistics], second: Mapping[str, Statistics], resamples: int, seed: int
) -> tuple[Samples, Samples]:
  """Returns the scores of two systems after exchanging their captions for a random half of the images."""
  (_, columns), (_, others) = joint_columns(first), joint_columns(second)
  sums, other_sums, change = columns.sum(axis=0), others.sum(axis=0), others - columns
  rng = np.random.default_rng(seed)
  parts: tuple[list[Samples], list[Samples]] = ([], [])
  for count in _chunks(resamples):
    moved = rng.integers(0, 2, (count, len(columns))).astype(np.float64) @ change
    parts[0].append(joint_scores(first, sums + moved))
    parts[1].append(joint_scores(second, other_sums - moved))
  return _joined(parts[0]), _joined(parts[1])


def interval(samples: np.ndarray) -> tuple[float, float]:
  """Returns the 95% percentile interval of samples [R], ignoring NaN; NaN if all are NaN."""
  samples = samples[~np.isnan(samples)]
  if not len(samples):
    return float("nan"), float("nan")
  low, high = np.quantile(samples, [0.025, 0.975])
  return float(low), float(high)


def intervals(samples: Samples) -> dict[str, dict[str, tuple[float, float]]]:
  """Returns the 95% interval for each language or mean and each metric."""
  return {
    name: {metric: interval(values) for metric, values in of_name.items()}
    for name, of_name in samples.items()
  }


def _chunks(resamples: int) -> Iterator[int]:
  for start in range(0, resamples, _CHUNK):
    yield min(_CHUNK, resamples - start)


def _joined(parts: list[Samples]) -> Samples:
  return {
    name: {metric: np.concatenate([part[name][metric] for part in parts]) for metric in of_name}
    for name, of_name in parts[0].items()
  }
