"""Beginnings and ends that many captions share and no reference has, such as "Sure! Here is a caption:".

They are found by counting, in any language. Characters are read from the first on, as in a trie of all captions, as
long as a tenth of the distinct captions share what was read. What is left is a frame and, often, the first words of a
caption: "The image shows a". References begin with "a" too, so the frame is what comes before the longest end with
which references begin: "The image shows". It is residue if hardly a reference begins with it, by a test of two shares,
and if it has two words, or three letters of a script without spaces, or a colon, or is in no reference at all. Ends are
the beginnings of reversed captions.
"""

import bisect
import functools
import math
import unicodedata
from collections.abc import Sequence

import numpy as np

_SHARE = 0.1  # of the distinct captions
_FEWEST = 8  # distinct captions
_RARER = 50  # so many times as rare must it be among the references
_Z = 4.0
_NATURAL = 0.01  # share of references that begin with what belongs to a caption
_LONGEST = 1000
_TRIES = 20
_SAMPLE = 250  # of the references, for a first look


def beginnings(captions: Sequence[str], references: Sequence[str]) -> list[str]:
  """Returns the residual beginnings of captions that are stripped, the longest first."""
  return _shared(captions, references, reverse=False)


def ends(captions: Sequence[str], references: Sequence[str]) -> list[str]:
  """Returns the residual ends of captions that are stripped, the longest first."""
  return [text[::-1] for text in _shared([text[::-1] for text in captions], references, reverse=True)]


def exceeds(count: int, total: int, reference_count: int, reference_total: int) -> bool:
  """Returns whether the share of captions is clearly above that of references, at 4 standard errors."""
  if not total or not reference_total:
    return False
  pooled = (count + reference_count) / (total + reference_total)
  error = math.sqrt(pooled * (1 - pooled) * (1 / total + 1 / reference_total))
  return count / total - reference_count / reference_total > _Z * error


def _shared(captions: Sequence[str], references: Sequence[str], reverse: bool) -> list[str]:
  distinct = list(dict.fromkeys(filter(None, captions)))
  least = max(_FEWEST, math.ceil(_SHARE * len(distinct)), _fewest(len(distinct), len(references)))
  paths = _paths(distinct, least)
  if paths:
    some = sorted(_lowered(text, reverse) for text in references[:: 1 + len(references) // _SAMPLE])
    paths = [path for path in paths if not _is_usual(path.lower(), some)][:_TRIES]
  if not paths:
    return []
  distinct, lowered = sorted(distinct), sorted(_lowered(text, reverse) for text in references)
  found: dict[str, None] = {}
  for path in paths:
    for frame in _frames(path, lowered, reverse):
      count, of_references = _begin(distinct, frame), _begin(lowered, frame.lower())
      is_rare = of_references * len(distinct) * _RARER <= count * len(references)
      if is_rare and exceeds(count, len(distinct), of_references, len(references)):
        if _is_long(frame) or not any(frame.strip().lower() in text for text in lowered):
          found[frame] = None
        break
  return sorted(found, key=len, reverse=True)


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


def _paths(captions: list[str], least: int) -> list[str]:
  """Returns the longest beginnings that at least so many of the distinct captions share."""
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
      children = [(alive[values == value], depth + 1) for value in frequent]
    if depth and not children:
      paths.append(captions[int(rows[0])][:depth])
    nodes += children
  return paths


def _frames(path: str, lowered: Sequence[str], reverse: bool) -> list[str]:
  """Returns what may be residue of a path, the most likely first: see the docstring of the module."""
  least = max(1, math.ceil(_NATURAL * len(lowered)))
  cuts = [place for place in range(1, len(path) + 1) if _is_boundary(path, place, reverse)]
  frames = []
  for cut in cuts:
    rest = path[cut:].lstrip().lower()
    if not rest or _begin(lowered, rest) >= least:
      frames.append(path[:cut])
  return frames


def _is_boundary(text: str, place: int, reverse: bool) -> bool:
  """Returns whether a word may end before a place, or begin there in a script without spaces."""
  if place == len(text):
    return not _in_word(text[-1]) or _is_unspaced(text[-1])
  before, after = text[place - 1], text[place]
  if unicodedata.category(before if reverse else after).startswith("M"):
    return False
  return not (_in_word(before) and _in_word(after)) or _is_unspaced(before) or _is_unspaced(after)


def _is_long(text: str) -> bool:
  words = "".join(c if _in_word(c) else " " for c in text).split()
  return len(words) >= 2 or sum(map(_is_unspaced, text)) >= 3 or bool(words and {":", "\uff1a"} & set(text))


@functools.lru_cache(maxsize=1 << 16)
def _in_word(character: str) -> bool:
  return character in "'\u2019" or unicodedata.category(character)[0] in "LMN"


@functools.lru_cache(maxsize=1 << 16)
def _is_unspaced(character: str) -> bool:
  """Returns whether a letter is of a script that is written without spaces."""
  name = unicodedata.name(character, "")
  return name.startswith(("CJK ", "HIRAGANA", "KATAKANA", "THAI ", "LAO ", "KHMER", "MYANMAR", "TIBETAN"))
