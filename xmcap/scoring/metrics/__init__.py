"""Metrics, one family per file."""

from collections.abc import Mapping

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.scoring.metrics import ranked, tags
from xmcap.scoring.metrics.base import CaptionMetric, Corpus, Cosines, Metric, interleave
from xmcap.scoring.metrics.bert_score import BertScore
from xmcap.scoring.metrics.bleu import Bleu, CocoBleu, SentenceBleu
from xmcap.scoring.metrics.chrf import Chrf
from xmcap.scoring.metrics.cider import Cider, CiderD
from xmcap.scoring.metrics.exact import Exact
from xmcap.scoring.metrics.meteor import Meteor
from xmcap.scoring.metrics.meteor_char import MeteorChar
from xmcap.scoring.metrics.rouge import RougeL, RougeLF1
from xmcap.scoring.metrics.spice import Spice
from xmcap.scoring.metrics.vectors import ClipScore, RefClipScore, Similarity
from xmcap.terminal import shown

CAPTION_METRICS: dict[str, CaptionMetric] = {
  metric.name: metric
  for metric in (
    Cider(),
    CiderD(),
    *(Bleu(n) for n in (1, 2, 3, 4)),
    SentenceBleu(),
    *(CocoBleu(n) for n in (1, 2, 3, 4)),
    Chrf(),
    RougeL(),
    RougeLF1(),
    Exact(),
    Meteor(),
    MeteorChar(),
    Spice(),
    BertScore(),
    ClipScore(),
    RefClipScore(),
    Similarity("max"),
    Similarity("mean"),
  )
}
"""Caption metrics by name, with the parameters that are reported, in the order of the columns of a table."""

METRICS: dict[str, Metric] = {
  **CAPTION_METRICS,
  **{metric.name: metric for metric in (*ranked.METRICS, *tags.METRICS)},
}
"""All metrics of tables: those of captions, zero-shot classification, retrieval and tags."""

_GROUPS = {
  "bleu": tuple(name for name in CAPTION_METRICS if name.startswith("bleu_")),
  "coco_bleu": tuple(name for name in CAPTION_METRICS if name.startswith("coco_bleu_")),
  "similarity": ("similarity_max", "similarity_mean"),
  "all": tuple(name for name, metric in CAPTION_METRICS.items() if not metric.is_extra),
}
"""Names that stand for several metrics."""


def parse(text: str, metrics: Mapping[str, Metric] = CAPTION_METRICS) -> tuple[str, ...]:
  """Returns the metrics named by an option, such as `cider,bleu,chrf`, in the order of the columns of a table.

  `bleu` means bleu_1 to bleu_4, `similarity` both of its kinds, and `all` all but extras. Raises UsageError for an
  unknown or repeated name.
  """
  chosen: set[str] = set()
  for name in (part.strip() for part in text.split(",")):
    if name not in metrics and name not in _GROUPS:
      raise wording.unknown_name("metric", name, [*metrics, *_GROUPS])
    for member in _GROUPS.get(name, (name,)):
      if member in chosen:
        raise UsageError(f"metric '{member}' is named twice in '{shown(text)}'; name it once")
      chosen.add(member)
  return tuple(name for name in metrics if name in chosen)


__all__ = [
  "CAPTION_METRICS",
  "METRICS",
  "BertScore",
  "Bleu",
  "CaptionMetric",
  "Chrf",
  "Cider",
  "CiderD",
  "CocoBleu",
  "Corpus",
  "Cosines",
  "Exact",
  "Meteor",
  "MeteorChar",
  "Metric",
  "RougeL",
  "Spice",
  "interleave",
  "parse",
]
