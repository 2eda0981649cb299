"""Translates English names of emoji by dictionary, as a substitute for machine translation.

Chinese is translated phrase by phrase with CC-CEDICT, the longest phrases first, without spaces. Other languages are
translated word by word, with a dictionary that IBM Model 1 learns from CLDR's names and keywords of all emoji in both
languages; words keep their English order and have one form. Unknown words stay English. So content words are mostly
right, but word order, inflection and some senses are wrong. The learned words are closer to the human captions than a
general translator's, because they come from the names of the emoji themselves.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import regex

from xmcap import languages
from xmcap.corpora.emoji import alignment
from xmcap.corpora.emoji.cldr import Cldr
from xmcap.scoring.tokenizers import segmenters

_WORDS = regex.compile(r"[\p{L}\p{M}\p{N}’'\-\u200c\u200d]+")
# (ending, its replacement) of inflected words, because a dictionary has only head words; tried in this order.
_ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"))
_MIN_STEM = 3
# A pair of names says more than a pair of lists of keywords.
_NAME_REPEATS = 2

Segment = Callable[[Sequence[str]], list[list[str]]]


@dataclasses.dataclass(frozen=True)
class Translated:
  """The names in one language.

  Attributes:
    names: of the given emoji.
    words, unknown: number of English words in these, and of those that stayed English.
    same: number of names that equal CLDR's.
  """

  names: list[str]
  words: int
  unknown: int
  same: int


def translate(cldr: Cldr, emoji: Sequence[str], chinese: Mapping[str, str]) -> dict[str, Translated]:
  """Returns language -> translated names, for all languages of `cldr` but English.

  Args:
    cldr: names and keywords of all emoji.
    emoji: the emoji to name.
    chinese: English word or phrase in small letters -> Chinese word.
  """
  names = [_english(cldr.names["en"][one]) for one in emoji]
  translated = {}
  for language in cldr.names:
    if language == "en":
      continue
    dictionary = chinese if language == "zh" else _learned(cldr, language)
    longest = max(map(len, names), default=1) if language == "zh" else 1
    space = " " if languages.get(language).spaces else ""
    glosses = [list(_glosses(words, dictionary, longest)) for words in names]
    texts = [_joined([text for text, _ in of_name], space) for of_name in glosses]
    translated[language] = Translated(
      texts,
      words=sum(map(len, names)),
      unknown=sum(not is_known for of_name in glosses for _, is_known in of_name),
      same=sum(text == cldr.names[language].get(one) for text, one in zip(texts, emoji, strict=True)),
    )
  return translated


def _learned(cldr: Cldr, language: str) -> dict[str, str]:
  """Returns the dictionary of a language, learned from names and keywords."""
  segment = segmenters.load(language) if language in segmenters.SEGMENTERS else _split
  english, other = [], []
  for texts_by_language, repeats in ((cldr.names, _NAME_REPEATS), (cldr.keywords, 1)):
    texts, own = texts_by_language["en"], texts_by_language[language]
    both = [emoji for emoji in texts if emoji in own]
    pairs = [[_text(of[emoji]) for emoji in both] for of in (texts, own)]
    english += [_english(text) for text in pairs[0]] * repeats
    other += [[word for word in words if _WORDS.search(word)] for words in segment(pairs[1])] * repeats
  return alignment.learn(english, other)


def _text(named: str | Sequence[str]) -> str:
  return named if isinstance(named, str) else " ".join(named)


def _split(texts: Sequence[str]) -> list[list[str]]:
  return [_WORDS.findall(text) for text in texts]


def _english(text: str) -> list[str]:
  return _WORDS.findall(text.lower())


def _glosses(words: Sequence[str], dictionary: Mapping[str, str], longest: int) -> Iterator[tuple[str, bool]]:
  """Yields a translation, or the English word and False, for each phrase of up to `longest` words, longest first."""
  start = 0
  while start < len(words):
    for length in range(min(longest, len(words) - start), 0, -1):
      phrase = " ".join(words[start : start + length])
      gloss = next((dictionary[head] for head in _heads(phrase) if head in dictionary), None)
      if gloss is not None:
        yield gloss, True
        break
    else:
      length = 1
      yield words[start], False
    start += length


def _heads(phrase: str) -> Iterator[str]:
  """Yields a phrase, and then its possible head words."""
  yield phrase
  for ending, replacement in _ENDINGS:
    if phrase.endswith(ending) and len(phrase) - len(ending) >= _MIN_STEM:
      yield phrase.removesuffix(ending) + replacement


def _joined(words: Sequence[str], space: str) -> str:
  """Joins words by `space`, or by a space if both are English; drops repeated neighbours."""
  text = ""
  for word, _ in itertools.groupby(words):
    needs_space = space or (text and text[-1].isascii() and word[0].isascii())
    text += f"{' ' if text and needs_space else ''}{word}"
  return text
