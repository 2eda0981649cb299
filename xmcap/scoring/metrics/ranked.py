"""Ranking metrics, for zero-shot classification and retrieval.

They sum statistics of `xmcap.scoring.ranks`. If candidates tie, the statistic is the probability of a hit when the tied
candidates are in random order.
"""

import numpy as np

from xmcap.scoring.metrics import base

DEPTHS = (1, 5, 10)
"""The values of k for recall at k in retrieval."""


class Top1(base.Metric):
  """Share of pictures whose class scores highest among all classes of the language."""

  name = "top1"
  heading = "Top-1"
  percent = True
  decimals = 4
  counted = "classes"

  @property
  def signature(self) -> str:
    return "ties=expected"


class FixedTop1(base.Metric):
  """Top-1 among a fixed number of random classes, so that languages with more classes are not harder.

  The statistics of a picture are its hits over all draws that contain its class, and the number of such draws.
  """

  name = "top1_fixed"
  heading = "Top-1, fixed size"
  percent = True
  decimals = 4
  counted = "classes"

  @property
  def width(self) -> int:
    return 2

  @property
  def signature(self) -> str:
    return "ties=expected"

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    """Returns the share of hits; NaN if no picture has a class that was drawn."""
    return _ratio(totals)

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], the share of hits of each picture; NaN if its class was never drawn."""
    return _ratio(statistics)


class _OfQueries(base.Metric):
  """A mean over the queries of a direction.

  Image to text (`i2t`) averages over pictures, and any caption of the picture is correct. Text to image (`t2i`)
  averages over captions; the statistics of a picture are the sum over its captions and their number.
  """

  counted = "captions"

  def __init__(self, direction: str):
    self._from_text = direction == "t2i"

  @property
  def width(self) -> int:
    return 1 + self._from_text

  @property
  def signature(self) -> str:
    return f"mean={'captions' if self._from_text else 'images'},ties=expected"

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    """Returns the mean over the queries."""
    return _ratio(totals) if self._from_text else totals[..., 0] / count

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], the mean over each picture's queries."""
    return _ratio(statistics) if self._from_text else statistics[:, 0]


class Recall(_OfQueries):
  """Recall at k: share of queries with a correct candidate among the first k."""

  percent = True
  decimals = 4

  def __init__(self, direction: str, k: int):
    super().__init__(direction)
    self.name, self.heading = f"{direction}_r{k}", f"{direction.upper()} R@{k}"


class ReciprocalRank(_OfQueries):
  """Mean of 1 / rank of the first correct candidate (MRR), in [0, 1]."""

  def __init__(self, direction: str):
    super().__init__(direction)
    self.name, self.heading = f"{direction}_mrr", f"{direction.upper()} MRR"


def _ratio(totals: np.ndarray) -> np.ndarray:
  hits, tries = totals[..., 0], totals[..., 1]
  return np.divide(hits, tries, out=np.full(np.shape(hits), np.nan), where=tries > 0)[()]


_OF_DIRECTIONS = [
  (*(Recall(direction, k) for k in DEPTHS), ReciprocalRank(direction)) for direction in ("t2i", "i2t")
]

METRICS = (Top1(), FixedTop1(), *(metric for metrics in _OF_DIRECTIONS for metric in metrics))
