"""Scores against people: side-by-side ratings, THumB ratings, and correlations with metrics.

from xmcap.scoring import human

paper = human.comparisons.correlate(human.comparisons.read_published(), paper=True)
print(paper.terminal())  # Table 6 of the XM3600 paper

pairs = human.sxs.evaluate(human.sxs_ratings.read("ratings.jsonl"))
pairs.tallies[0].delta_sxs

ratings = human.thumb_ratings.read("mscoco_THumB-1.0.jsonl")
human.thumb.evaluate(ratings).systems[0].means["total"]
"""

from xmcap.scoring.human import (
  agreement,
  comparisons,
  correlation,
  score_tables,
  sxs,
  sxs_ratings,
  thumb,
  thumb_correlations,
  thumb_ratings,
)

__all__ = [
  "agreement",
  "comparisons",
  "correlation",
  "score_tables",
  "sxs",
  "sxs_ratings",
  "thumb",
  "thumb_correlations",
  "thumb_ratings",
]
