"""Sufficient statistics of metrics per image, which tables aggregate and the bootstrap resamples."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap.arguments import checked
from xmcap.scoring import metrics
from xmcap.scoring.statistics import means


@dataclasses.dataclass(frozen=True)
class Statistics:
  """The statistics of one language.

  Attributes:
    keys: keys of the I images, in alphabetical order.
    values: metric -> float64 [I, k], the statistics that the metric aggregates.
    num_counted: total number of reference captions; or of classes or captions, depending on the metrics.
    medians: name, of `means.MEDIANS` -> median rank of the queries.
  """

  keys: tuple[str, ...]
  values: dict[str, np.ndarray]
  num_counted: int = 0
  medians: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @classmethod
  @checked
  def of(
    cls,
    keys: Sequence[str],
    values: Mapping[str, np.ndarray],
    num_counted: int,
    medians: Mapping[str, float] | None = None,
  ) -> "Statistics":
    """Sorts images, given in any order, by their keys."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return cls(
      tuple(keys[place] for place in order),
      {name: columns[order].astype(np.float64) for name, columns in values.items()},
      num_counted,
      medians or {},
    )

  @property
  def counted(self) -> str:
    """What the table counts besides images; all metrics of a table agree."""
    return metrics.METRICS[next(iter(self.values))].counted

  @property
  def counts(self) -> dict[str, int]:
    """The counts in the language's row of the table."""
    return {"images": len(self.keys), self.counted: self.num_counted}

  def row(self) -> dict[str, float]:
    """Returns the language's row of the table: counts, the score of each metric, and median ranks."""
    count = np.float64(len(self.keys))
    scores = {
      name: float(metrics.METRICS[name].aggregate(_exact_sums(values), count))
      for name, values in self.values.items()
    }
    return {**self.counts, **scores, **self.medians}

  def image_scores(self, metric: str) -> np.ndarray:
    """Returns float64 [I], the score of each image."""
    return metrics.METRICS[metric].image_scores(self.values[metric])

  @functools.cached_property
  def columns(self) -> np.ndarray:
    """float64 [I, 1 + sum of k]: a one, then the statistics of each metric; `scores` takes sums of these rows."""
    return np.hstack([np.ones((len(self.keys), 1)), *self.values.values()])

  def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
    """Returns metric -> float64 [...], the scores of sets of images; NaN for an empty set.

    Args:
      sums: float64 [..., 1 + sum of k], `columns` summed over the images of each set.
    """
    count, first, scores = sums[..., 0], 1, {}
    empty = count == 0
    for name, values in self.values.items():
      of_metric = sums[..., first : first + values.shape[1]]
      score = metrics.METRICS[name].aggregate(of_metric, np.where(empty, 1.0, count))
      scores[name] = np.where(empty, np.nan, score)
      first += values.shape[1]
    return scores


def _exact_sums(values: np.ndarray) -> np.ndarray:
  """Returns float64 [k], the exactly rounded sums of [I, k], which do not depend on the order of the images."""
  return np.array([math.fsum(column) for column in values.T.tolist()])


def image_keys(statistics: Mapping[str, Statistics]) -> tuple[str, ...]:
  """Returns the sorted keys of the images of all languages."""
  return tuple(sorted({key for of_language in statistics.values() for key in of_language.keys}))


def joint_columns(statistics: Mapping[str, Statistics]) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the sorted keys of all images, and the `Statistics.columns` of all languages next to each other.

  The columns are float64 [images, sum of columns], with zeros if a language lacks the image.
  """
  keys = image_keys(statistics)
  row = {key: i for i, key in enumerate(keys)}
  parts = []
  for of_language in statistics.values():
    part = np.zeros((len(keys), of_language.columns.shape[1]))
    part[[row[key] for key in of_language.keys]] = of_language.columns
    parts.append(part)
  return keys, np.hstack(parts)


def joint_scores(statistics: Mapping[str, Statistics], sums: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
  """Returns the scores of S sets of images in all languages, and their means.

  Args:
    statistics: as given to `joint_columns`.
    sums: float64 [S, sum of columns], the joint columns summed over the images of each set.

  Returns:
    Language code or mean -> metric -> float64 [S]; NaN if a set has no image of a language.
  """
  scores, first = {}, 0
  for language, of_language in statistics.items():
    width = of_language.columns.shape[1]
    scores[language] = of_language.scores(sums[:, first : first + width])
    first += width
  for name, languages in means.mean_groups(
    {language: of_language.counts for language, of_language in statistics.items()}
  ).items():
    scores[name] = means.mean(scores, languages)
  return scores
