"""Normalises the characters of captions before they are split into words."""

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.tokenizers import composition

SPACE = " "
_APOSTROPHES = frozenset("'\u2018\u2019\u02bc\u05f3\u05f4\"")
# In these languages an apostrophe (or the Hebrew geresh and gershayim) is part of a word, like a letter.
_APOSTROPHE_IS_A_LETTER = frozenset({"he", "quz", "uk"})
# Unicode's SpecialCasing.txt for Turkish and Azerbaijani: I is the capital of ı, and İ that of i.
_DOTTED = frozenset({"az", "tr"})

_SEPARATOR = "\n"
_DELETED = 0
_UNKNOWN = 2**32 - 1


def lower(text: str, language: str) -> str:
  """Returns a text in lower case by the rules of its language; `tr-CY` has those of `tr`."""
  if _has_dotted(language):
    text = text.replace("I\u0307", "i").replace("İ", "i").replace("I", "ı")
  return text.lower()


def rules(number: int, language: str) -> str:
  """Returns the number of a tokeniser's rules for its version, with the case of the language if it has its own."""
  return f"{number}+dotted-i" if _has_dotted(language) else str(number)


def _has_dotted(language: str) -> bool:
  return language.partition("-")[0] in _DOTTED


class Normalizer:
  """Applies Unicode NFKC (as `compose`) and lower case, and keeps only letters, marks and digits.

  Characters of the categories P (punctuation), S (symbols, including emoji), Z and Cc become a space. Format characters
  (Cf, such as the direction marks U+200E, U+200F and the joiners U+200C, U+200D) and variation selectors are deleted.
  So "ski-doo" and "l'auto" are two words each, but an apostrophe is deleted in Hebrew, Cusco Quechua and Ukrainian,
  where it is part of a word.
  """

  def __init__(self, language: str):
    self._language = language
    self._table = _table(language in _APOSTROPHE_IS_A_LETTER)

  def __call__(self, texts: Sequence[str]) -> list[str]:
    """Returns the texts with spaces between words, perhaps several in a row and at the ends."""
    if not texts:
      return []
    # All texts as one array of code points, which is several times faster than one by one.
    joined = _SEPARATOR.join(texts)
    if joined.count(_SEPARATOR) >= len(texts):
      joined = _SEPARATOR.join(text.replace(_SEPARATOR, SPACE) for text in texts)
    joined = lower(composition.compose(joined), self._language)
    code_points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    kept = self._table[code_points]
    if (unknown := kept == _UNKNOWN).any():
      self._learn(np.unique(code_points[unknown]))
      kept = self._table[code_points]
    return kept[kept != _DELETED].tobytes().decode("utf-32-le", "surrogatepass").split(_SEPARATOR)

  def _learn(self, code_points: np.ndarray) -> None:
    for code_point in code_points.tolist():
      category = unicodedata.category(chr(code_point))
      if category == "Cf" or 0xFE00 <= code_point <= 0xFE0F or 0xE0100 <= code_point <= 0xE01EF:
        self._table[code_point] = _DELETED
      else:
        to_space = category[0] in "PSZ" or category == "Cc"
        self._table[code_point] = ord(SPACE) if to_space else code_point


@functools.cache
def _table(apostrophe_is_a_letter: bool) -> np.ndarray:
  """Returns the array code point -> replacement, which `_learn` fills in on first use of a code point."""
  table = np.full(0x110000, _UNKNOWN, np.uint32)
  table[ord(_SEPARATOR)] = ord(_SEPARATOR)
  if apostrophe_is_a_letter:
    table[[ord(character) for character in _APOSTROPHES]] = _DELETED
  return table
