"""Batches by length: which images are in a batch, and its target length, before a record is read.

With several lengths, the plan follows from the lengths of all captions (length_index.py), so all processes compute the
same plan.
"""

import functools
import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xmcap.data import draws
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_index import LengthIndex
from xmcap.data.order import Order

_FIRST_PART = 256  # images that are looked at first for the length of a batch
_PART = 4_096  # images that are looked at together, in the processor's cache
_CACHED = 16  # cached batches before and after a batch


class LengthBatch(NamedTuple):
  """The plan of a batch: the positions of its images, int64 [B], and its target length T."""

  positions: np.ndarray
  length: int


class LengthBatches:
  """The batches of a stream, by step.

  Args:
    drawing: draws languages and captions.
    indexes: for each corpus, the index of the lengths of its captions; () if there is only one length.
    order: the images at the positions of the stream.
    images: B.
    lengths: possible values of T, ascending. A batch gets the smallest that fits all its captions, or the largest.
    window: number of batches whose images are sorted by caption length among each other; 1 keeps the order.
    prompts: if captions are drawn in pairs, the number of tokens of each language's LangId, which a target contains
      together with both captions (see `families/plugs/stabilizer.py`).
  """

  def __init__(
    self,
    drawing: Drawing,
    indexes: Sequence[LengthIndex],
    order: Order,
    images: int,
    lengths: Sequence[int],
    window: int = 1,
    prompts: Sequence[int] = (),
  ):
    self._drawing, self._indexes, self._order = drawing, indexes, order
    self._prompts = np.array(prompts)
    self._num_images, self._lengths, self._window = images, np.array(lengths), window
    # Cached, because threads work on neighbouring steps.
    self._fitted = functools.lru_cache(maxsize=1 + 2 * _CACHED)(self._fitting)
    self._grouped = functools.lru_cache(maxsize=1 + 2 * -(-_CACHED // window))(self._grouping)
    self._lock = threading.Lock()

  def length(self, step: int) -> int:
    """Returns T of the batch of a step, independent of earlier calls."""
    with self._lock:
      if self._window == 1:
        return self._fitted(step)
      return self._grouped(step // self._window)[step % self._window].length

  def positions(self, step: int, rows: np.ndarray) -> np.ndarray:
    """Returns the positions of the images in rows of the batch of a step, both int64 [N]."""
    if self._window == 1:
      return step * self._num_images + rows
    with self._lock:
      return self._grouped(step // self._window)[step % self._window].positions[rows]

  def mix(self, steps: int) -> dict[int, float]:
    """Returns T -> share of batches of that length among the first `steps` steps, rounded down to whole windows."""
    if len(self._lengths) == 1:
      return {int(self._lengths[0]): 1.0}
    if self._window == 1:
      counts = Counter(map(self._fitting, range(max(1, steps))))
    else:
      windows = range(max(1, steps // self._window))
      counts = Counter(batch.length for window in windows for batch in self._grouping(window))
    return {length: counts[length] / counts.total() for length in self._lengths.tolist()}

  def _fitting(self, step: int) -> int:
    """Returns T of a batch in the order of the stream: it is known with the first image that needs the largest."""
    start, stop, size, longest = step * self._num_images, (step + 1) * self._num_images, _FIRST_PART, 0
    while start < stop and longest <= self._lengths[:-1].max(initial=-1):
      longest = max(longest, self._longest(np.arange(start, min(start + size, stop))).max())
      start, size = start + size, 2 * size
    return int(self._lengths[np.searchsorted(self._lengths[:-1], longest)])

  def _grouping(self, window: int) -> list[LengthBatch]:
    """Returns the batches of a window, whose images are grouped by length: all of them must be looked at."""
    size = self._window * self._num_images
    positions = np.arange(size, dtype=np.int64) + window * size
    parts = range(0, size, _PART)
    longest = np.concatenate([self._longest(positions[start : start + _PART]) for start in parts])
    batches = np.argsort(longest, kind="stable").reshape(self._window, self._num_images)
    if self._order.neighbours > 1:
      batches = self._dealt(batches, longest)
    # The batches of a window are shuffled, so that training does not go from short to long.
    order = np.argsort(draws.bits(self._drawing.seed, "window", np.array([window]), self._window)[0])
    batches = batches[order]
    fitting = self._places(longest[batches])
    return [
      LengthBatch(positions[rows], int(self._lengths[place]))
      for rows, place in zip(batches, fitting, strict=True)
    ]

  def _dealt(self, batches: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Deals images out among the batches of one target length again, int64 [W, B], in the order of their positions.

    So the images of a chunk are in about the same rows of these batches, and a process, which has the same rows of all
    batches, can read most of them together.
    """
    fitting, dealt = self._places(longest[batches]), np.empty_like(batches)
    for number in np.unique(fitting):
      same = fitting == number
      dealt[same] = np.sort(batches[same], axis=None).reshape(batches.shape[1], -1).T
    return dealt

  def _places(self, longest: np.ndarray) -> np.ndarray:
    """Returns int64 [W]: the number of the smallest target length that fits all captions of a batch, [W, B]."""
    return np.searchsorted(self._lengths[:-1], longest.max(axis=1))

  def _longest(self, positions: np.ndarray) -> np.ndarray:
    """Returns int64 [N]: pieces of the longest drawn caption of each image, including EOS; 0 if there is none."""
    images = self._order.at(positions)
    drawn = self._drawing.at(images)
    longest = np.zeros(len(positions), np.int64)
    for part, index in enumerate(self._indexes):
      of_part = np.flatnonzero(images.parts == part)
      for of_split, split, layouts, starts in index.at(images.indices[of_part] - self._order.starts[part]):
        by_layout = np.argsort(layouts, kind="stable")
        for group in np.split(by_layout, np.flatnonzero(np.diff(layouts[by_layout])) + 1):
          rows, layout = of_part[of_split[group]], split.layouts[int(layouts[group[0]])]
          choices = self._drawing.layout(part, *layout)
          columns, places = drawn(rows, choices)
          if columns[0, 0] == len(self._drawing.languages):  # there is no caption in these languages
            continue
          first = starts[group, None]
          pieces = split.lengths[first + places].astype(np.int64)
          if self._drawing.pivot:
            own = choices.pivots[places]
            # Both lengths count an EOS; the separator takes the place of one.
            pivot = split.lengths[first + own].astype(np.int64)
            pieces = pivot + self._prompts[columns] + np.where(own == places, 1, pieces)
          longest[rows] = pieces.max(axis=1)
    return longest
