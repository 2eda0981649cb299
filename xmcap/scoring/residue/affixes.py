"""Beginnings and ends that many captions share and no reference has, such as "Sure! Here is a caption:".

They are found by counting, in any language. Characters are read from the first on, as in a trie of the distinct
captions of a language, as long as a tenth of them share what was read; of what ends in a colon a hundredth is enough.
What is left is a frame and, often, the first words of a caption: "The image shows a". References begin with "a" too, so
the frame is what comes before the longest end with which references begin: "The image shows". It is residue if hardly a
reference begins with it, by a test of two shares, and if it has two words, or three letters of a script without spaces,
or a colon, or is in no reference at all.

The languages of a table are looked at together, too: a hundredth of all captions is enough for a text with which
captions of several languages begin and no reference does, and that has words which no reference there has. Captions go
on after it in different words: "Here is a caption in", before the name of the language, is only a part. What is residue
in one language or in all together is so in each language whose references hardly begin with it.

Ends are the beginnings of reversed captions.
"""

import bisect
import collections
import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

_SHARE = 0.1  # of the distinct captions of a language
_SMALL_SHARE = 0.01  # of those with a colon, or of all languages
_FEWEST = 8  # distinct captions
_RARER = 50  # so many times as rare must it be among the references
_Z = 4.0
_NATURAL = 0.01  # share of references that begin with what belongs to a caption
_SAME = 0.9  # share of captions that go on in the same word if the text is only a part
_HEAD = 3  # characters
_LONGEST = 1000
_TRIES = 20
_SAMPLE = 250  # of the references, for a first look
_INTRODUCTION = re.compile(r"[^:\uff1a\n]{1,200}(?:\uff1a|:(?!\w))")

Texts = Mapping[str, Sequence[str]]
"""Language code -> texts."""


def beginnings(captions: Texts, references: Texts, before: Iterable[str] = ()) -> dict[str, list[str]]:
  """Returns the residual beginnings of captions that are stripped: language code -> texts, the longest first.

  `before` are such texts that were found before, in any language.
  """
  return _shared(captions, references, before, reverse=False)


def ends(captions: Texts, references: Texts, before: Iterable[str] = ()) -> dict[str, list[str]]:
  """Returns the residual ends of captions that are stripped: language code -> texts, the longest first."""
  reversed_captions = {language: [text[::-1] for text in texts] for language, texts in captions.items()}
  reversed_ends = _shared(reversed_captions, references, [text[::-1] for text in before], reverse=True)
  return {language: [text[::-1] for text in texts] for language, texts in reversed_ends.items()}


def is_whole(text: str, affix: str, reverse: bool) -> bool:
  """Returns whether a text has a beginning, or with `reverse` an end, that is no part of a word."""
  if not (text.endswith if reverse else text.startswith)(affix):
    return False
  return len(affix) == len(text) or _is_boundary(text[::-1] if reverse else text, len(affix), reverse)


def exceeds(count: int, total: int, reference_count: int, reference_total: int) -> bool:
  """Returns whether the share of captions is clearly above that of references, at 4 standard errors."""
  if not total or not reference_total:
    return False
  pooled = (count + reference_count) / (total + reference_total)
  error = math.sqrt(pooled * (1 - pooled) * (1 / total + 1 / reference_total))
  return count / total - reference_count / reference_total > _Z * error


class _Language:
  """The distinct captions and the references of a language, which are sorted only where there is a candidate."""

  def __init__(self, captions: Sequence[str], references: Sequence[str], reverse: bool):
    self.distinct = list(dict.fromkeys(filter(None, captions)))
    self.references, self.reverse = references, reverse

  @functools.cached_property
  def captions(self) -> list[str]:
    return sorted(self.distinct)

  @functools.cached_property
  def lowered(self) -> list[str]:
    return sorted(_lowered(text, self.reverse) for text in self.references)

  def counts(self, frame: str) -> tuple[int, int]:
    """Returns how many captions and how many references begin with a frame."""
    count = _begin(self.captions, frame)
    return count, _begin(self.lowered, frame.lower()) if count else 0

  def is_natural(self, text: str) -> bool:
    """Returns whether so many references begin with a text that it belongs to a caption."""
    return _begin(self.lowered, text) >= max(1, math.ceil(_NATURAL * len(self.lowered)))

  def is_rare(self, frame: str) -> bool:
    """Returns whether captions begin with a frame, and hardly a reference does."""
    count, of_references = self.counts(frame)
    return 0 < count * len(self.references) >= of_references * len(self.captions) * _RARER

  def is_residue(self, frame: str) -> bool:
    """Returns whether a frame is long, or in no reference."""
    return _is_long(frame) or not any(frame.strip().lower() in text for text in self.lowered)

  def is_strange(self, frame: str) -> bool:
    """Returns whether a word of a frame is in no reference."""
    joined = "\n".join(self.lowered)
    return any(word not in joined for word in _words(frame.lower()))


