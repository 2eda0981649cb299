"""The words of the references of each language: evidence for the language of a caption of the same images.

It exists wherever scores are computed, fits the domain, and knows languages that no identifier knows.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap import languages
from xmcap.scoring.health import scripts
from xmcap.scoring.tokenizers.default import Default
from xmcap.scoring.tokenizers.words import CaptionWords

_FEWEST_WORDS = 200  # languages with fewer are not compared by their words
# Few words are weak evidence: a word's share is its count divided by the number of words plus this.
_PRIOR_WORDS = 1000
# The share of a word that the references lack. The same in each language, so such a word speaks for none.
_FLOOR = 3e-5


@dataclasses.dataclass(frozen=True)
class Vocabularies:
  """The words of L languages.

  Attributes:
    samples: language code -> references, for every language.
    columns: code of each of the L languages that words can tell from another one -> its column in `counts`.
    rows: word -> its row.
    counts: int64 [V + 1, L], the number of references of each language with each of V words; the last row is of
      unknown words.
  """

  samples: Mapping[str, Sequence[str]]
  columns: Mapping[str, int]
  rows: Mapping[str, int]
  counts: np.ndarray

  @classmethod
  def of(cls, references: Mapping[str, Sequence[str]]) -> "Vocabularies":
    """Reads the references of a language code -> its captions."""
    columns, rows, word_counts = {}, {}, []
    for language, captions in references.items():
      if neighbours(language, references):
        columns[language] = len(columns)
        words = split(captions, language)
        _, word = distinct(words)
        count = np.bincount(word, minlength=len(words.vocabulary))
        word_counts.append(([rows.setdefault(word, len(rows)) for word in words.vocabulary], count))
    counts = np.zeros((len(rows) + 1, len(word_counts)), np.int64)
    for column, (of_language, count) in enumerate(word_counts):
      counts[of_language, column] = count
    return cls(references, columns, rows, counts)

  @functools.cached_property
  def totals(self) -> np.ndarray:
    """int64 [L], the sums of `counts`."""
    return self.counts.sum(axis=0)

  @functools.cached_property
  def logs(self) -> np.ndarray:
    """float32 [V + 1, L], the logarithm of the share of each word in each language."""
    return log_shares(self.counts, self.totals).astype(np.float32)

  def comparable(self, language: str) -> list[str]:
    """Returns the other languages whose words can be compared with those of this one, as both have enough."""
    if self.totals[self.columns[language]] < _FEWEST_WORDS:
      return []
    return [
      code
      for code, column in self.columns.items()
      if code != language and self.totals[column] >= _FEWEST_WORDS
    ]


def log_shares(counts: np.ndarray, totals: np.ndarray | int) -> np.ndarray:
  """Returns the logarithms of the shares of words with these counts in languages with these totals."""
  return np.log(counts / (totals + _PRIOR_WORDS) + _FLOOR)


def neighbours(language: str, others: Mapping[str, object]) -> tuple[str, ...]:
  """Returns the languages of the table and of `others` that share a script with a language.

  Forms of the same language (`pt` and `pt-BR`) are no neighbours: a caption in one is no fault in the other.
  """
  own = set(scripts.scripts_of(language))
  return tuple(
    code
    for code in dict.fromkeys([*languages.LANGUAGES, *others])
    if own & set(scripts.scripts_of(code)) and _base(code) != _base(language)
  )


def split(captions: Sequence[str], language: str) -> CaptionWords:
  """Returns the words of captions: in every language those of the default tokeniser for English, lower-cased.

  In languages without spaces each character is a word.
  """
  if not languages.get(language).spaces:
    captions = list(map(" ".join, captions))
  return Default("en").words(captions)


def distinct(words: CaptionWords) -> tuple[np.ndarray, np.ndarray]:
  """Returns two int64 [P]: caption and word of each pair of a caption and a word with letters in it, each once."""
  with_letters = np.array([any(map(str.isalpha, word)) for word in words.vocabulary], np.bool_)
  caption = np.repeat(np.arange(len(words.lengths)), words.lengths)
  kept = with_letters[words.numbers] if len(words.vocabulary) else np.zeros(0, np.bool_)
  size = max(1, len(words.vocabulary))
  pairs = np.unique(caption[kept] * size + words.numbers[kept])
  return pairs // size, pairs % size


@functools.cache
def _base(language: str) -> str:
  base = language.partition("-")[0]
  return languages.canonical(base) or base
