"""Measures of language health for the captions of one language."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap.scoring.health import fidelity, leftovers, scripts, truncation
from xmcap.scoring.health.vocabularies import Vocabularies
from xmcap.scoring.metrics.ngrams import Ngrams

_NGRAM = 4


@dataclasses.dataclass(frozen=True)
class Health:
  """The measures of one language, explained in `MEASURES`; None if unknown.

  `measure` leaves `copy` at None and residue, from `markup` to `lines_references`, at 0, as both need the captions of
  other languages: see `copies` and `residual`. The `findings` are what is clearly more frequent than in the references:
  see `notes`. The `rows` are int64, the captions of each of `faults.FAULTS` in the order of the images.
  """

  wrong_script: float | None
  wrong_language: float | None
  wrong_language_references: float | None
  undecided: float | None
  undecided_references: float | None
  empty: float
  repetitive: float | None
  truncated: float | None
  truncated_references: float | None
  copy: float | None
  words: float
  length_ratio: float | None
  markup: float = 0.0
  markup_references: float = 0.0
  prefix: float = 0.0
  suffix: float = 0.0
  lines: float = 0.0
  lines_references: float = 0.0
  most_frequent: float = 0.0
  most_frequent_references: float = 0.0
  no_letter: float = 0.0
  no_letter_references: float = 0.0
  over_long: float = 0.0
  over_long_references: float = 0.0
  most_frequent_caption: str = ""
  findings: tuple[leftovers.Finding, ...] = ()
  rows: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict, compare=False, repr=False)

  def as_dict(self) -> dict[str, float | None]:
    """Returns measure -> value, in the order of `MEASURES`."""
    return {name: getattr(self, name) for name in MEASURES}


@dataclasses.dataclass(frozen=True)
class Measure:
  """How a measure is shown; with `percent` its value is a share in [0, 1]."""

  heading: str
  explanation: str
  percent: bool = True
  decimals: int = 1

  def format(self, value: float | None) -> str:
    """Returns a value as tables print it, `-` if it is unknown."""
    if value is None:
      return "-"
    return f"{100 * value:.{self.decimals}f}%" if self.percent else f"{value:.{self.decimals}f}"


MEASURES: dict[str, Measure] = {
  "wrong_script": Measure(
    "Wrong script",
    "Share of captions with fewer than half of their letters in the language's scripts, among those with letters.",
  ),
  "wrong_language": Measure(
    "Wrong language",
    "Share of captions in another language, by script, the words of the references and py3langid, or with broken "
    "characters, among those that these decide; the rest of 100% is the language fidelity.",
  ),
  "wrong_language_references": Measure(
    "Wrong language, references",
    "The same for a sample of the references, each judged by the others: the error rate on human text.",
  ),
  "undecided": Measure(
    "Undecided", "Share of captions that may be in the language or in another one, among those with letters."
  ),
  "undecided_references": Measure("Undecided, references", "The same for the references."),
  "empty": Measure("Empty", "Share of captions without a word."),
  "repetitive": Measure(
    "Repetitive", f"Share of captions that repeat a sequence of {_NGRAM} words, among those with words."
  ),
  "truncated": Measure(
    "Truncated",
    "Share of captions that end in punctuation or a word that cannot end a sentence, among those with words. "
    "It finds about half of the truncated captions; - if there are too few references to learn such words.",
  ),
  "truncated_references": Measure(
    "Truncated, references", "The same for the references, each judged against the others."
  ),
  "copy": Measure(
    "Copy",
    "Share of captions that are also the caption of the same image in another language, ignoring case, spaces and "
    "punctuation at the ends, among those that are not empty.",
  ),
  "words": Measure("Words", "Mean number of words per caption.", percent=False),
  "length_ratio": Measure(
    "Length ratio", "Mean words per caption divided by mean words per reference.", percent=False, decimals=2
  ),
  "markup": Measure(
    "Markup",
    "Share of captions with reasoning, special tokens, tokens or coordinates of places, JSON, HTML, LaTeX, "
    "Markdown, or broken characters.",
  ),
  "markup_references": Measure("Markup, references", "The same for the references."),
  "prefix": Measure(
    "Beginning",
    "Share of captions that begin with words that many captions share and hardly a reference has.",
  ),
  "suffix": Measure("End", "The same for the ends of captions."),
  "lines": Measure("Lines", "Share of captions with several lines, after markup and shared beginnings."),
  "lines_references": Measure("Lines, references", "The same for the references."),
  "most_frequent": Measure(
    "Most frequent", "Share of the most frequent caption among those that are not empty."
  ),
  "most_frequent_references": Measure("Most frequent, references", "The same for the references."),
  "no_letter": Measure("No letter", "Share of captions without a letter, though not empty."),
  "no_letter_references": Measure("No letter, references", "The same for the references."),
  "over_long": Measure(
    "Over-long", "Share of captions with more than twice as many words as 99 of 100 references have."
  ),
  "over_long_references": Measure("Over-long, references", "The same for the references."),
}
"""Measures by name, in the order of the columns."""


def measure(
  language: str,
  captions: Sequence[str],
  counts: Ngrams,
  lexicon: Vocabularies,
  verdicts: np.ndarray,
) -> Health:
  """Measures the captions of one language.

  `captions` has for each image the hypothesis, then its references, as the rows of `counts`; `verdicts` are those of
  `fidelity.judge` on the hypotheses, and `lexicon` the words of the references. Raises UsageError if the language is
  unknown, and XmcapError if py3langid is not installed.
  """
  is_hypothesis = ~counts.is_reference
  letters, own = scripts.count_letters(captions, language)
  has_letters = letters > 0
  lengths = counts.length[is_hypothesis]
  with_words = int(np.count_nonzero(lengths))
  ngrams = counts.orders(_NGRAM)[-1]
  twice = np.unique(ngrams.caption[ngrams.count > 1])
  truncated, truncated_references, truncated_rows = truncation.shares(captions, counts)
  of_references = fidelity.judge(language, lexicon.samples[language], lexicon, are_references=True)
  hypotheses = list(itertools.compress(captions, is_hypothesis))
  references = list(itertools.compress(captions, counts.is_reference))
  left = leftovers.measure(
    hypotheses,
    references,
    has_letters[is_hypothesis],
    has_letters[counts.is_reference],
    lengths,
    counts.length[counts.is_reference],
  )
  wrong = np.flatnonzero(verdicts == fidelity.Verdict.WRONG)
  wrong_references = int((of_references == fidelity.Verdict.WRONG).sum())
  in_another = leftovers.Finding(
    "wrong_language",
    len(wrong),
    len(verdicts),
    wrong_references,
    len(of_references),
    tuple(hypotheses[row] for row in wrong[:1].tolist()),
  )
  rows = {
    "wrong_script": np.flatnonzero((2 * own < letters)[is_hypothesis]),
    "wrong_language": wrong,
    "empty": np.flatnonzero(lengths == 0),
    "repetitive": counts.image[twice[is_hypothesis[twice]]],
    "truncated": counts.image[truncated_rows],
    **left.rows,
  }
  mean, reference_mean = float(lengths.mean()), float(counts.length[counts.is_reference].mean())
  return Health(
    wrong_script=_share((2 * own < letters)[is_hypothesis & has_letters]),
    wrong_language=fidelity.share_wrong(verdicts),
    wrong_language_references=fidelity.share_wrong(of_references),
    undecided=fidelity.share_undecided(verdicts),
    undecided_references=fidelity.share_undecided(of_references),
    empty=1 - with_words / len(lengths),
    repetitive=len(rows["repetitive"]) / with_words if with_words else None,
    truncated=truncated,
    truncated_references=truncated_references,
    copy=None,
    words=mean,
    length_ratio=mean / reference_mean if reference_mean else None,
    **left.values,
    most_frequent_caption=left.most_frequent_caption,
    findings=(*left.findings, *([in_another] if in_another.is_clear else [])),
    rows=rows,
  )


def _share(flags: Sequence[bool] | np.ndarray) -> float | None:
  return float(np.mean(flags)) if len(flags) else None
