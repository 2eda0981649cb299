"""The order of a stream: which image is at a position, in one corpus or in several that are mixed by rates.

Positions are divided into blocks of 10,000. In each block a corpus has a fixed number of places, by its rate, and a
seeded permutation distributes the places. So the number of earlier images of the corpus at any position is known
without a replay, and the first batch costs the same at every position.

A bucket answers a request for some neighbouring records about as fast as one for a single record. So `neighbours`
successive positions may show as many neighbouring records: chunks of a corpus are permuted as wholes, and the records
inside each chunk. The borders of the chunks differ from epoch to epoch, so other records meet. This is as random as a
permutation of single records where neighbours have no more in common than others: in CC3M-35L (the lines of the
release) and COCO-35L (Karpathy's order), not in a folder that is sorted by class.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xmcap.data import draws

BLOCK = 10_000
"""Positions of a block; rates are rounded to multiples of 1 / BLOCK."""


class Places(NamedTuple):
  """The images at N positions, all int64 [N].

  `indices` number the images of all corpora, one corpus after the other; `parts` are the numbers of the corpora; and
  `epochs` count the earlier passes over the corpus.
  """

  indices: np.ndarray
  parts: np.ndarray
  epochs: np.ndarray


class Order:
  """All images once per epoch, in a permutation that is different in each epoch.

  Args:
    seed: seed of the permutations.
    sizes: number of images of each corpus.
    neighbours: length of the chunks that are permuted as wholes; a chunk begins at each multiple of it.

  Attributes:
    starts: int64 [C], the index of each corpus's first image.
  """

  def __init__(self, seed: int, sizes: Sequence[int], neighbours: int = 1):
    self.seed = seed
    self.neighbours = neighbours
    self.sizes = np.array(sizes, np.int64)
    self.starts = np.cumsum(self.sizes) - self.sizes

  def at(self, positions: np.ndarray) -> Places:
    """Returns the images at positions, int64 [N], at least 0."""
    total = int(self.sizes.sum())
    indices = _permuted(self.seed, positions, total, self.neighbours)
    return Places(indices, np.searchsorted(self.starts, indices, side="right") - 1, positions // total)

  def once(self) -> "Order":
    """Returns the order for evaluation, whose first positions show every image once; `neighbours` do not matter."""
    return Order(self.seed, self.sizes.tolist())

  def seen(self, images: int) -> list[float]:
    """Returns for each corpus how often its images are seen in the first `images` positions, on average."""
    return [images / self.sizes.sum()] * len(self.sizes)


class MixedOrder(Order):
  """Corpora by rates; the images of each follow a permutation of its own, once per epoch of this corpus.

  With `neighbours`, a place in a block is that of a chunk.

  Args:
    counts: places of each corpus in a block, from `places_of`.
  """

  def __init__(self, seed: int, sizes: Sequence[int], counts: Sequence[int], neighbours: int = 1):
    super().__init__(seed, sizes, neighbours)
    self.counts = np.array(counts, np.int64)
    # Its own seed for each corpus, or two of the same size would be permuted alike.
    self._seeds = draws.bits(seed, "corpus", np.arange(len(sizes)), 1)[:, 0].tolist()

  def at(self, positions: np.ndarray) -> Places:
    positions = np.asarray(positions, np.int64)
    parts, earlier = np.empty_like(positions), np.empty_like(positions)
    chunks, inside = np.divmod(positions, self.neighbours)
    blocks, within = np.divmod(chunks, BLOCK)
    for block in np.unique(blocks).tolist():
      rows = blocks == block
      of_block = _block(self.seed, block, tuple(self.counts.tolist()))
      parts[rows], earlier[rows] = (column[within[rows]] for column in of_block)
    earlier = (earlier + blocks * self.counts[parts]) * self.neighbours + inside
    indices = self.starts[parts]
    for part in np.unique(parts).tolist():
      rows = parts == part
      size = int(self.sizes[part])
      indices[rows] += _permuted(self._seeds[part], earlier[rows], size, self.neighbours)
    return Places(indices, parts, earlier // self.sizes[parts])

  def seen(self, images: int) -> list[float]:
    return (images / BLOCK * self.counts / self.sizes).tolist()


def places_of(rates: Sequence[float]) -> list[int]:
  """Returns the places of each corpus in a block, by the largest remainder.

  Raises:
    ValueError: a rate is less than 1 / BLOCK of their sum.
  """
  shares = np.array(rates, float) / sum(rates) * BLOCK
  counts = np.floor(shares + 1e-6).astype(np.int64)
  if counts.min() < 1:
    raise ValueError(f"{min(rates):g} of {sum(rates):g} is less than 1 / {BLOCK:,}")
  largest = np.argsort(counts - shares, kind="stable")[: BLOCK - counts.sum()]
  counts[largest] += 1
  return counts.tolist()


def _permuted(seed: int, positions: np.ndarray, size: int, neighbours: int) -> np.ndarray:
  """As `draws.permuted`, in chunks.

  In each epoch the records are rotated by a random number. The chunks are the first of them, and the positions before
  the first multiple of `neighbours` and after the last chunk show the rest, less than two chunks.
  """
  if neighbours == 1:
    return draws.permuted(seed, positions, size)
  epochs, within = np.divmod(np.asarray(positions, np.int64), size)
  indices = np.empty_like(within)
  for epoch in np.unique(epochs).tolist():
    rows = np.flatnonzero(epochs == epoch)
    before = -epoch * size % neighbours
    chunks = max(0, size - before) // neighbours
    numbers, inside = np.divmod(within[rows] - before, neighbours)
    is_chunk = (numbers >= 0) & (numbers < chunks)
    places = np.where(numbers < 0, within[rows], within[rows] - chunks * neighbours) + chunks * neighbours
    shown, of_shown = np.unique(numbers[is_chunk], return_inverse=True)
    begin = draws.permuted(seed, shown + epoch * chunks, chunks) * neighbours if chunks else shown
    orders = np.argsort(draws.bits(seed, "chunk", shown + epoch * size, neighbours), axis=1, kind="stable")
    places[is_chunk] = begin[of_shown] + orders[of_shown, inside[is_chunk]]
    rotation = int(draws.bits(seed, "rotation", np.array([epoch]), 1)[0, 0] % np.uint64(size))
    indices[rows] = (places + rotation) % size
  return indices


@functools.lru_cache(maxsize=16)
def _block(seed: int, block: int, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
  """Returns for each position of a block its corpus, and the number of earlier positions of the corpus in the block."""
  order = np.argsort(draws.bits(seed, "mixture", np.array([block]), BLOCK)[0], kind="stable")
  parts = np.repeat(np.arange(len(counts)), counts)[order]
  earlier = np.empty(BLOCK, np.int64)
  for part in range(len(counts)):
    rows = parts == part
    earlier[rows] = np.arange(counts[part])
  return parts, earlier
