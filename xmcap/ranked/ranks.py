"""Ranks of the right candidates of queries, with exact treatment of ties.

Candidates with equal embeddings, such as two classes of the same name, must tie exactly. So each distinct embedding is
scored once: at different positions of a matrix product, equal inputs may give results that differ in the last bits.
"""

import dataclasses

import numpy as np

from xmcap import wording
from xmcap.reading import embedding_rows
from xmcap.reading.embedding_rows import Embeddings

NDCG_DEPTH = 10

_CELLS = 1 << 24  # scores computed at a time: 64 MiB, and as much again for derived arrays
_COLUMNS = 16  # columns in which rows change places at a time: a cache line


# The sum of 1 / log2(rank + 1) over the first so many ranks.
_GAINS = np.concatenate([[0], np.cumsum(1 / np.log2(np.arange(2, NDCG_DEPTH + 2)))])


@dataclasses.dataclass(frozen=True)
class Ranks:
  """Ranks for Q queries, each with one or more right candidates; the best right candidate counts.

  Attributes:
    above: int64 [Q], number of candidates that score higher than the best right one.
    level: int64 [Q], number of candidates with the same score as the best right one, including itself.
    right: int64 [Q], number of right candidates among those.
    first: int64 [Q], index of a candidate with the highest score.
    ndcg: float64 [Q], nDCG at `NDCG_DEPTH` over all right candidates (Jarvelin and Kekalainen, 2002; relevance is 0 or
      1), expected with ties in random order.
  """

  above: np.ndarray
  level: np.ndarray
  right: np.ndarray
  first: np.ndarray
  ndcg: np.ndarray

  def hits(self, k: int) -> np.ndarray:
    """Returns float64 [Q], the probability of a right candidate among the first k, with ties in random order.

    Of `level` tied candidates, `room` are among the first k. The probability that none of them is right is
    hypergeometric: the product over i < right of (level - room - i) / (level - i).
    """
    room = np.clip(k - self.above, 0, self.level)
    missed = np.ones(len(room))
    for i in range(int(self.right.max(initial=0))):
      share = np.clip(self.level - room - i, 0, None) / np.maximum(self.level - i, 1)
      missed *= np.where(i < self.right, share, 1.0)
    return 1 - missed

  def reciprocals(self) -> np.ndarray:
    """Returns float64 [Q], the expected 1 / rank of the first right candidate, with ties in random order.

    Of `level` tied candidates in random order, the first right one is the j-th with probability
    right / (level - j + 1) times the product over i < j - 1 of (level - right - i) / (level - i).
    """
    expected = np.zeros(len(self.above))
    missed = np.ones(len(self.above))
    for before in range(int((self.level - self.right).max(initial=0)) + 1):
      active = before <= self.level - self.right
      share = np.where(active, self.right / np.maximum(self.level - before, 1), 0.0)
      expected += missed * share / (self.above + before + 1)
      missed *= 1 - share
    return expected

  def expected(self) -> np.ndarray:
    """Returns float64 [Q], the expected rank from 1 of the first right candidate, with ties in random order."""
    return self.above + (self.level + 1) / (self.right + 1)

  @property
  def undecided(self) -> int:
    """Number of queries where the order of ties decides whether the first candidate is right."""
    return int(((self.above == 0) & (self.level > self.right)).sum())


def rank(queries: Embeddings, candidates: Embeddings, right: np.ndarray, counts: np.ndarray) -> Ranks:
  """Ranks all candidates for each query by the product of their embeddings.

  Args:
    queries: [Q, D], which may be larger than memory.
    candidates: [C, D], of which one copy is kept as float32.
    right: integers [sum of counts], the right candidates of the first query, then those of the second, and so on.
    counts: integers [Q], number of right candidates of each query, 1 or more.

  Raises:
    UsageError: a product is not finite.
  """
  embeddings = candidates[:] if isinstance(candidates, embedding_rows.Stored) else candidates.copy()
  firsts, place, copies = distinct_rows(embeddings)
  distinct = embeddings[: len(firsts)]
  # Rows change places in a few columns at a time: a second copy of a large file would be too much.
  for start in range(0, embeddings.shape[1], _COLUMNS):
    columns = slice(start, start + _COLUMNS)
    distinct[:, columns] = embeddings[firsts, columns]
  ends = np.cumsum(counts)
  rows = embedding_rows.at_once(_CELLS, distinct)
  parts = []
  for start in range(0, len(queries), rows):
    stop = min(start + rows, len(queries))
    scores = embedding_rows.products(queries[start:stop], distinct, start)
    begun = ends[start:stop] - counts[start:stop]
    query = np.repeat(np.arange(stop - start), counts[start:stop])
    of_right = scores[query, place[right[begun[0] : ends[stop - 1]]]]
    best = np.maximum.reduceat(of_right, begun - begun[0])
    gains, of_chosen = np.zeros(stop - start), scores
    for number in range(int(counts[start:stop].max(initial=0))):
      chosen = np.flatnonzero(counts[start:stop] > number)
      level = of_right[begun[chosen] - begun[0] + number, None]
      of_chosen = scores if len(chosen) == len(scores) else scores[chosen]
      above, equal = (_counted(found_of(of_chosen, level), copies) for found_of in (np.greater, np.equal))
      gains[chosen] += (
        _GAINS[np.minimum(above + equal, NDCG_DEPTH)] - _GAINS[np.minimum(above, NDCG_DEPTH)]
      ) / equal
    parts.append(
      (
        _counted(scores > best[:, None], copies),
        _counted(scores == best[:, None], copies),
        np.bincount(query[of_right == best[query]], minlength=stop - start),
        firsts[scores.argmax(axis=1)],
        gains / _GAINS[np.minimum(counts[start:stop], NDCG_DEPTH)],
      )
    )
    del scores, of_chosen  # before the next are made
  return Ranks(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def distinct_rows(array: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Finds equal rows of [N, D]: what `numpy.unique` with axis=0 says, in memory of a few columns.

  Returns:
    The first row of each kind, int64 [K], in ascending order of the rows; the kind of each row, int64 [N]; and the
    number of rows of each kind, int64 [K].
  """
  order = np.arange(len(array))
  begins = order == 0  # whether a kind begins at this place of `order`, as far as the columns so far tell
  for column in array.T:
    unsure = ~(begins & np.append(begins[1:], True))
    places = np.flatnonzero(unsure)
    if not len(places):
      break
    kinds, values = np.cumsum(begins)[places], column[order[places]]
    sorted_places = np.lexsort((values, kinds))
    order[places], values = order[places][sorted_places], values[sorted_places]
    begins[places[1:]] |= values[1:] != values[:-1]
  place = np.empty_like(order)
  place[order] = np.cumsum(begins) - 1
  return order[begins], place, np.bincount(place)


def ties_note(undecided: int) -> list[str]:
  """Returns the note of a table about queries that are `Ranks.undecided`, if there are any."""
  if not undecided:
    return []
  return [
    f"{wording.count(undecided, 'ranking')} tie at the top: each counts as its expected value over all orders"
  ]


def no_keys_note(noun: str) -> str:
  """Returns the note of a table about a set of images or queries whose keys are the numbers from 0."""
  return f"{noun} without keys are signed by their numbers, by which another set of as many is the same: give --keys"


def _counted(chosen: np.ndarray, copies: np.ndarray) -> np.ndarray:
  """Returns int64 [rows], the number of chosen candidates per row, counting each distinct one with its copies."""
  counts = np.count_nonzero(chosen, axis=1)
  for column in np.flatnonzero(copies > 1):
    counts = counts + chosen[:, column] * (copies[column] - 1)
  return counts
