"""The scores of one language, image by image: what tables aggregate, and what resampling resamples."""

import dataclasses
import functools
import math

import numpy as np

from xmcap.scoring import metrics


@dataclasses.dataclass(frozen=True)
class Scores:
  """The scores of one language, image by image.

  Attributes:
    keys: the keys of the images, I of them, in the order of the references.
    statistics: metric -> float64 [I, k], what the metric aggregates.
    num_references: how many reference captions the images have in all.
  """

  keys: tuple[str, ...]
  statistics: dict[str, np.ndarray]
  num_references: int = 0

  def row(self) -> dict[str, float]:
    """Returns the language's row of the table: numbers of images and references, the score in each metric."""
    count = np.float64(len(self.keys))
    return {
      "images": len(self.keys),
      "references": self.num_references,
      **{
        name: float(metrics.METRICS[name].aggregate(_totals(values), count))
        for name, values in self.statistics.items()
      },
    }

  def image_scores(self, metric: str) -> np.ndarray:
    """Returns float64 [I], the score of each image."""
    return metrics.METRICS[metric].image_scores(self.statistics[metric])

  @functools.cached_property
  def columns(self) -> np.ndarray:
    """float64 [I, 1 + sum of k]: a one, then the statistics of each metric in turn; totals of it say all."""
    return np.hstack([np.ones((len(self.keys), 1)), *self.statistics.values()])

  def of_totals(self, totals: np.ndarray) -> dict[str, np.ndarray]:
    """Returns metric -> float64 [...], the scores of sets of images.

    Args:
      totals: float64 [..., 1 + sum of k], `columns` summed over the images of each set. The score of a set
        without images is NaN.
    """
    count, first, scores = totals[..., 0], 1, {}
    empty = count == 0
    for name, values in self.statistics.items():
      of_metric = totals[..., first : first + values.shape[1]]
      score = metrics.METRICS[name].aggregate(of_metric, np.where(empty, 1.0, count))
      scores[name] = np.where(empty, np.nan, score)
      first += values.shape[1]
    return scores


def _totals(values: np.ndarray) -> np.ndarray:
  """Returns float64 [k], the sums of [I, k] without rounding on the way: the order of the images is no matter."""
  return np.array([math.fsum(column) for column in values.T.tolist()])
