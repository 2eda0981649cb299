"""Captions that stop before they are complete, such as those cut off by a limit on their length.

A caption counts as truncated if it ends in an opening bracket, a dash or hyphen, a comma, colon or semicolon, or an
ellipsis; or in a word that the references hold 20 times or more and end in at most once in 200 of them: articles,
prepositions, conjunctions. So no list of a language's words is needed.

On Multi30K's captions in cs, de, en and fr, with the references of other images
(`tests/scoring/health/test_truncation.py`), 39% (cs) to 54% (fr) of captions that were cut between two words are
found, and 0.9% (cs) to 1.8% (en) of whole ones are taken for cut. Cuts after a noun or inside a word go unseen, so
the share is a lower bound, about half of the truth, and to be read beside that of the references.
"""

import collections
import itertools
import unicodedata
from collections.abc import Sequence

_MIN_COUNT = 20
_OCCURRENCES_PER_LAST = 200
_UNFINISHED = frozenset(",\u060c\u3001\uff0c\ufe50:\uff1a;\u061b\uff1b\u2026\u2025\u22ef")
_UNFINISHED_CATEGORIES = frozenset({"Ps", "Pd"})


def ends_unfinished(caption: str) -> bool:
  """Returns whether a caption ends in punctuation that something has to follow."""
  caption = caption.rstrip()
  if not caption or caption[-1] == ".":
    return caption.endswith("..")
  return caption[-1] in _UNFINISHED or unicodedata.category(caption[-1]) in _UNFINISHED_CATEGORIES


class Endings:
  """How often each word of the references occurs, and how often it is the last one.

  Attributes:
    known: whether any word occurs often enough to say that captions do not end in it.
  """

  def __init__(self, references: Sequence[Sequence[str]]):
    self._count = collections.Counter(itertools.chain.from_iterable(references))
    self._last = collections.Counter(words[-1] for words in references if words)
    self.known = max(self._count.values(), default=0) >= _MIN_COUNT

  def never_ends(self, word: str, left_out: int = 0) -> bool:
    """Returns whether captions do not end in a word, by the references but for `left_out` that end in it."""
    count = self._count[word] - left_out
    return count >= _MIN_COUNT and (self._last[word] - left_out) * _OCCURRENCES_PER_LAST <= count


def share(
  captions: Sequence[str], words: Sequence[Sequence[str]], endings: Endings, left_out: int = 0
) -> float | None:
  """Returns the share of truncated captions, in [0, 1], among those with words.

  It is None if the references are too few to know any word, or no caption has words.

  Args:
    captions: raw captions.
    words: the words of each.
    endings: of the references.
    left_out: 1 if the captions are the references themselves; each is then judged by the others.
  """
  truncated = [
    ends_unfinished(caption) or endings.never_ends(of_caption[-1], left_out)
    for caption, of_caption in zip(captions, words, strict=True)
    if of_caption
  ]
  return sum(truncated) / len(truncated) if truncated and endings.known else None
