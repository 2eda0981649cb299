"""Finds truncated captions, such as those cut off by a length limit.

A caption counts as truncated if it ends in an opening bracket, a dash or hyphen, a comma, colon or semicolon, or an
ellipsis; or if it ends in a word that occurs at least 20 times in the references but ends at most 1 in 200 of those
occurrences: articles, prepositions, conjunctions. So it needs no word lists.

On Multi30K's captions in cs, de, en and fr, with the references of other images
(`tests/scoring/health/test_truncation.py`), it finds 39% (cs) to 54% (fr) of captions that were cut between two words,
and flags 0.9% (cs) to 1.8% (en) of complete ones. It misses cuts after a noun or inside a word, so the share is a lower
bound, about half of the truth. Compare it with the share of the references.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.metrics.ngrams import Ngrams

_MIN_COUNT = 20
_OCCURRENCES_PER_LAST = 200
_UNFINISHED = frozenset(",\u060c\u3001\uff0c\ufe50:\uff1a;\u061b\uff1b\u2026\u2025\u22ef")
_UNFINISHED_CATEGORIES = frozenset({"Ps", "Pd"})


def ends_unfinished(caption: str) -> bool:
  """Returns whether a caption ends in punctuation that cannot end a sentence."""
  caption = caption.rstrip()
  if not caption or caption[-1] == ".":
    return caption.endswith("..")
  return caption[-1] in _UNFINISHED or unicodedata.category(caption[-1]) in _UNFINISHED_CATEGORIES


def never_ends(count: np.ndarray, last: np.ndarray, left_out: int = 0) -> np.ndarray:
  """Returns bool [V]: whether each of V words (almost) never ends a caption.

  `count` and `last`, int64 [V], say how often each word occurs in the references and how often it ends one; `left_out`
  references that end in the word are left out of both.
  """
  count = count - left_out
  return (count >= _MIN_COUNT) & ((last - left_out) * _OCCURRENCES_PER_LAST <= count)


def shares(captions: Sequence[str], counts: Ngrams) -> tuple[float | None, float | None, np.ndarray]:
  """Returns the shares of truncated captions, in [0, 1], among hypotheses with words and references with words.

  Then int64, the rows of the truncated hypotheses in `counts`.

  The raw captions are in the order of the rows of `counts`. A reference is judged against the others. A share is None
  if no caption has words, or if there are too few references.
  """
  size = len(counts.vocabulary)
  filled = counts.length > 0
  last = np.zeros(len(counts.length), np.int64)  # the last word of each caption; 0 where there is none
  last[filled] = counts.words[np.cumsum(counts.length)[filled] - 1]
  of_references = counts.words[np.repeat(counts.is_reference, counts.length)]
  count = np.bincount(of_references, minlength=size)
  count_last = np.bincount(last[filled & counts.is_reference], minlength=size)
  if count.max(initial=0) < _MIN_COUNT:
    return None, None, np.zeros(0, np.int64)
  ends = [caption.rstrip()[-2:] for caption in captions]  # of which there are few
  unfinished_ends = {end: ends_unfinished(end) for end in set(ends)}
  unfinished = np.array([unfinished_ends[end] for end in ends])

  def truncated(rows: np.ndarray, left_out: int) -> tuple[float | None, np.ndarray]:
    cut_rows = rows[unfinished[rows] | never_ends(count, count_last, left_out)[last[rows]]]
    return len(cut_rows) / len(rows) if len(rows) else None, cut_rows

  share, rows = truncated(np.flatnonzero(filled & ~counts.is_reference), 0)
  return share, truncated(np.flatnonzero(filled & counts.is_reference), 1)[0], rows
