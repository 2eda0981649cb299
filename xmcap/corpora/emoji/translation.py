"""Translates English names of emoji by dictionary, as a substitute for machine translation.

Chinese is translated phrase by phrase with CC-CEDICT, the longest phrases first, without spaces. Other languages are
translated word by word, with a dictionary that IBM Model 1 learns from CLDR's names and keywords of all emoji in both
languages; words keep their English order and have one form. Unknown words stay English. So content words are mostly
right, but word order, inflection and some senses are wrong. The learned words are closer to the human captions than a
general translator's, because they come from the names of the emoji themselves.

Source: Brown et al., "The Mathematics of Statistical Machine Translation" (Computational Linguistics, 1993), section
4.1: the probability of a pair of texts is the product over the words of one of the mean of t(word | word of the other),
and EM finds t. An empty English word accounts for words without a counterpart, such as articles.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import regex

from xmcap import languages
from xmcap.corpora.emoji.cldr import Cldr
from xmcap.scoring.tokenizers import segmenters

_WORDS = regex.compile(r"[\p{L}\p{M}\p{N}’'\-\u200c\u200d]+")
# (ending, its replacement) of inflected words, because a dictionary has only head words; tried in this order.
_ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"))
_MIN_STEM = 3
# A pair of names says more than a pair of lists of keywords.
_NAME_REPEATS = 2
_ITERATIONS = 12
_EMPTY = ""

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
  return learn(english, other)


def learn(english: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> dict[str, str]:
  """Returns English word -> its most probable counterpart by IBM Model 1; of equally probable ones, the first.

  Words whose counterpart is more probable for the empty word get none.

  Args:
    english: the words of N texts.
    other: the words of the same texts in the other language.
  """
  sources: dict[str, int] = {_EMPTY: 0}
  targets: dict[str, int] = {}
  cells: dict[tuple[int, int], int] = {}
  tokens, cell_of = [], []  # of each (word of a text, candidate): number of the word, and its cell of t
  count = 0
  for from_words, to_words in zip(english, other, strict=True):
    rows = [0, *(sources.setdefault(word, len(sources)) for word in dict.fromkeys(from_words))]
    for word in to_words:
      column = targets.setdefault(word, len(targets))
      for row in rows:
        tokens.append(count)
        cell_of.append(cells.setdefault((row, column), len(cells)))
      count += 1
  if not count:
    return {}
  token, cell = np.array(tokens), np.array(cell_of)
  row, column = np.array(list(cells)).T
  probability = np.ones(len(cells))
  for _ in range(_ITERATIONS):
    weight = probability[cell]
    expected = np.bincount(cell, weight / np.bincount(token, weight)[token])
    probability = expected / np.bincount(row, expected)[row]
  empty = np.zeros(len(targets))
  empty[column[row == 0]] = probability[row == 0]
  best: dict[int, int] = {}
  for place in np.argsort(-probability, kind="stable").tolist():
    if row[place] and probability[place] > empty[column[place]]:
      best.setdefault(int(row[place]), int(column[place]))
  words, counterparts = list(sources), list(targets)
  return {words[source]: counterparts[target] for source, target in sorted(best.items())}


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
