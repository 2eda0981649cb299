"""The scores of one language, image by image: what tables aggregate and reports show."""

import dataclasses

import numpy as np

from xmcap.scoring import metrics


@dataclasses.dataclass(frozen=True)
class Scores:
  """The scores of one language, image by image.

  Attributes:
    keys: the keys of the images, I of them, in the order of the references.
    statistics: metric -> float64 [I, k], what the metric aggregates; the first column is the score of the
      image.
  """

  keys: tuple[str, ...]
  statistics: dict[str, np.ndarray]

  def row(self) -> dict[str, float]:
    """Returns the language's row of the table."""
    return {
      "images": len(self.keys),
      **{name: metrics.METRICS[name].aggregate(values) for name, values in self.statistics.items()},
    }
