"""The notes at the top of the report, and the explanations and signatures at the end."""

import contextlib
import re
from collections.abc import Iterable, Mapping

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.pages.report import elements
from xmcap.pages.report.elements import escape
from xmcap.pages.report.scores import OF_MEDIANS, Others, language_groups
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.tables import note_order, score_table
from xmcap.scoring.tables.signature import Signature, shortened

_METRICS = {
  "cider": """Mean cosine of the tf-idf vectors of n-grams (1 to 4 words) in a caption and its references, times 10
(Vedantam et al., 2015, without stemming). From 0 to 10; rare n-grams weigh more.""",
  "cider_d": """CIDEr with clipped counts and a penalty for differences in length, as in the COCO evaluation. Many
papers call it CIDEr.""",
  "bleu": """Precision of the n-grams of a caption, of up to as many words as the number says, with a brevity penalty
(Papineni et al., 2002). From 0 to 100. The score of a language is computed from the counts of all captions, the score
of an image from its own.""",
  "chrf": """F score of character n-grams (Popovi\u0107, 2015), which depends little on word boundaries. From 0 to
100.""",
  "sentence_bleu": "The mean of the BLEU-4 of each caption (Papineni et al., 2002). From 0 to 100.",
  "rouge_l": """F score of the longest common subsequence of words (Lin, 2004). From 0 to 1.""",
  "rouge_l_f1": """F1 score of the longest common subsequence of words (Lin, 2004), the largest over the references.
From 0 to 1.""",
  "meteor": """Matches of words, stems, synonyms and paraphrases, weighted towards recall, with a penalty for word order
(Denkowski and Lavie, 2014), computed by the Java program in pycocoevalcap. From 0 to 1.""",
  "meteor_char": """METEOR on characters (words in Latin script), the way the Chinese captions of COCO-CN were scored.
From 0 to 1.""",
  "spice": """F score of the objects, attributes and relations that an English parser finds in the caption and its
references (Anderson et al., 2016), computed by the Java program in pycocoevalcap. From 0 to 1.""",
  "clip_score": """2.5 times the cosine of the embeddings of caption and picture, or 0 (CLIPScore; Hessel et al., 2021).
It does not see the language, so read it beside language fidelity.""",
  "ref_clip_score": """Harmonic mean of CLIP-S and the largest cosine of the embeddings of caption and references
(RefCLIPScore; the same). It does not see the language either.""",
  "similarity": """Largest and mean cosine of the embeddings of a caption and its references, by the encoder that the
notes name. An encoder of many languages gives a caption and its translation nearly the same embedding, so read it
beside language fidelity.""",
  "top1": """Share of pictures whose class scores highest among all classes of the language. Tied classes share the
hit.""",
  "top1_fixed": """Top-1 among a fixed number of random classes, which makes languages comparable. Languages with fewer
classes keep all of them.""",
  "mrr": "Mean over queries of 1 / rank of the correct candidate. Ties count with the worst rank.",
  "recall": "Share of queries whose correct candidate is among the first k. Ties count with the worst rank.",
  "t2i": """Share of captions whose picture is among the first k of all pictures of the language; MRR is the mean of 1 /
rank of that picture, nDCG@10 of 1 / log2(rank + 1) if the rank is 10 or less.""",
  "i2t": """Share of pictures with one of their captions among the first k of all captions of the language; MRR is the
mean of 1 / rank of the first of these, nDCG@10 counts them all.""",
  "tags": """Share of the first k tags that are true (P), share of true tags among the first k (R), and their harmonic
mean per picture (F), each averaged over pictures.""",
  "exact": "Share of captions equal to one of the references, ignoring case and punctuation.",
}
_GROUP_NAMES = {
  "english": "English",
  "low_resource": "Low-resource languages",
  "other": "Other languages",
  "web": "Languages used most on the web",
}
_GROUPS = """XM3600's 36 languages in three groups, as the paper of Thapliyal et al. (2022), section 2.1, chose
them: English; web, the 30 languages beside English that are used most on the web; low-resource, five with little
text (Bengali, Cusco Quechua, Maori, Swahili, Telugu). Languages outside the 36 are other."""
_SCRIPTS = """A script is named with its code of ISO 15924, such as Arab for the Arabic script, in which Arabic and
Persian are written."""
_GROUPS_BY_CLASSES = """The groups of Babel-ImageNet (Geigle et al., 2024) by the number of classes with a name in the
language: 1 to 100, 101 to 333, 334 to 666, and more."""
_IN_NO_MEAN = {
  "English": "As in the paper, no mean includes English.",
  "other": "Other languages are not among the paper's 100, over which the means are.",
}
_MEDIAN = "Median over queries of the rank of the correct candidate. Ties count with the worst rank."
_MEDIAN_OF_DIRECTION = """Median over captions (T2I) or pictures (I2T) of the rank of the first correct candidate, from
1; tied candidates stand in random order. It is not averaged over languages."""
_EQUAL = """CIDEr and CIDEr-D are means over n-grams of 1, 2, 3 and 4 words, and over the references. (1) If there
are several references, the caption is compared with each, and with those that differ it scores less. (2) A caption
of fewer than four words has no n-grams of four words, and those count as 0: a caption of three words scores at most
7.5, of two 5, of one 2.5. (3) Words that occur in the references of every image have no weight. So 10 is reached
only by captions of four words and more with one reference, or with equal ones; compare a score with that of another
system, not with 10."""
_INTERVALS = """95% bootstrap intervals: images are resampled, the same in all languages. They show how much scores
would vary with other images of the same kind, not with other references."""
_HEADINGS = {
  "bleu": "BLEU",
  "t2i": "T2I R@k, MRR, nDCG",
  "i2t": "I2T R@k, MRR, nDCG",
  "recall": "R@k",
  "similarity": "Similarity",
  "tags": "P, R, F@k",
}
_BETWEEN_RANKINGS = """Candidates differ between languages, and more of them make the task harder. Compare systems
within a language, not languages of a system."""
_BETWEEN = """Scores depend on the tokeniser and on how much the references agree. Compare systems within a language,
not languages of a system."""


