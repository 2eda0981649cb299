"""What all streams share: the order of pictures, the rows that a process reads, pixels, and prefetching."""

import copy
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from xmcap.data import draws, images
from xmcap.data.corpus import PartSource
from xmcap.data.prefetch import prefetch
from xmcap.data.records import RecordSource
from xmcap.data.skipped import SkippedPictures
from xmcap.errors import UsageError, XmcapError

Batch = dict[str, np.ndarray]

_UNDECODABLE = "pictures that cannot be decoded"


class PictureStream:
  """A stream without a batch: what a kind of stream puts into one is its own.

  Args:
    source: the records of the split.
    pictures: B, of all hosts.
    image_size: H = W, pixels.
    seed: of order and augmentation.
    augment: random changes to the pictures; None for none.
    workers: threads that make batches.

  Attributes:
    skipped: pictures that cannot be decoded; the kind of stream says whether they are left out.

  Raises:
    UsageError: the batch is empty.
  """

  def __init__(
    self,
    source: RecordSource | PartSource,
    pictures: int,
    image_size: int,
    seed: int,
    augment: images.Augment | None,
    workers: int,
  ):
    if pictures < 1 or image_size < 1:
      raise UsageError(
        f"a batch of {pictures} pictures of {image_size} pixels is empty: give at least 1 of each"
      )
    self.source = source
    self.pictures = pictures
    self.image_size = image_size
    self.seed = seed
    self.augment = augment
    self.workers = workers
    self._end: int | None = None
    self._lock = threading.Lock()
    self._lost: dict[str, int] = {}
    self.skipped = SkippedPictures()

  def resized(self, pictures: int) -> "PictureStream":
    """The same split with another number of pictures a batch, for a try of what comes after the stream."""
    stream = copy.copy(self)
    stream.pictures, stream._lost = pictures, {}
    stream.skipped = self.skipped.fresh()
    return stream

  def first(self, count: int, multiple: int = 1) -> tuple["PictureStream", int]:
    """The first so many positions, each once, in the fewest batches that hold no more than this stream's do.

    The batches are of one size, that of the smallest that will do; rows that are left over have weight 0. As a position
    gives the same example in any batch, means by weight over all batches do not depend on their size.

    Args:
      count: of positions; `images_per_epoch` is the whole split.
      multiple: the pictures of a batch become a multiple of this, even where they are then more than in this stream.

    Returns:
      The stream, and in how many steps it has shown them.
    """
    steps = -(-count // self.pictures)
    stream = copy.copy(self)
    stream.pictures = -(-count // steps // multiple) * multiple
    stream._end = count
    return stream, -(-count // stream.pictures)

  @property
  def images_per_epoch(self) -> int:
    """Pictures in the split: every one comes up once in as many positions."""
    return len(self.source)

  @property
  def steps_per_epoch(self) -> float:
    """Steps in which every picture comes up once."""
    return len(self.source) / self.pictures

  def batch(self, step: int, rows: Sequence[int] | None = None) -> Batch:
    """Rows of the batch of a step, whatever steps were asked for before.

    Args:
      step: from 0.
      rows: positions in the batch, ascending, such as `sharding.process_rows`; None: all.

    Raises:
      UsageError: no such rows, or no such step.
    """
    raise NotImplementedError

  def batches(
    self,
    start_step: int = 0,
    rows: Sequence[int] | None = None,
    num_steps: int | None = None,
    depth: int = 4,
  ) -> Iterator[Batch]:
    """Yields the batches from a step on, computed ahead on threads.

    Args:
      start_step: the first step.
      rows: see `batch`.
      num_steps: how many; None: for ever.
      depth: batches held or under way at most.

    Returns:
      An iterator; an error in the making of a batch is raised when its turn comes; `close()` ends the
      threads.
    """
    self._positions(0, rows)
    steps = itertools.count(start_step)
    if num_steps is not None:
      steps = itertools.islice(steps, num_steps)
    return prefetch(lambda step: self.batch(step, rows), steps, self.workers, depth)

  def _positions(self, step: int, rows: Sequence[int] | None) -> np.ndarray:
    """The positions of rows of a step's batch: int64 [N]."""
    if step < 0:
      raise UsageError(f"step {step}: steps count from 0")
    rows = np.arange(self.pictures) if rows is None else np.asarray(rows, np.int64)
    if (
      rows.ndim != 1 or not rows.size or rows[0] < 0 or rows[-1] >= self.pictures or (np.diff(rows) < 1).any()
    ):
      raise UsageError(f"rows of a batch of {self.pictures} pictures: give some of them, ascending from 0")
    return rows + step * self.pictures

  def _weights_of(self, positions: np.ndarray) -> np.ndarray:
    """What the picture of each position counts: float32 [N], 0 for what is beyond the end of a stream of `first`."""
    return np.ones(len(positions), np.float32) if self._end is None else np.float32(positions < self._end)

  def _indices(self, positions: np.ndarray) -> np.ndarray:
    return draws.permuted(self.seed, positions, len(self.source))

  def _new_pixels(self, count: int) -> np.ndarray:
    return np.empty((count, self.image_size, self.image_size, 3), np.uint8)

  def _load_pixels(
    self, pixels: np.ndarray, pictures: Iterable[tuple[str, bytes]], positions: np.ndarray
  ) -> None:
    """Fills uint8 [N, H, W, 3] with the pictures (key, bytes) of N positions; one that is left out is black.

    Raises:
      XmcapError: a picture cannot be decoded, and is not to be left out.
    """
    randoms = [None] * len(positions)
    if self.augment is not None:
      randoms = draws.uniform(self.seed, "augment", positions, images.NUM_DRAWS)
    for row, (key, data), random in zip(pixels, pictures, randoms, strict=True):
      try:
        row[...] = images.load(data, key, self.image_size, self.augment, random)
      except XmcapError as error:
        self.skipped.add(key, error)
        row[...] = 0
        self._count_lost(_UNDECODABLE, [key])

  def _count_lost(self, what: str, keys: Sequence[str]) -> None:
    """Counts what did not fit, a key each time; the first of a kind is said at once."""
    if not keys:
      return
    with self._lock:
      first = what not in self._lost
      self._lost[what] = self._lost.get(what, 0) + len(keys)
    if first:
      logging.warning("%s: first in picture %s; counted from here on", what, keys[0])

  @property
  def lost(self) -> dict[str, int]:
    """What did not fit into the batches made so far (those made ahead included): reason -> count."""
    with self._lock:
      return dict(self._lost)
