"""Metrics of the k tags that a system ranks first for a picture: precision, recall and F, each a mean over pictures.

Li et al., "COCO-CN" (2019), section IV: P = hits / k, R = hits / true tags, F = 2 P R / (P + R), or 0. Each is a mean
over pictures, so F is not that of the means. Where tags tie at the k-th place, hits are their expected number over all
orders; F = 2 hits / (k + true tags) is linear in them, as P and R are.
"""

from xmcap.scoring.metrics import base

DEPTHS = (1, 3, 5, 10)
"""The numbers of tags that may be measured."""


class _OfTags(base.Metric):
  percent = True
  decimals = 3
  counted = "tags"
  letter: str

  def __init__(self, k: int):
    self.k = k
    self.name, self.heading = f"tags_{self.letter.lower()}{k}", f"{self.letter}@{k}"

  @property
  def signature(self) -> str:
    return f"k={self.k},mean=images,ties=expected"


class Precision(_OfTags):
  """Share of the k tags that are true."""

  letter = "P"


class Recall(_OfTags):
  """Share of the true tags that are among the k."""

  letter = "R"


class F(_OfTags):
  """Harmonic mean of the two, of each picture."""

  letter = "F"


METRICS = tuple(metric(k) for k in DEPTHS for metric in (Precision, Recall, F))