_OPTION = re.compile(r"\S*--[a-z]\S*")
# CLDR's names for the scripts of the table, which take a tenth of a second to look up.
_SCRIPT_NAMES = {
  "Arab": "Arabic", "Beng": "Bangla", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Grek": "Greek", "Hans": "Simplified",
  "Hebr": "Hebrew", "Jpan": "Japanese", "Kore": "Korean", "Latn": "Latin", "Telu": "Telugu", "Thai": "Thai",
}  # fmt: skip
OF_GROUPS, _OF_EQUAL = "about-groups", "about-equal"  # ids of explanations; the scripts link to them


def anchor(metric: str) -> str:
  """Returns the id of the explanation of a metric on the page; "" if there is none."""
  family = metric.partition("_")[0]
  name = family if family in _HEADINGS else metric
  return f"about-{name}" if name in _METRICS else ""


def group_name(kind: str, value: str) -> str:
  """Returns the name of a `group` or a `script` of languages, such as `Arabic script (Arab)`."""
  if kind == "group":
    return _GROUP_NAMES[value]
  name = _SCRIPT_NAMES.get(value) or languages.script_name(value)
  # CLDR's names are written beside that of a language: Chinese (Simplified).
  return f"{name}{' Han' if value in ('Hans', 'Hant') else ''} script ({value})"


def _about_groups(table: score_table.Table, has_scripts: bool) -> dict[str, tuple[str, str]]:
  """Returns the entry of the groups of languages, and of their scripts if the page has them."""
  if not has_scripts:
    groups, texts = language_groups(table), [_GROUPS]
    if "classes" in table.counts:
      texts = [_GROUPS_BY_CLASSES, *(text for name, text in _IN_NO_MEAN.items() if name in groups)]
    return {"Groups": (OF_GROUPS, f"{' '.join(texts)} Here: {escape(_listed(groups))}.")}
  members: dict[str, list[str]] = {}
  for code in table.rows:
    language = languages.get(code)
    for kind, value in (("group", language.group), ("script", language.script)):
      members.setdefault(group_name(kind, value), []).append(code)
  return {"Groups and scripts": (OF_GROUPS, f"{_GROUPS} {_SCRIPTS} Here: {escape(_listed(members))}.")}


