"""The plan of a stream's batches: the pictures of each, and the length of its targets.

With several lengths it follows from the index of lengths (lengths.py) without reading a record, so that every process
finds the same.
"""

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xmcap.data import draws
from xmcap.data.caption_choice import Drawing
from xmcap.data.lengths import LengthIndex

_NEIGHBOURS = 16  # batches before and after one that are kept with it


class Bucket(NamedTuple):
  """A batch before it is read: the positions of its pictures, int64 [B], and T of its targets."""

  positions: np.ndarray
  length: int


class Buckets:
  """The batches of a stream, by step.

  Args:
    index: of the split's captions; None where there is one length.
    indices: positions -> pictures of the split: int64 [N] -> int64 [N].
    pictures: B.
    lengths: values that T may have, rising. The smallest that holds all captions of a batch is taken, or the largest.
    window: batches whose pictures are dealt out anew, those with long captions together; 1 keeps the order.
  """

  def __init__(
    self,
    drawing: Drawing,
    index: LengthIndex | None,
    indices: Callable[[np.ndarray], np.ndarray],
    pictures: int,
    lengths: Sequence[int],
    window: int = 1,
  ):
    self._drawing, self._index, self._indices = drawing, index, indices
    self._pictures, self._lengths, self._window = pictures, np.array(lengths), window
    # Threads work on neighbouring steps.
    self._kept = functools.lru_cache(maxsize=1 + 2 * -(-_NEIGHBOURS // window))(self._made)
    self._lock = threading.Lock()

  def batch(self, step: int) -> Bucket:
    """The batch of a step, whatever steps were asked for before."""
    with self._lock:
      return self._kept(step // self._window)[step % self._window]

  def mix(self, steps: int) -> dict[int, float]:
    """T -> the share of batches of that length, among the first so many steps, whole windows of them."""
    if len(self._lengths) == 1:
      return {int(self._lengths[0]): 1.0}
    windows = range(max(1, steps // self._window))
    counts = Counter(bucket.length for window in windows for bucket in self._made(window))
    return {length: counts[length] / counts.total() for length in self._lengths.tolist()}

  def _made(self, window: int) -> list[Bucket]:
    size = self._window * self._pictures
    positions = np.arange(size, dtype=np.int64) + window * size
    if len(self._lengths) == 1:
      return [Bucket(positions, int(self._lengths[0]))]
    longest = self._longest(positions)
    batches = np.arange(size).reshape(self._window, self._pictures)
    if self._window > 1:
      # Batches of a window come in drawn order, so that training does not go from short to long.
      order = np.argsort(draws.bits(self._drawing.seed, "window", np.array([window]), self._window)[0])
      batches = np.argsort(longest, kind="stable").reshape(batches.shape)[order]
    return [Bucket(positions[rows], self._fitting(longest[rows].max())) for rows in batches]

  def _fitting(self, pieces: int) -> int:
    place = np.searchsorted(self._lengths, pieces)
    return int(self._lengths[min(place, len(self._lengths) - 1)])

  def _longest(self, positions: np.ndarray) -> np.ndarray:
    """The pieces of the longest caption drawn of each picture, with the end; 0 where there is none: int64 [N]."""
    index = self._index
    assert index is not None  # there are several lengths
    indices = self._indices(positions)
    drawn = self._drawing.at(positions, indices)
    layouts = index.layout_of[indices]
    longest = np.zeros(len(positions), np.int64)
    by_layout = np.argsort(layouts, kind="stable")
    for rows in np.split(by_layout, np.flatnonzero(np.diff(layouts[by_layout])) + 1):
      codes = index.layouts[int(layouts[rows[0]])].encode()
      columns, places = drawn(rows, self._drawing.layout(codes, codes.split()))
      if columns[0, 0] < len(self._drawing.languages):  # else there is no caption in these languages
        longest[rows] = index.lengths[index.starts[indices[rows], None] + places].max(axis=1)
    return longest
