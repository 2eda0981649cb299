"""Spaces in scripts that do not part words by them, as tokenised corpora and some decoders write them."""

import functools
import re
from collections.abc import Sequence
from typing import Any

WITHOUT_SPACES = (
  r"\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Yi}"
)
"""Characters of scripts written without spaces between words, for a character class of `regex`."""

# Without the ideographic space: like a comma it is written to part phrases, and never by a tokeniser.
_SPACES = re.compile(r"[^\S\u3000]+")
_WORDS_OF_A_PHRASE = 1.5


def joined(text: str) -> str:
  """Removes white space between two characters of scripts without spaces, digits excepted."""
  return _SPACES.sub(_kept, text) if _SPACES.search(text) else text


def are_between_words(text: str, words: Sequence[str]) -> bool:
  """Whether a text has spaces between its words, not between its phrases; `words` are those found with the spaces."""
  pieces = sum(map(_is_of_script, text.split()))
  return sum(map(_is_of_script, words)) < _WORDS_OF_A_PHRASE * pieces


def _kept(space: re.Match[str]) -> str:
  text, start, end = space.string, space.start(), space.end()
  inside = start > 0 and end < len(text)
  return "" if inside and _is_of_script(text[start - 1]) and _is_of_script(text[end]) else space[0]


@functools.lru_cache(1 << 16)
def _is_of_script(text: str) -> bool:
  return _character().search(text) is not None


@functools.cache
def _character() -> Any:
  import regex  # slow to import, and few languages need it

  return regex.compile(f"(?!\\p{{Nd}})[{WITHOUT_SPACES}]")