def _listed(members: Mapping[str, Iterable[str]]) -> str:
  return "; ".join(f"{name}: {', '.join(codes)}" for name, codes in members.items())


def header(title: str, counts: str, signature: str) -> str:
  """Returns the head of a report, with the short form of its signature; a foreign signature stays as it is."""
  with contextlib.suppress(UsageError):
    signature = Signature.parse(signature).short
  return f"""<header class="page-head"><h1>{escape(title)}</h1>
<p class="lede">{counts}</p>
<p class="signature"><code>{_breakable(signature)}</code></p></header>
"""


def notices(table: score_table.Table, others: Others, name: str = "") -> str:
  """Returns a box with the notes of the tables, and the reasons why other tables are incomparable; "" if none.

  `name` is the name of the system of `table`, if its notes must be distinguished from those of other systems.
  """
  of_systems = note_order.by_text(
    (system, note) for system, of_system in [(name, table), *others] for note in of_system.notes
  )
  names = {
    note: ", ".join(f"<b>{escape(system)}</b>" for system in named if system) for named, note in of_systems
  }
  notes = [
    f"{names[note]}: {_text(note)}" if names[note] else _text(note) for note in note_order.worst_first(names)
  ]
  differing = [
    f"<b>{escape(name)}</b> was scored differently, so its scores are not comparable: {_text(difference)}"
    for name, other in others
    for difference in _differences(table, other)
  ]
  return elements.notices([*differing, *notes])


def _text(note: str) -> str:
  """Returns a note as HTML, in whose options, such as --clean=prefix, no line ends."""
  return _OPTION.sub(r'<span class="option">\g<0></span>', escape(note))


def reading(table: score_table.Table, others: Others, has_scripts: bool = False) -> str:
  """Returns the section that explains the metrics and gives the signatures.

  `has_scripts` says whether the page has means over scripts.
  """
  entries: dict[str, tuple[str, str]] = {}
  for metric in table.metrics:
    if name := anchor(metric):
      family = metric.partition("_")[0]
      heading = _HEADINGS.get(family) or metrics_lib.METRICS[metric].heading
      entries[heading] = name, _METRICS[name.removeprefix("about-")]
  if {"cider", "cider_d"} & set(table.metrics):
    entries["Equal, and below 10"] = _OF_EQUAL, _EQUAL
  if table.intervals:
    entries["Intervals"] = "about-intervals", _INTERVALS
  for name in table.medians:
    about = _MEDIAN if name == "median_rank" else _MEDIAN_OF_DIRECTION
    entries["Median rank"] = OF_MEDIANS, about
  entries |= _about_groups(table, has_scripts)
  between = _BETWEEN if "references" in table.counts else _BETWEEN_RANKINGS
  entries["Between languages"] = "about-between", between
  items = "".join(
    elements.tag("div", f"<dt>{heading}</dt><dd>{text}</dd>", id=name)
    for heading, (name, text) in entries.items()
  )
  further = "".join(
    f"<p>{escape(name)}:</p>{_signature(other.signature)}"
    for name, other in others
    if other.signature != table.signature
  )
  return elements.section(
    "reading",
    "How to read this",
    f"""<dl class="entries">{items}</dl>
<p class="note">More on each: docs/scoring.md of xmcap.</p>
<h3 id="reproduce">How to reproduce</h3>
<p>The signature contains everything needed to get the same numbers from the same files:</p>
{_signature(table.signature)}{further}""",
  )


def _differences(table: score_table.Table, other: score_table.Table) -> list[str]:
  if table.signature == other.signature:
    return []
  shared = tuple(metric for metric in table.metrics if metric in other.metrics)
  try:
    differing = Signature.parse(table.signature).differences(Signature.parse(other.signature), shared)
  except UsageError:
    return ["its signature is not from xmcap"]
  # Long values are shown only at the end of the page.
  return [text if ":" in text else f"{text}, see How to reproduce" for text in shortened(differing)]


def _signature(signature: str) -> str:
  return f'<pre tabindex="0"><code>{_breakable(signature)}</code></pre>'


def _breakable(signature: str) -> str:
  return escape(signature).replace("|", "<wbr>|")
