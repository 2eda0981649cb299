"""Metrics of matrices of scores: where the one right candidate of a query stands.

Its rank is the number of candidates that score as high or higher, itself among them: with ties the worst, so that equal
scores throughout are the worst ranking and not the best. (Metrics of embeddings take the mean over all orders.)
"""

from xmcap.scoring.metrics import base
from xmcap.scoring.metrics.ranked import DEPTHS


class _OfRanks(base.Metric):
  counted = "candidates"

  @property
  def signature(self) -> str:
    return "mean=queries,ties=worst"


class ReciprocalRank(_OfRanks):
  """Mean of 1 / rank (MRR), in [0, 1]."""

  name = "mrr"
  heading = "MRR"


class RecallAt(_OfRanks):
  """Share of the queries whose right candidate has a rank of k or better."""

  percent = True
  decimals = 4

  def __init__(self, k: int):
    self.k = k
    self.name, self.heading = f"recall_{k}", f"R@{k}"


METRICS = (ReciprocalRank(), *(RecallAt(k) for k in DEPTHS))
