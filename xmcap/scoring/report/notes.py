"""The top and the end of the report: what was scored, what one must know about it, and how to read it."""

import contextlib

from xmcap.errors import UsageError
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import elements
from xmcap.scoring.report.elements import escape
from xmcap.scoring.report.scores import Others
from xmcap.scoring.signature import Signature, shortened

_METRICS = {
  "cider": """Agreement of a caption with its references: the mean cosine of their tf-idf vectors of 1- to 4-word
sequences, times 10 (Vedantam et al., 2015, without stemming). From 0 to 10; a rare sequence weighs more.""",
  "cider_d": """CIDEr with repeated words clipped and differences in length penalised, as in the COCO evaluation.
What many papers call CIDEr.""",
  "bleu": """Share of a caption's word sequences, of up to as many words as its number says, that are in a
reference; short captions are penalised (Papineni et al., 2002). From 0 to 100; that of a language is computed from
all of its captions at once, that of an image from its own.""",
  "chrf": """Sequences of characters that a caption and a reference share (Popovi\u0107, 2015): depends little on what
a word is. From 0 to 100.""",
  "rouge_l": """The longest sequence of words, with gaps, that a caption shares with a reference (Lin, 2004). From 0
to 1.""",
  "meteor": """Matches of words, stems, synonyms and paraphrases, by recall more than precision, less where their
order differs (Denkowski and Lavie, 2014), counted by the Java program of pycocoevalcap. From 0 to 1.""",
  "meteor_char": """Equal characters (of Latin script: words), by recall more than precision, less where their order
differs: METEOR as Chinese captions of COCO-CN were scored. From 0 to 1.""",
  "spice": """F score of the objects, attributes and relations that an English parser finds in a caption and in its
references (Anderson et al., 2016), by the Java program of pycocoevalcap. From 0 to 1.""",
  "top1": """Share of the pictures whose class scores highest among all classes of the language. Classes that score the
same share the hit.""",
  "top1_fixed": """The same among random classes of a fixed number, which makes languages comparable; those with fewer
classes are unchanged.""",
  "mrr": "Mean over queries of 1 / rank of the right candidate. Where scores tie, the worst rank counts.",
  "recall": "Share of the queries whose right candidate is among the first k. Where scores tie, the worst rank counts.",
  "t2i": "Share of the captions whose picture is among the first k of all pictures of the language.",
  "i2t": "Share of the pictures of which a caption is among the first k of all captions of the language.",
  "tags": """Share of the k tags that are true (P), share of the true tags that are among the k (R), and their harmonic
mean of each picture (F); each is a mean over pictures.""",
  "exact": "Share of captions equal to one of the references, but for case and punctuation.",
}
_INTERVALS = """95% bootstrap intervals: images are resampled, in all languages together. They say how much the
scores would move with other images of the same kind, not how much with other references."""
_HEADINGS = {"bleu": "BLEU", "t2i": "T2I R@k", "i2t": "I2T R@k", "recall": "R@k", "tags": "P, R, F@k"}
_BETWEEN_RANKINGS = """Languages have other candidates, and more of them are harder, so compare systems in a language,
not languages of a system."""
_BETWEEN = """Scores depend on what a word is and on how much references agree, so compare systems in a language,
not languages of a system."""


def short_signature(signature: str) -> str:
  """Returns the short form of a signature as HTML; as it is if it is none of ours."""
  with contextlib.suppress(UsageError):
    signature = Signature.parse(signature).short
  return f"<code>{_breakable(signature)}</code>"


def notices(table: tables.Table, others: Others, name: str = "") -> str:
  """Returns a box with the tables' notes, and with what makes other tables incomparable; "" without any.

  `name` is that of the system of `table`, where its notes must be told from those of other systems.
  """
  about = f"<b>{escape(name)}</b>: " if name else ""
  notes = [f"{about}{escape(note)}" for note in table.notes]
  for name, other in others:
    notes += [f"<b>{escape(name)}</b>: {escape(note)}" for note in other.notes]
    notes += [
      f"<b>{escape(name)}</b> was scored in another way, so its scores do not compare: {escape(difference)}"
      for difference in _differences(table, other)
    ]
  return elements.notices(notes)


def reading(table: tables.Table, others: Others) -> str:
  """Returns the section that explains the metrics and gives the signatures."""
  families = dict.fromkeys(
    metric.partition("_")[0] if metric.startswith(tuple(f"{family}_" for family in _HEADINGS)) else metric
    for metric in table.metrics
  )
  entries = {
    _HEADINGS.get(family) or metrics_lib.METRICS[family].heading: _METRICS[family]
    for family in families
    if family in _METRICS
  }
  entries |= {"Intervals": _INTERVALS} if table.intervals else {}
  entries["Between languages"] = _BETWEEN if "references" in table.counts else _BETWEEN_RANKINGS
  items = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in entries.items())
  further = "".join(
    f"<p>Of {escape(name)}:</p>{_signature(other.signature)}"
    for name, other in others
    if other.signature != table.signature
  )
  return elements.section(
    "reading",
    "How to read this",
    f"""<dl class="entries">{items}</dl>
<h3 id="reproduce">How to reproduce</h3>
<p>The signature holds all that is needed to get the same numbers again from the same files:</p>
{_signature(table.signature)}{further}""",
  )


def _differences(table: tables.Table, other: tables.Table) -> list[str]:
  if table.signature == other.signature:
    return []
  shared = tuple(metric for metric in table.metrics if metric in other.metrics)
  try:
    found = Signature.parse(table.signature).differences(Signature.parse(other.signature), shared)
  except UsageError:
    return ["its signature is none of xmcap's"]
  # What is too long to be read is at the end of the page.
  return [text if ":" in text else f"{text}, see How to reproduce" for text in shortened(found)]


def _signature(signature: str) -> str:
  return f'<pre tabindex="0"><code>{_breakable(signature)}</code></pre>'


def _breakable(signature: str) -> str:
  return escape(signature).replace("|", "<wbr>|")
