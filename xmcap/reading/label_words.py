"""Tags and labels as words: what differs in its writing alone is one word, and what differs in case is noted."""

import functools
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from xmcap import wording

# Turkish dots, Arabic's lengthening stroke, the presentation of emoji, and how dashes and apostrophes are drawn.
_FORMS = str.maketrans({
  **dict.fromkeys("\u0307\u0640\ufe0e\ufe0f"), "ı": "i",
  **dict.fromkeys("\u2010\u2012\u2013\u2212", "-"), **dict.fromkeys("\u2018\u2019\u02bc", "'"),
})  # fmt: skip


@functools.lru_cache(maxsize=1 << 16)
def word(text: str) -> str:
  """Returns a tag or label as it is compared: in Unicode NFKC, with single spaces and none at its ends.

  Case counts: none of the protocols folds it.
  """
  return " ".join(unicodedata.normalize("NFKC", text).split())


def words(texts: Iterable[str]) -> list[str]:
  """Returns the different words of tags or labels in their order, without empty ones."""
  return list(dict.fromkeys(filter(None, map(word, texts))))


def alike(words: Collection[str], others: Collection[str]) -> list[str]:
  """Returns the sorted words that are none of the others, but have the `letters` of one of them.

  Both are as `word` returns them.
  """
  of_others = set(map(letters, others))
  return sorted(text for text in words if text not in others and letters(text) in of_others)


def note(noun: str, others: str, by_language: Mapping[str, Sequence[str]]) -> list[str]:
  """Returns the note about words that are `alike`, by language code; [] if there are none."""
  named = [
    f"{code} {len(words):,} ({wording.first_few(words)})" for code, words in by_language.items() if words
  ]
  if not named:
    return []
  return [
    f"{noun} that differ from {others} in case, form or invisible characters alone count as others: {'; '.join(named)}"
  ]


def letters(text: str) -> str:
  """Returns a word without case, invisible characters, and forms that a reader hardly tells apart."""
  seen = (character for character in word(text).casefold() if unicodedata.category(character) != "Cf")
  return "".join(seen).translate(_FORMS)
