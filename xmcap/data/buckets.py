"""Plans the batches of a stream: the pictures of each batch, and its target length.

With several lengths, the plan follows from the index of lengths (lengths.py) without reading a record, so all processes
compute the same plan.
"""

import functools
import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xmcap.data import draws
from xmcap.data.caption_choice import Drawing
from xmcap.data.lengths import LengthIndex
from xmcap.data.order import Order

_NEIGHBOURS = 16  # cached batches before and after a batch


class Bucket(NamedTuple):
  """The plan of a batch: the positions of its pictures, int64 [B], and its target length T."""

  positions: np.ndarray
  length: int


class Buckets:
  """The batches of a stream, by step.

  Args:
    drawing: draws languages and captions.
    indexes: for each corpus, the index of the lengths of its captions; () if there is only one length.
    order: the pictures at the positions of the stream.
    pictures: B.
    lengths: possible values of T, ascending. A batch gets the smallest that fits all its captions, or the largest.
    window: number of batches whose pictures are sorted by caption length among each other; 1 keeps the order.
    prompts: if captions are drawn in pairs, the number of tokens of each language's LangId, which a target contains
      together with both captions (see `families/plugs/stabilizer.py`).
  """

  def __init__(
    self,
    drawing: Drawing,
    indexes: Sequence[LengthIndex],
    order: Order,
    pictures: int,
    lengths: Sequence[int],
    window: int = 1,
    prompts: Sequence[int] = (),
  ):
    self._drawing, self._indexes, self._order = drawing, indexes, order
    self._prompts = np.array(prompts)
    self._pictures, self._lengths, self._window = pictures, np.array(lengths), window
    # Cached, because threads work on neighbouring steps.
    self._kept = functools.lru_cache(maxsize=1 + 2 * -(-_NEIGHBOURS // window))(self._made)
    self._lock = threading.Lock()

  def batch(self, step: int) -> Bucket:
    """Returns the batch of a step, independent of earlier calls."""
    with self._lock:
      return self._kept(step // self._window)[step % self._window]

  def mix(self, steps: int) -> dict[int, float]:
    """Returns T -> share of batches of that length among the first `steps` steps, rounded down to whole windows."""
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
      # The batches of a window are shuffled, so that training does not go from short to long.
      order = np.argsort(draws.bits(self._drawing.seed, "window", np.array([window]), self._window)[0])
      batches = np.argsort(longest, kind="stable").reshape(batches.shape)[order]
    fitting = np.searchsorted(self._lengths[:-1], longest[batches].max(axis=1))
    return [
      Bucket(positions[rows], int(self._lengths[place])) for rows, place in zip(batches, fitting, strict=True)
    ]

  def _longest(self, positions: np.ndarray) -> np.ndarray:
    """Returns int64 [N]: pieces of the longest drawn caption of each picture, including EOS; 0 if there is none."""
    found = self._order.at(positions)
    drawn = self._drawing.at(positions, found)
    longest = np.zeros(len(positions), np.int64)
    for part, index in enumerate(self._indexes):
      of_part = np.flatnonzero(found.parts == part)
      indices = found.indices[of_part] - self._order.starts[part]
      layouts = index.layout_of[indices]
      by_layout = np.argsort(layouts, kind="stable")
      for group in np.split(by_layout, np.flatnonzero(np.diff(layouts[by_layout])) + 1):
        if not group.size:
          continue
        rows, layout = of_part[group], index.layouts[int(layouts[group[0]])]
        held = self._drawing.layout(part, *layout)
        columns, places = drawn(rows, held)
        if columns[0, 0] < len(self._drawing.languages):  # otherwise there is no caption in these languages
          starts = index.starts[indices[group], None]
          pieces = index.lengths[starts + places].astype(np.int64)
          if self._drawing.pivot:
            own = held.pivots[places]
            # Both lengths count an EOS; the separator takes the place of one.
            pivot = index.lengths[starts + own].astype(np.int64)
            pieces = pivot + self._prompts[columns] + np.where(own == places, 1, pieces)
          longest[rows] = pieces.max(axis=1)
    return longest
