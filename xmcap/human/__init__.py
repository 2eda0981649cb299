"""Human evaluation: side-by-side ratings, THumB ratings, and correlations with metrics.

from xmcap.human import rated_pairs, sxs, thumb, thumb_ratings

paper = rated_pairs.correlate(rated_pairs.read_published())
print(paper.terminal())  # Table 6 of the XM3600 paper

sxs.evaluate(sxs.read("ratings.jsonl")).tallies[0].delta_sxs
thumb.evaluate(thumb_ratings.read("mscoco_THumB-1.0.jsonl")).systems[0].means["total"]
"""