def _shared(captions: Texts, references: Texts, before: Iterable[str], reverse: bool) -> dict[str, list[str]]:
  languages = {code: _Language(texts, references[code], reverse) for code, texts in captions.items()}
  own = {code: _of_language(language) for code, language in languages.items()}
  every = dict.fromkeys([*before, *itertools.chain(*own.values()), *_of_table(list(languages.values()))])
  affixes = {
    code: [
      text for text in every if text in own[code] or (language.is_rare(text) and language.is_residue(text))
    ]
    for code, language in languages.items()
  }
  return {code: sorted(texts, key=len, reverse=True) for code, texts in affixes.items()}


def _of_language(language: _Language) -> list[str]:
  total, of_references = len(language.distinct), len(language.references)
  least = max(_FEWEST, _fewest(total, of_references))
  paths = _paths(language.distinct, max(least, math.ceil(_SHARE * total)))
  if not language.reverse:
    paths += _introductions(language.distinct, max(least, math.ceil(_SMALL_SHARE * total)))
  if paths:
    some = language.references[:: 1 + of_references // _SAMPLE]
    some = sorted(_lowered(text, language.reverse) for text in some)
    paths = [path for path in paths if not _is_usual(path.lower(), some)][:_TRIES]
  frames: dict[str, None] = {}
  for path in paths:
    for frame in _frames(path, language.is_natural, language.reverse):
      count, reference_count = language.counts(frame)
      if language.is_rare(frame) and exceeds(count, total, reference_count, of_references):
        if language.is_residue(frame):
          frames[frame] = None
        break
  return list(frames)


def _of_table(languages: Sequence[_Language]) -> list[str]:
  """Returns what the captions of several languages share: see the docstring of the module."""
  totals = [len(language.distinct) for language in languages]
  fewest = [max(2, math.ceil(_SMALL_SHARE * total)) for total in totals]
  of_references = sum(len(language.references) for language in languages)
  least = max(_FEWEST, math.ceil(_SMALL_SHARE * sum(totals)), _fewest(sum(totals), of_references))
  # Heads, which are too short to be residue, say which captions need to be read.
  heads = [[text[:_HEAD] for text in language.distinct] for language in languages]
  counts = list(map(collections.Counter, heads))
  together = collections.Counter(itertools.chain.from_iterable(heads))
  frequent = {head for head, count in together.items() if count >= least}
  shared = {
    head for head in frequent if sum(map(int.__ge__, [heads_of[head] for heads_of in counts], fewest)) > 1
  }
  rows = [
    (place, text)
    for place, language in enumerate(languages)
    if shared & counts[place].keys()
    for text, head in zip(language.distinct, heads[place], strict=True)
    if head in shared
  ]
  language = np.array([place for place, _ in rows], np.int64)

  def are_several(some: np.ndarray) -> bool:
    return int((np.bincount(language[some], minlength=len(languages)) >= fewest).sum()) > 1

  def is_natural(text: str) -> bool:
    return any(language.is_natural(text) for language in languages)

  frames = []
  for path in filter(_is_long, _paths([text for _, text in rows], least, are_several)):
    for frame in filter(_is_long, _frames(path, is_natural, languages[0].reverse)[:1]):
      having = [
        language for language, few in zip(languages, fewest, strict=True) if language.counts(frame)[0] >= few
      ]
      is_new = not any(_begin(language.lowered, frame.lower()) for language in languages)
      if (
        is_new and sum(language.is_strange(frame) for language in having) > 1 and not _is_part(frame, having)
      ):
        frames.append(frame)
  return frames


def _is_part(frame: str, languages: Sequence[_Language]) -> bool:
  """Returns whether nearly all captions of a language go on after a frame in the same word, which begins no caption."""
  same = total = 0
  for language in languages:
    start, count = bisect.bisect_left(language.captions, frame), language.counts(frame)[0]
    rests = (_words(text[len(frame) :].lower()) for text in language.captions[start : start + count])
    word, times = collections.Counter(rest[0] if rest else "" for rest in rests).most_common(1)[0]
    same, total = same + times * (not language.is_natural(f"{word} ")), total + count
  return same >= _SAME * total


def _introductions(captions: Sequence[str], least: int) -> list[str]:
  """Returns what at least so many captions have up to their first colon."""
  with_colon = (text for text in captions if ":" in text or "\uff1a" in text)
  counts = collections.Counter(
    match.group() for text in with_colon if (match := _INTRODUCTION.match(text)) is not None
  )
  return [text for text, count in counts.items() if count >= least]


def _lowered(text: str, reverse: bool) -> str:
  text = text.strip().lower()
  return text[::-1] if reverse else text


def _is_usual(path: str, some: Sequence[str]) -> bool:
  """Returns whether so many of some sorted references begin with a path that no part of it can be residue."""
  return _begin(some, path) * _RARER > 2 * len(some)


def _begin(texts: Sequence[str], beginning: str) -> int:
  """Returns how many of the sorted texts begin so."""
  return bisect.bisect_left(texts, beginning + "\U0010ffff") - bisect.bisect_left(texts, beginning)


def _fewest(total: int, reference_total: int) -> int:
  """Returns the smallest count of captions that is significant if no reference has it, at most `total` + 1."""
  low, high = 1, total + 1
  while low < high:
    middle = (low + high) // 2
    low, high = (low, middle) if exceeds(middle, total, 0, reference_total) else (middle + 1, high)
  return low


def _paths(
  captions: list[str], least: int, is_wanted: Callable[[np.ndarray], bool] = lambda rows: True
) -> list[str]:
  """Returns the longest beginnings that at least so many of the distinct captions share, and wanted rows of them."""
  lengths = np.fromiter(map(len, captions), np.int64, len(captions))
  starts = np.cumsum(lengths) - lengths
  code_points = np.frombuffer("".join(captions).encode("utf-32-le", "surrogatepass"), np.uint32)
  nodes, paths = [(np.arange(len(captions)), 0)], []
  while nodes:
    rows, depth = nodes.pop()
    alive = rows[lengths[rows] > depth]
    children = []
    if len(alive) >= least and depth < _LONGEST:
      values = code_points[starts[alive] + depth]
      frequent = np.flatnonzero(np.bincount(values) >= least).tolist()
      children = [(some, depth + 1) for value in frequent if is_wanted(some := alive[values == value])]
    if depth and not children:
      paths.append(captions[int(rows[0])][:depth])
    nodes += children
  return paths


def _frames(path: str, is_natural: Callable[[str], bool], reverse: bool) -> list[str]:
  """Returns what may be residue of a path, the most likely first: see the docstring of the module."""
  cuts = [place for place in range(1, len(path) + 1) if _is_boundary(path, place, reverse)]
  rests = {cut: path[cut:].lstrip().lower() for cut in cuts}
  return [path[:cut] for cut, rest in rests.items() if not rest or is_natural(rest)]


def _is_boundary(text: str, place: int, reverse: bool) -> bool:
  """Returns whether a word may end before a place, or begin there in a script without spaces."""
  if place == len(text):
    return not _in_word(text[-1]) or _is_unspaced(text[-1])
  before, after = text[place - 1], text[place]
  if unicodedata.category(before if reverse else after).startswith("M"):
    return False
  return not (_in_word(before) and _in_word(after)) or _is_unspaced(before) or _is_unspaced(after)


def _is_long(text: str) -> bool:
  words = _words(text)
  return len(words) >= 2 or sum(map(_is_unspaced, text)) >= 3 or bool(words and {":", "\uff1a"} & set(text))


def _words(text: str) -> list[str]:
  return "".join(c if _in_word(c) else " " for c in text).split()


@functools.lru_cache(maxsize=1 << 16)
def _in_word(character: str) -> bool:
  return character in "'\u2019" or unicodedata.category(character)[0] in "LMN"


@functools.lru_cache(maxsize=1 << 16)
def _is_unspaced(character: str) -> bool:
  """Returns whether a letter is of a script that is written without spaces."""
  name = unicodedata.name(character, "")
  return name.startswith(("CJK ", "HIRAGANA", "KATAKANA", "THAI ", "LAO ", "KHMER", "MYANMAR", "TIBETAN"))
