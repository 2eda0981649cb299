"""The base of all streams: settings, order of images, rows of a process, and batches."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from xmcap.data import images
from xmcap.data.array_records import remote
from xmcap.data.batch_maker import BatchMaker, BatchRows, choose_workers
from xmcap.data.image_inputs import ImageInputs, Pixels, StoredVectors
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Order
from xmcap.data.records import RecordSource, parse_columns
from xmcap.data.skipped_images import SkippedImages
from xmcap.data.workers import Decoders, Job, prefetch, unpacked
from xmcap.errors import UsageError

Batch = dict[str, np.ndarray]
Read = Callable[..., BatchRows]

# Least rows of a part: with fewer, the fixed cost of the draws outweighs the gain.
_PART_ROWS = 8
# Most rows of a part: the pixels of all parts in progress take memory.
_MOST_PART_ROWS = 32
# Parts in progress for each thread or process that decodes, if records come from a bucket: while some wait for their
# records, another is decoded. At 3.3 ms a picture, 4 parts of 32 rows hide about 300 ms.
_LANES = 4
_LEAST_AHEAD = 2  # one is consumed while the other is made
_MOST_NEIGHBOURS = 16  # half of a part, which ends between two chunks


@dataclasses.dataclass(eq=False, repr=False)
class ImageStream:
  """The base class of streams.

  A stream is a value, what is read, and a machine. The value is its `reader`: a function that makes some rows of a
  batch from the records, which other processes can get. The machine is its `maker`: the threads or processes that
  call it. `_part` adds what only this process knows.

  A subclass calls `_open`, and then sets `reader`, called as

    reader(rows, positions, counted, places) -> BatchRows

  with the memory for N rows of `inputs`, which it fills; `positions` int64 [N]; `counted` bool [N], whether a row is
  before the end of a stream of `first`; and `order.at(positions)`. It sets `num_images`, B, if an image has several
  examples.

  With `features` a batch has the stored vectors of the images, `features` float32 [B, D], instead of `image`, and no
  image is decoded.

  Attributes:
    mixture: name of a seqio mixture or task made by `register_corpus`.
    split: record split, or a part of one such as `train[:1000]`.
    batch_size: global batch size in examples.
    image_size: H = W, in pixels.
    seed: seed of order and augmentation.
    neighbours: so many successive positions show neighbouring records, which a bucket gives in one request; see
      order.py.
    augment: random augmentation of the images; None for none.
    workers: threads or processes that make batches; None or 0: one per core of this process.
    processes: whether the workers of an endless stream are processes; None: if the stream decodes images, and there
      are at least `workers.CORES` cores. They are then `workers.MOST` at most, unless `workers` says otherwise.
    depth: largest number of prefetched batches.
    prefetch_bytes: memory limit for their pixels; at least two batches are prefetched regardless.
    on_bad: treatment of images that cannot be decoded: `stop` ends the run, `skip` gives them weight 0.
    bad_limit: number of different images that a process may skip.
    features: file or folder with the vectors of all images of the split (see `data/features.py`); "": pixels.
    resize: how images are made square, as in `DualConfig`; all but `bilinear` without augmentation.
  """

  mixture: str
  split: str = "train"
  batch_size: int = 128
  image_size: int = 224
  seed: int = 0
  neighbours: int = 1
  augment: images.Augment | None = None
  workers: int | None = None
  processes: bool | None = None
  depth: int = 16
  prefetch_bytes: int = 2 << 30
  on_bad: str = "stop"
  bad_limit: int = 100
  features: str = ""
  resize: str = "bilinear"

  can_use_processes: ClassVar[bool] = False
  """Whether processes may call the `reader`: it can be pickled, and is worth it."""

  def __post_init__(self):
    if (self.workers or 0) < 0 or self.depth < _LEAST_AHEAD or self.prefetch_bytes < 0:
      raise UsageError(
        f"a stream with workers={self.workers}, depth={self.depth} and prefetch_bytes={self.prefetch_bytes}: depth "
        f"must be at least {_LEAST_AHEAD}, the others at least 0"
      )
    if self.batch_size < 1 or self.image_size < 1:
      raise UsageError(
        f"a batch of {self.batch_size} with pictures of {self.image_size} pixels is empty: give at least 1 of each"
      )
    if not 1 <= self.neighbours <= _MOST_NEIGHBOURS:
      raise UsageError(f"a stream with neighbours={self.neighbours}: give 1 to {_MOST_NEIGHBOURS}")
    if self.features and self.augment is not None:
      raise UsageError(
        f"a stream with features='{self.features}' and augment: stored vectors cannot be augmented; leave one out"
      )
    if self.resize != "bilinear" and self.augment is not None:
      raise UsageError(f"a stream with resize='{self.resize}' and augment: leave one out")
    self.source: RecordSource | MixedSource
    self.order: Order
    self.inputs: ImageInputs
    self.reader: Read
    self.num_images = self.batch_size
    self.end: int | None = None  # position at which a stream of `first` ends
    self.workers, self.processes = choose_workers(self, self.can_use_processes and not self.features)
    decoders = Decoders(self.workers, type(self).__name__) if self.processes else None
    self.maker = BatchMaker(self.workers, decoders, SkippedImages(self.on_bad, self.bad_limit))

  def _open(self, source: RecordSource | MixedSource, order: Order) -> None:
    """Sets the records of the split, the order of their images, and what a batch has of the images."""
    self.source, self.order = source, order
    if self.features:
      self.inputs = StoredVectors(self.features, source)
    else:
      self.inputs = Pixels(self.image_size, self.resize, self.augment, self.seed)

  @property
  def lost(self) -> dict[str, int]:
    """Reason -> number of losses in the batches made so far, including prefetched ones."""
    return self.maker.lost

  @property
  def skipped(self) -> SkippedImages:
    """The images that could not be decoded."""
    return self.maker.skipped

  @property
  def faster(self) -> list[str]:
    """What a user can do if the devices wait for this stream."""
    storage = (
      "store smaller pictures" if self.inputs.name == Pixels.name else "keep what it reads on a local disk"
    )
    return ["give the host more cores (the stream's `workers`)", storage]

  @property
  def lanes(self) -> int:
    """The parts of batches that each worker makes at a time."""
    return _LANES if self.source.is_remote else 1

  def begin(self) -> None:
    """Starts the processes that make batches, if the stream has any, and waits for them; XmcapError if one fails."""
    if self.maker.decoders is not None:
      self.maker.decoders.start(self.reader, self.inputs.empty(_MOST_PART_ROWS).nbytes, self.lanes)

  def close(self) -> None:
    """Ends the processes that make batches; call it when no iterator of `batches` is open."""
    if self.maker.decoders is not None:
      self.maker.decoders.close()

  def resized(self, images: int) -> Self:
    """Returns a stream over the same split with another number of images per batch, for trials."""
    stream = copy.copy(self)
    stream.num_images, stream.maker = images, self.maker.apart()
    return stream

  def first(self, count: int, multiple: int = 1) -> tuple[Self, int]:
    """Returns a stream of `count` images, each once, and its number of steps.

    These are the first positions, or, of several corpora by rates, images from a permutation of all.

    It has the fewest batches that are no larger than this stream's. Their size is the smallest sufficient multiple of
    `multiple`; surplus rows have weight 0. A position gives the same example in any batch, so weighted means over all
    batches do not depend on the batch size.
    """
    steps = -(-count // self.num_images)
    stream = copy.copy(self)
    stream.num_images = -(-count // steps // multiple) * multiple
    stream.end, stream.order = count, self.order.once()
    stream.maker = self.maker.in_threads()  # it is short
    return stream, -(-count // stream.num_images)

  def signature(self) -> dict[str, Any]:
    """Returns the settings that determine the example at a position, as a JSON object; a resumed run must keep them.

    Records are identified by their number and size, so a corpus may be moved or rebuilt.
    """
    sizes = self.source.sizes.items()
    return {
      "stream": type(self).__name__,
      "mixture": self.mixture,
      "split": self.source.split,
      "records": {name: [sum(size["shard_lengths"]), size["bytes"]] for name, size in sizes},
      "pictures": len(self.source),
      "batch_size": self.num_images,
      "image_size": self.image_size,
      "seed": self.seed,
      "neighbours": self.neighbours,
      "augment": repr(self.augment),
      "resize": self.resize,
      **self.inputs.signature(),
    }

  def batch(self, step: int, rows: Sequence[int] | None = None) -> Batch:
    """Returns the batch of a step (from 0), independent of earlier calls.

    `rows` are ascending positions in the batch, such as `sharding.process_rows`; None: all. XmcapError names a record
    or image that cannot be read.
    """
    (batch,) = self._job(range(step, step + 1), rows, self.reader, parts=1).run()
    return batch

  def batches(
    self, start_step: int = 0, rows: Sequence[int] | None = None, num_steps: int | None = None
  ) -> Iterator[Batch]:
    """Yields `num_steps` prefetched batches (None: endless) from a step on; see `batch` and `prefetch`.

    They are made in processes only if they are endless, or if `begin` was called: a few are not worth the start.
    """
    end = None if num_steps is None else start_step + num_steps
    count = len(self._positions(0, rows))
    read, threads, decoders = self.reader, self.maker.workers * self.lanes, self.maker.decoders
    if decoders is not None and (num_steps is None or decoders.started):
      self.begin()
      read = decoders.make  # a thread waits for each lane of a process
    ahead, together = self.batches_ahead(count), self.batches_together(count)
    # Two parts for each thread, or as many as there can be.
    at_once = count * min(ahead, num_steps or ahead) // (2 * threads)
    # A part ends between two chunks, so it may have `neighbours` - 1 rows more.
    size = min(max(at_once, _PART_ROWS, self.neighbours), _MOST_PART_ROWS - self.neighbours + 1)
    groups = self._groups(start_step, end, together)
    jobs = (self._job(steps, rows, read, -(-count * len(steps) // size)) for steps in groups)
    # Of several groups, one is consumed beside those.
    return unpacked(prefetch(jobs, threads, ahead if together == 1 else ahead // together - 1))

  def batches_ahead(self, rows: int) -> int:
    """Returns the number of prefetched batches of so many rows: `depth`, or fewer because of `prefetch_bytes`."""
    size = max(1, self.inputs.empty(rows).nbytes)
    return min(self.depth, max(_LEAST_AHEAD, self.prefetch_bytes // size))

  def batches_together(self, rows: int) -> int:
    """Returns the number of successive batches of so many rows whose records are read together.

    More than one from a bucket, if the images of a chunk are in several batches: of the prefetched batches, a third is
    consumed, and two thirds are made.
    """
    if self.neighbours == 1 or not self.source.is_remote:
      return 1
    return max(1, min(self._window, self.batches_ahead(rows) // 3))

  def requests_per_image(self, rows: Sequence[int], start_step: int = 0) -> float:
    """Returns how many requests of a bucket an image takes, in the rows of a process near a step; 0: it is local."""
    if not self.source.is_remote:
      return 0.0
    steps = next(self._groups(start_step, None, self.batches_together(len(rows))))
    planned = np.concatenate([self._planned(step, self._positions(step, rows)) for step in steps])
    gaps = np.diff(np.sort(self.order.at(planned).indices)) - 1
    return (1 + np.sum(gaps * self.record_bytes > remote.GAP)) / len(planned)

  @property
  def record_bytes(self) -> float:
    """The mean size of a record."""
    sizes = self.source.sizes.values()
    return sum(size["bytes"] for size in sizes) / sum(sum(size["shard_lengths"]) for size in sizes)

  @property
  def _window(self) -> int:
    """The number of batches among which images are redistributed."""
    return 1

  def _groups(self, start: int, end: int | None, together: int) -> Iterator[range]:
    """Yields the steps from `start` to `end` (None: endless), as many together, none across two windows."""
    while end is None or start < end:
      inside = start % self._window
      stop = start - inside + min((inside // together + 1) * together, self._window)
      yield range(start, stop if end is None else min(stop, end))
      start = stop

  def _job(
    self, steps: range, rows: Sequence[int] | None, read: Read, parts: int
  ) -> Job[Any, Iterator[Batch]]:
    """Returns the job that makes the batches of some steps, in so many parts."""
    asked = [self._positions(step, rows) for step in steps]
    inputs = self.inputs.empty(sum(map(len, asked)))

    @functools.cache
    def plan() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
      # On the threads of the parts: planning by length takes milliseconds.
      planned = np.concatenate([
        self._planned(step, of_step) for step, of_step in zip(steps, asked, strict=True)
      ])  # fmt: skip
      order = np.argsort(planned, kind="stable") if len(steps) > 1 else np.arange(len(planned))
      return planned[order], order, _ends(planned[order], parts, self.neighbours)

    def part(number: int) -> BatchRows | None:
      positions, _, ends = plan()
      own = slice(*ends[number : number + 2])
      return self._part(read, steps, positions[own], inputs[own]) if own.start < own.stop else None

    def joined(made: list[BatchRows | None]) -> Iterator[Batch]:
      return self._joined(steps, plan()[1], inputs, [rows for rows in made if rows is not None])

    return Job([functools.partial(part, number) for number in range(parts)], joined)

  def _planned(self, step: int, positions: np.ndarray) -> np.ndarray:
    """Returns the positions of the stream that a batch has at these positions."""
    del step
    return positions

  def _part(self, read: Read, steps: range, positions: np.ndarray, inputs: np.ndarray) -> BatchRows:
    """Makes the rows at N planned positions of some steps, and fills their `inputs`."""
    del steps
    return read(inputs, positions, self._counted(positions), self.order.at(positions))

  def _counted(self, positions: np.ndarray) -> np.ndarray:
    """Returns bool [N]: whether positions are before the end."""
    return np.full(len(positions), True) if self.end is None else positions < self.end

  def _joined(
    self, steps: range, order: np.ndarray, inputs: np.ndarray, parts: list[BatchRows]
  ) -> Iterator[Batch]:
    """Returns the batches of all parts, whose rows were made in this order, and counts what they lost."""
    self.maker.count(parts)
    of_images = {self.inputs.name: inputs} if self.inputs.name else {}
    fields = {name: np.concatenate([rows.fields[name] for rows in parts]) for name in parts[0].fields}
    together = {**of_images, **fields, "key": np.array([key for rows in parts for key in rows.keys])}
    if len(steps) == 1:
      return iter((together,))
    places = np.argsort(order).reshape(len(steps), -1)
    return (
      self._own(step, {name: array[rows] for name, array in together.items()})
      for step, rows in zip(steps, places, strict=True)
    )

  def _own(self, step: int, batch: Batch) -> Batch:
    """Returns the batch of a step as if it were made alone."""
    del step
    return batch

  def _positions(self, step: int, rows: Sequence[int] | None) -> np.ndarray:
    """Returns int64 [N]: the positions of rows of a step's batch."""
    if step < 0:
      raise UsageError(f"step {step}: steps count from 0")
    chosen = np.arange(self.num_images) if rows is None else np.asarray(rows, np.int64)
    if not chosen.size or chosen[0] < 0 or chosen[-1] >= self.num_images or (np.diff(chosen) < 1).any():
      raise UsageError(f"rows of a batch of {self.num_images} pictures: give ascending rows from 0")
    return chosen + step * self.num_images

  def indices(self, positions: np.ndarray) -> np.ndarray:
    """Returns int64 [N]: the indices in `source` of the images at positions, int64 [N]."""
    return self.order.at(positions).indices

  def keys(self, count: int) -> list[str]:
    """Returns the image keys at the first `count` positions, of a stream over one corpus."""
    records = self.source.iterate(self.indices(np.arange(count)), parse_columns)
    return [record.key for record in records]


def _ends(positions: np.ndarray, parts: int, neighbours: int) -> np.ndarray:
  """Returns int64 [parts + 1]: where parts of N ascending positions end, as `array_split`, but none inside a chunk."""
  size, larger = divmod(len(positions), parts)
  numbers = np.arange(parts + 1)
  ends = numbers * size + np.minimum(numbers, larger)
  if neighbours > 1:
    chunks = positions // neighbours
    ends[1:-1] = np.searchsorted(chunks, chunks[ends[1:-1]])
  return ends
