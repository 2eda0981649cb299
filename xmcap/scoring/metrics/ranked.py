"""Ranking metrics, for zero-shot classification and retrieval.

If candidates tie, the statistic is the probability of a hit when the tied candidates are in random order (see
`xmcap.ranked.ranks`). In matrices of scores, where each query has one right candidate, ties count as the worst
rank instead, so that equal scores throughout are the worst ranking.
"""

import dataclasses

import numpy as np

from xmcap.scoring.metrics import base

DEPTHS = (1, 5, 10)
"""The values of k for recall at k in retrieval."""


@dataclasses.dataclass(frozen=True)
class Mean(base.Metric):
  """A mean over images (or queries), each of which has its score as the only statistic."""

  name: str
  heading: str
  signature: str
  counted: str
  percent: bool = False
  decimals: int = 3


class Ratio(Mean):
  """A share with two statistics per image, the hits and the tries; NaN without tries."""

  width = 2

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    hits, tries = totals[..., 0], totals[..., 1]
    return np.divide(hits, tries, out=np.full(np.shape(hits), np.nan), where=tries > 0)[()]


def _of_direction(kind: type[Mean], direction: str, mean: str) -> list[Mean]:
  """Returns recall at k, the share of queries with a right candidate among the first k, MRR and nDCG at 10: [0, 1]."""
  signature, heading = f"mean={mean},ties=expected", direction.upper()
  recalls = [
    kind(f"{direction}_r{k}", f"{heading} R@{k}", signature, "captions", percent=True, decimals=4)
    for k in DEPTHS
  ]
  others = {"mrr": "MRR", "ndcg": "nDCG@10"}
  return recalls + [
    kind(f"{direction}_{name}", f"{heading} {text}", signature, "captions") for name, text in others.items()
  ]


METRICS = (
  Mean("top1", "Top-1", "ties=expected", "classes", percent=True, decimals=4),
  # Among as many random classes in each language; the tries of an image are the draws that contain its class.
  Ratio("top1_fixed", "Top-1, fixed size", "ties=expected", "classes", percent=True, decimals=4),
  *_of_direction(Ratio, "t2i", "captions"),  # the tries of an image are its captions
  *_of_direction(Mean, "i2t", "images"),  # any caption of an image is right
  Mean("mrr", "MRR", "mean=queries,ties=worst", "candidates"),
  *(
    Mean(f"recall_{k}", f"R@{k}", "mean=queries,ties=worst", "candidates", percent=True, decimals=4)
    for k in DEPTHS
  ),
)
