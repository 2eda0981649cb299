"""Metrics of captions; one family a file."""

from xmcap.scoring.metrics.base import Corpus, Metric
from xmcap.scoring.metrics.cider import Cider, CiderD
from xmcap.scoring.metrics.exact import Exact

METRICS: dict[str, Metric] = {metric.name: metric for metric in (Cider(), CiderD(), Exact())}
"""Name -> metric with the parameters that are reported, in the order of a table's columns."""

__all__ = ["METRICS", "Cider", "CiderD", "Corpus", "Exact", "Metric"]
