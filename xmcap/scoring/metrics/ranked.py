"""Metrics of rankings: what a query finds first, such as a picture its class, or a caption its picture.

`xmcap.scoring.ranks` has the ranks; here are their sums. Where candidates tie, a statistic is the chance of a hit over
all orders of those that tie.
"""

import numpy as np

from xmcap.scoring.metrics import base

DEPTHS = (1, 5, 10)
"""The numbers of candidates of which one is to be right in retrieval."""


class Top1(base.Metric):
  """Share of the pictures whose class scores highest, among all classes of the language."""

  name = "top1"
  heading = "Top-1"
  percent = True
  decimals = 4
  counted = "classes"

  @property
  def signature(self) -> str:
    return "ties=expected"


class FixedTop1(base.Metric):
  """The same among random classes of a fixed number, so that languages with more classes are not the harder ones.

  The statistics of a picture: its hits in all draws that hold its class, and how many those are.
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
    """Returns the share of hits; NaN where no picture has a class that was drawn."""
    return _ratio(totals)

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], each picture's share of hits; NaN where its class was never drawn."""
    return _ratio(statistics)


class Recall(base.Metric):
  """Share of the queries of which a right candidate is among the first k.

  From a picture to its texts (`i2t`) the mean is over pictures, and any of its captions is right. From a text to its
  picture (`t2i`) it is over captions; the statistics of a picture are the hits of its captions, and their number.
  """

  percent = True
  decimals = 4
  counted = "captions"

  def __init__(self, direction: str, k: int):
    self.name, self.heading = f"{direction}_r{k}", f"{direction.upper()} R@{k}"
    self._from_text = direction == "t2i"

  @property
  def width(self) -> int:
    return 1 + self._from_text

  @property
  def signature(self) -> str:
    return f"mean={'captions' if self._from_text else 'images'},ties=expected"

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    """Returns the share of hits."""
    return _ratio(totals) if self._from_text else totals[..., 0] / count

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], the share of each picture's queries."""
    return _ratio(statistics) if self._from_text else statistics[:, 0]


def _ratio(totals: np.ndarray) -> np.ndarray:
  hits, tries = totals[..., 0], totals[..., 1]
  return np.divide(hits, tries, out=np.full(np.shape(hits), np.nan), where=tries > 0)[()]


METRICS = (Top1(), FixedTop1(), *(Recall(direction, k) for direction in ("t2i", "i2t") for k in DEPTHS))
