"""The measures of language health of one language's captions."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.health import identifier, scripts, truncation
from xmcap.scoring.metrics.ngrams import Ngrams

SAMPLE = 1000
"""How many captions, and how many references, of a language the identifier reads at most."""

_NGRAM = 4


@dataclasses.dataclass(frozen=True)
class Health:
  """The measures of one language, None where one is unknown; `MEASURES` explains each.

  `measure` leaves `copy` at None, since it needs the captions of other languages: see `copies`.
  """

  wrong_script: float | None
  wrong_language: float | None
  wrong_language_references: float | None
  empty: float
  repetitive: float | None
  truncated: float | None
  truncated_references: float | None
  copy: float | None
  words: float
  length_ratio: float | None

  def as_dict(self) -> dict[str, float | None]:
    """Returns measure -> value, in the order of `MEASURES`."""
    return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Measure:
  """How a measure is shown; with `percent` it is a share in [0, 1]."""

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
    "Captions in which fewer than half of the letters are of the language's scripts; of those with letters.",
  ),
  "wrong_language": Measure(
    "Wrong language",
    f"Captions that py3langid takes for another language, of up to {SAMPLE:,} with letters, evenly spaced; "
    "- where it does not know the language.",
  ),
  "wrong_language_references": Measure(
    "Wrong language, references",
    "The same for the references: what the identifier gets wrong in text that people wrote.",
  ),
  "empty": Measure("Empty", "Captions without a word."),
  "repetitive": Measure(
    "Repetitive", f"Captions that hold the same {_NGRAM} words in a row twice; of those with words."
  ),
  "truncated": Measure(
    "Truncated",
    "Captions that end in punctuation or in a word that something has to follow; of those with words. "
    "About half of those that are cut; - where the references are too few to know such words.",
  ),
  "truncated_references": Measure(
    "Truncated, references", "The same for the references, each judged by the others."
  ),
  "copy": Measure(
    "Copy",
    "Captions that are also the caption of the same image in another language, but for case, spaces and "
    "punctuation at the ends; of those that are not empty.",
  ),
  "words": Measure("Words", "Words of a caption, on average.", percent=False),
  "length_ratio": Measure(
    "Length ratio", "Words of a caption over words of a reference, on average.", percent=False, decimals=2
  ),
}
"""Name -> how it is shown, in the order of the columns."""


def measure(language: str, captions: Sequence[str], counts: Ngrams) -> Health:
  """Measures the captions of one language.

  All but `wrong_language` look at every caption. The identifier is slow, so it reads at most `SAMPLE` captions and
  `SAMPLE` references, evenly spaced: a share of 5% of 3,600 captions is then known to 0.6% (one standard deviation).

  Args:
    language: the code.
    captions: of each image the hypothesis, then its references, as in the rows of `counts`.
    counts: of their words, which the metrics have found and counted.

  Raises:
    ValueError: there is no image, or `counts` has another number of rows.
    UsageError: there is no such language.
    XmcapError: py3langid is not installed.
  """
  if not counts.num_images or len(captions) != len(counts.length):
    raise ValueError(f"{len(captions)} captions, and words of {len(counts.length)}: there must be as many")
  is_hypothesis = ~counts.is_reference
  letters, own = scripts.count_letters(captions, language)
  lengths = counts.length[is_hypothesis]
  with_words = int(np.count_nonzero(lengths))
  ngrams = counts.orders(_NGRAM)[-1]
  twice = np.unique(ngrams.caption[ngrams.count > 1])
  truncated, truncated_references = truncation.shares(captions, counts)
  wrong, wrong_references = _wrong_languages(language, captions, letters, counts.is_reference)
  mean, reference_mean = float(lengths.mean()), float(counts.length[counts.is_reference].mean())
  return Health(
    wrong_script=_share((2 * own < letters)[is_hypothesis & (letters > 0)]),
    wrong_language=wrong,
    wrong_language_references=wrong_references,
    empty=1 - with_words / len(lengths),
    repetitive=int(is_hypothesis[twice].sum()) / with_words if with_words else None,
    truncated=truncated,
    truncated_references=truncated_references,
    copy=None,
    words=mean,
    length_ratio=mean / reference_mean if reference_mean else None,
  )


def _wrong_languages(
  language: str, captions: Sequence[str], letters: np.ndarray, is_reference: np.ndarray
) -> tuple[float | None, float | None]:
  """Returns the shares of hypotheses and of references that the identifier takes for another language."""
  if not identifier.supports(language):
    return None, None
  samples: list[list[int]] = []
  for rows in (~is_reference, is_reference):
    with_letters = np.flatnonzero(rows & (letters > 0))
    size = min(SAMPLE, len(with_letters))
    samples.append(with_letters[np.arange(size) * len(with_letters) // max(size, 1)].tolist())
  # Read together: the identifier takes a step for each byte of the longest caption.
  found = identifier.identify(captions[place] for sample in samples for place in sample)
  wrong = [code != language for code in found]
  return _share(wrong[: len(samples[0])]), _share(wrong[len(samples[0]) :])


def _share(flags: Sequence[bool] | np.ndarray) -> float | None:
  return float(np.mean(flags)) if len(flags) else None
