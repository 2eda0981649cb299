"""How to read the report, and how to get the same numbers again."""

from xmcap.scoring import tables
from xmcap.scoring.report import elements
from xmcap.scoring.report.chart import Others

_CIDER = """Agreement of a caption with its references: the mean cosine of their tf-idf vectors of 1- to 4-word
sequences, times 10 (Vedantam et al., 2015, without stemming). From 0 to 10; a rare sequence weighs more."""
_CIDER_D = """CIDEr with repeated words clipped and differences in length penalised, as in the COCO evaluation.
What many papers call CIDEr."""
_BLEU = """Share of a caption's word sequences, of up to as many words as its number says, that are in a
reference; short captions are penalised (Papineni et al., 2002). From 0 to 100; that of a language is computed from
all of its captions at once, that of an image from its own."""
_CHRF = """Sequences of characters that a caption and a reference share (Popovi\u0107, 2015): depends little on what a
word is. From 0 to 100."""
_ROUGE_L = """The longest sequence of words, with gaps, that a caption shares with a reference (Lin, 2004). From 0 to
1."""
_EXACT = "Share of captions equal to one of the references, but for case and punctuation."

_METRICS = {
  "cider": ("CIDEr", _CIDER),
  "cider_d": ("CIDEr-D", _CIDER_D),
  "bleu": ("BLEU", _BLEU),
  "chrf": ("chrF", _CHRF),
  "rouge_l": ("ROUGE-L", _ROUGE_L),
  "exact": ("Exact", _EXACT),
}
_INTERVALS = """95% bootstrap intervals: images are resampled, in all languages together. They say how much the
scores would move with other images of the same kind, not how much with other references."""
_BETWEEN = """Scores depend on what a word is and on how much references agree, so compare systems in a language,
not languages of a system."""


def section(table: tables.Table, others: Others) -> str:
  """Returns the section."""
  families = dict.fromkeys("bleu" if metric.startswith("bleu_") else metric for metric in table.metrics)
  entries = [_METRICS[family] for family in families if family in _METRICS]
  if table.intervals:
    entries.append(("Intervals", _INTERVALS))
  entries.append(("Between languages", _BETWEEN))
  items = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in entries)
  further = "".join(
    f"<p>Of {elements.escape(name)}:</p>{_signature(other.signature)}"
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


def _signature(signature: str) -> str:
  return f'<pre tabindex="0"><code>{elements.escape(signature).replace("|", "<wbr>|")}</code></pre>'
