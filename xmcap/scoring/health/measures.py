"""The measures of language health of one language's captions."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.health import identifier, scripts, truncation

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


def measure(
  language: str,
  hypotheses: Sequence[str],
  words: Sequence[Sequence[str]],
  reference_words: Sequence[Sequence[Sequence[str]]],
  references: Sequence[Sequence[str]],
) -> Health:
  """Measures the captions of one language.

  All but `wrong_language` look at every caption. The identifier is slow, so it reads at most `SAMPLE` captions and
  `SAMPLE` references, evenly spaced: a share of 5% of 3,600 captions is then known to 0.6% (one standard deviation).

  Args:
    language: the code.
    hypotheses, words: of each image the predicted caption, and its words.
    reference_words, references: of each image the words of its reference captions, and these captions.

  Raises:
    ValueError: there is no image, or the arguments differ in their number of images or of references.
    UsageError: there is no such language.
    XmcapError: py3langid is not installed.
  """
  images = len(hypotheses), len(words), len(references), len(reference_words)
  if not hypotheses or len(set(images)) > 1 or list(map(len, references)) != list(map(len, reference_words)):
    raise ValueError(f"captions and words of {images} images: there must be one or more, and as many in each")
  texts = [text for group in references for text in group]
  text_words = [of_text for group in reference_words for of_text in group]

  letters, own = scripts.count_letters(hypotheses, language)
  with_words = [of_caption for of_caption in words if of_caption]
  endings = truncation.Endings(text_words)
  mean = sum(map(len, words)) / len(words)
  reference_mean = sum(map(len, text_words)) / len(text_words) if text_words else 0.0
  return Health(
    wrong_script=_share((2 * own < letters)[letters > 0]),
    wrong_language=_wrong_language(language, hypotheses, letters),
    wrong_language_references=_wrong_language(language, texts, scripts.count_letters(texts, language)[0]),
    empty=(len(words) - len(with_words)) / len(words),
    repetitive=_share([repeats(of_caption) for of_caption in with_words]),
    truncated=truncation.share(hypotheses, words, endings),
    truncated_references=truncation.share(texts, text_words, endings, left_out=1),
    copy=None,
    words=mean,
    length_ratio=mean / reference_mean if reference_mean else None,
  )


def repeats(words: Sequence[str], n: int = _NGRAM) -> bool:
  """Returns whether n words in a row stand twice in a caption; the two may overlap."""
  ngrams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
  return len(set(ngrams)) < len(ngrams)


def _wrong_language(language: str, captions: Sequence[str], letters: np.ndarray) -> float | None:
  if not identifier.supports(language):
    return None
  with_letters = np.flatnonzero(letters)
  size = min(SAMPLE, len(with_letters))
  sample = with_letters[np.arange(size) * len(with_letters) // max(size, 1)]
  return _share([found != language for found in identifier.identify(captions[int(i)] for i in sample)])


def _share(flags: Sequence[bool] | np.ndarray) -> float | None:
  return float(np.mean(flags)) if len(flags) else None
