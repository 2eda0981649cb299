"""The words of many captions as numbers: what tokenisers give and metrics count."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Words:
  """The words of C captions, one caption after another.

  Attributes:
    vocabulary: the V distinct words.
    numbers: int64 [W], which word, in [0, V).
    lengths: int64 [C], how many words each caption has; their sum is W.
  """

  vocabulary: tuple[str, ...]
  numbers: np.ndarray
  lengths: np.ndarray

  @classmethod
  def of(cls, captions: Sequence[Sequence[str]]) -> "Words":
    """Numbers the words of captions."""
    flat = list(itertools.chain.from_iterable(captions))
    vocabulary, numbers = number(flat)
    return cls(vocabulary, numbers, np.fromiter(map(len, captions), np.int64, len(captions)))

  def captions(self) -> list[list[str]]:
    """Returns the words of each caption."""
    flat = iter(list(map(self.vocabulary.__getitem__, self.numbers.tolist())))
    return [list(itertools.islice(flat, length)) for length in self.lengths.tolist()]


def number(items: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the distinct items in the order of their first occurrence, and int64 [items], which each is."""
  # First each is numbered by where it first stands: one look-up an item.
  places: dict[str, int] = {}
  first = np.fromiter(map(places.setdefault, items, range(len(items))), np.int64, len(items))
  rank = np.zeros(len(items), np.int64)
  rank[np.fromiter(places.values(), np.int64, len(places))] = np.arange(len(places))
  return tuple(places), rank[first]
