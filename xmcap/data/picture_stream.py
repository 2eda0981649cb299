"""The base of all streams: order of pictures, rows of a process, pixels, and prefetching."""

import copy
import dataclasses
import functools
import hashlib
import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from absl import logging

from xmcap import processes as processes_lib
from xmcap.data import draws, images, record_features, records
from xmcap.data import workers as decoders
from xmcap.data.features import Features
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Order
from xmcap.data.records import RecordSource
from xmcap.data.skipped import SkippedPictures
from xmcap.data.workers import Job, prefetch
from xmcap.errors import UsageError, XmcapError
from xmcap.terminal import shown

Batch = dict[str, np.ndarray]

_UNDECODABLE = "pictures that cannot be decoded"
# Least rows of a batch for a thread: with fewer, the fixed cost of the draws outweighs the gain.
_PART_ROWS = 8
_FINGERPRINT_ROWS = 64
_LEAST_AHEAD = 2  # one is consumed while the other is made


class BatchRows(NamedTuple):
  """N rows of a batch without the pixels.

  `keys` are those of the pictures, `fields` has the arrays [N, ...] by name, and `lost` the keys of the pictures that
  lost something, by reason.
  """

  keys: Sequence[str]
  fields: Mapping[str, np.ndarray]
  lost: Mapping[str, Sequence[str]]


@dataclasses.dataclass(eq=False, repr=False)
class PictureStream:
  """The base class of streams: `_part` makes some rows of a batch, on several threads.

  Streams with `has_rows` can instead make them in processes (`workers.py`): their `_part` leaves reading and decoding
  to `_made`, which calls `rows` here or in a process.

  With `features` a batch has the stored vectors of the pictures, `features` float32 [B, D], instead of `image`, and no
  picture is decoded.

  A subclass sets `source`, the records of its split, and `order`, the pictures at its positions; and `pictures`, B, if
  a picture has several examples.

  Attributes:
    mixture: name of a seqio mixture or task made by `register_corpus`.
    split: record split, or a part of one such as `train[:1000]`.
    batch_size: global batch size in examples.
    image_size: H = W, in pixels.
    seed: seed of order and augmentation.
    augment: random augmentation of the pictures; None for none.
    workers: threads or processes that make batches; None or 0: one per core of this process.
    processes: whether the workers of an endless stream are processes; None: if the stream decodes pictures, and there
      are at least `decoders.CORES` cores. They are then `decoders.MOST` at most, unless `workers` says otherwise.
    depth: largest number of prefetched batches.
    prefetch_bytes: memory limit for their pixels; at least two batches are prefetched regardless.
    on_bad: treatment of pictures that cannot be decoded: `stop` ends the run, `skip` gives them weight 0.
    bad_limit: number of different pictures that a process may skip.
    features: file or folder with the vectors of all pictures of the split (see `data/features.py`); "": pixels.
    resize: how pictures are made square, as in `DualConfig`; all but `bilinear` without augmentation.
  """

  mixture: str
  split: str = "train"
  batch_size: int = 128
  image_size: int = 224
  seed: int = 0
  augment: images.Augment | None = None
  workers: int | None = None
  processes: bool | None = None
  depth: int = 16
  prefetch_bytes: int = 2 << 30
  on_bad: str = "stop"
  bad_limit: int = 100
  features: str = ""
  resize: str = "bilinear"

  has_rows: ClassVar[bool] = False

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
    if self.features and self.augment is not None:
      raise UsageError(
        f"a stream with features='{self.features}' and augment: stored vectors cannot be augmented; leave one out"
      )
    if self.resize != "bilinear" and self.augment is not None:
      raise UsageError(f"a stream with resize='{self.resize}' and augment: leave one out")
    self.source: RecordSource | MixedSource
    self.order: Order
    self.pictures = self.batch_size
    self._decoders = self._choose_workers()
    self._decodes_in: decoders.Decoders | None = None  # set while a batch is made in processes
    self.skipped = SkippedPictures(self.on_bad, self.bad_limit)
    self.counts_losses = True  # False if batches are only made to be timed
    self._end: int | None = None
    self._lock = threading.Lock()
    self._lost: dict[str, int] = {}

  def _choose_workers(self) -> decoders.Decoders | None:
    """Sets `workers` and `processes`; returns the processes that make batches, which are not started yet."""
    cores = processes_lib.available_cores()
    able = self.has_rows and not self.features and hasattr(os, "memfd_create")
    if self.processes and not able:
      raise UsageError(
        f"{type(self).__name__}.processes: processes make batches only on Linux, where pictures are decoded, and for a "
        "CaptionStream or TagStream: leave it out"
      )
    if self.processes is None:
      # A class of the caller's program cannot be imported in another process.
      self.processes = able and cores >= decoders.CORES and type(self).__module__ != "__main__"
      self.workers = self.workers or (min(cores, decoders.MOST) if self.processes else cores)
    self.workers = self.workers or cores
    return decoders.Decoders(self.workers) if self.processes else None

  def begin(self) -> None:
    """Starts the processes that make batches, if the stream has any, and waits for them; XmcapError if one fails."""
    if self._decoders is not None:
      self._decoders.start(self._for_processes(), self._inputs(_PART_ROWS).nbytes)

  def close(self) -> None:
    """Ends the processes that make batches; call it when no iterator of `batches` is open."""
    if self._decoders is not None:
      self._decoders.close()

  def resized(self, pictures: int) -> Self:
    """Returns a stream over the same split with another number of pictures per batch, for trials."""
    stream = copy.copy(self)
    stream.pictures, stream._lost = pictures, {}
    stream.skipped = SkippedPictures(self.on_bad, self.bad_limit)
    return stream

  def first(self, count: int, multiple: int = 1) -> tuple[Self, int]:
    """Returns a stream of `count` pictures, each once, and its number of steps.

    These are the first positions, or, of several corpora by rates, pictures from a permutation of all.

    It has the fewest batches that are no larger than this stream's. Their size is the smallest sufficient multiple of
    `multiple`; surplus rows have weight 0. A position gives the same example in any batch, so weighted means over all
    batches do not depend on the batch size.
    """
    steps = -(-count // self.pictures)
    stream = copy.copy(self)
    stream.pictures = -(-count // steps // multiple) * multiple
    stream._end = count
    stream._decoders = None  # short, and the processes would not know the end
    stream.order = self.order.once()
    return stream, -(-count // stream.pictures)

  def signature(self) -> dict[str, Any]:
    """Returns the settings that determine the example at a position, as a JSON object; a resumed run must keep them.

    Records are identified by their number and size, so a corpus may be moved or rebuilt.
    """
    sizes = self.source.sizes.items()
    settings = {
      "stream": type(self).__name__,
      "mixture": self.mixture,
      "split": self.source.split,
      "records": {name: [sum(size["shard_lengths"]), size["bytes"]] for name, size in sizes},
      "pictures": len(self.source),
      "batch_size": self.pictures,
      "image_size": self.image_size,
      "seed": self.seed,
      "augment": repr(self.augment),
      "resize": self.resize,
    }
    if self.features:
      vectors = self._stored.vectors
      # Some of them tell the vectors of another network apart.
      sample = np.asarray(vectors[records.spread(self.source, _FINGERPRINT_ROWS)], np.float32)
      settings["features"] = [*vectors.shape, hashlib.sha256(sample.tobytes()).hexdigest()[:16]]
    return settings

  def batch(self, step: int, rows: Sequence[int] | None = None) -> Batch:
    """Returns the batch of a step (from 0), independent of earlier calls.

    `rows` are ascending positions in the batch, such as `sharding.process_rows`; None: all. XmcapError names a record
    or picture that cannot be read.
    """
    return self._job(step, rows, workers=1).run()

  def batches(
    self, start_step: int = 0, rows: Sequence[int] | None = None, num_steps: int | None = None
  ) -> Iterator[Batch]:
    """Yields `num_steps` prefetched batches (None: endless) from a step on; see `batch` and `prefetch`.

    They are made in processes only if they are endless, or if `begin` was called: a few are not worth the start.
    """
    steps = itertools.count(start_step) if num_steps is None else range(start_step, start_step + num_steps)
    count = len(self._positions(0, rows))
    workers = self.workers or processes_lib.available_cores()
    stream, parts = self, workers
    if self._decoders is not None and (num_steps is None or self._decoders.started):
      self.begin()
      stream, parts = copy.copy(self), count  # a thread waits for each process
      stream._decodes_in = self._decoders
    return prefetch((stream._job(step, rows, parts) for step in steps), workers, self.batches_ahead(count))

  def batches_ahead(self, rows: int) -> int:
    """Returns the number of prefetched batches of so many rows: `depth`, or fewer because of `prefetch_bytes`."""
    return min(self.depth, max(_LEAST_AHEAD, self.prefetch_bytes // self._inputs(rows).nbytes))

  @property
  def input(self) -> str:
    """The name of the pictures in a batch: `image`, or `features` for stored vectors."""
    return "features" if self.features else "image"

  @functools.cached_property
  def _stored(self) -> Features:
    """The stored vectors, float32 [len(source), D], in the order of the records."""
    return record_features.of_source(self.features, self.source)

  def _vectors_of(self, indices: np.ndarray, keys: Sequence[str]) -> np.ndarray:
    """Returns the stored vectors of records, float32 [N, D]; XmcapError if one is of another picture."""
    for index, key in zip(indices.tolist(), keys, strict=True):
      stored = self._stored.keys[index]
      if key != stored and not key.endswith(f"/{stored}"):  # with several corpora: NAME/key
        raise XmcapError(
          f"{self.features}: holds the vector of '{shown(stored)}' for record {index:,} of split '{self.source.split}',"
          f" which is '{shown(key)}': the corpus has changed; make the vectors again with `xmcap features --corpus`"
        )
    return np.asarray(self._stored.vectors[indices], np.float32)

  def _inputs(self, rows: int) -> np.ndarray:
    """Returns memory for the pixels or vectors of so many rows."""
    if self.features:
      return np.empty((rows, self._stored.vectors.shape[1]), np.float32)
    return np.empty((rows, self.image_size, self.image_size, 3), np.uint8)

  def _job(self, step: int, rows: Sequence[int] | None, workers: int) -> Job[Any, Batch]:
    """Returns the job that makes a batch, in parts for so many workers."""
    positions = self._positions(step, rows)
    pixels = self._inputs(len(positions))
    count = min(workers, -(-len(positions) // _PART_ROWS))
    split = zip(np.array_split(positions, count), np.array_split(pixels, count), strict=True)
    parts = [functools.partial(self._part, step, *part) for part in split]
    return Job(parts, functools.partial(self._joined, pixels))

  def _part(self, step: int, positions: np.ndarray, pixels: np.ndarray) -> BatchRows:
    """Makes the rows at N positions of a step.

    It fills their pixels, uint8 [N, H, W, 3], or vectors, float32 [N, D], by `_load_pixels`.
    """
    raise NotImplementedError

  def rows(self, pixels: np.ndarray, positions: np.ndarray, *arguments: Any) -> BatchRows:
    """The share of `_part` that may be done by a process, with what `_for_processes` leaves of the stream."""
    raise NotImplementedError

  def _made(self, pixels: np.ndarray, positions: np.ndarray, *arguments: Any) -> BatchRows:
    """Returns `rows`, called here or in a process."""
    if self._decodes_in is None:
      return self.rows(pixels, positions, *arguments)
    rows, left_out = self._decodes_in.make(pixels, self.skipped.on_bad, positions, *arguments)
    for key, reason in left_out:
      self.skipped.add(key, XmcapError(reason))
      self._count_lost(_UNDECODABLE, [key])
    return rows

  def _for_processes(self) -> Self:
    """Returns a copy that can be pickled, without what `rows` does not need."""
    stream = copy.copy(self)
    stream.counts_losses = False  # the caller counts them
    for name in ("_lock", "_decoders", "order", "skipped"):
      setattr(stream, name, None)
    return stream

  def _joined(self, pixels: np.ndarray, parts: list[BatchRows]) -> Batch:
    """Returns the batch of all parts, and counts what they lost."""
    for rows in parts:
      for reason, keys in rows.lost.items():
        self._count_lost(reason, keys)
    keys = [key for rows in parts for key in rows.keys]
    fields = {name: np.concatenate([rows.fields[name] for rows in parts]) for name in parts[0].fields}
    return {self.input: pixels, **fields, "key": np.array(keys)}

  def _positions(self, step: int, rows: Sequence[int] | None) -> np.ndarray:
    """Returns int64 [N]: the positions of rows of a step's batch."""
    if step < 0:
      raise UsageError(f"step {step}: steps count from 0")
    chosen = np.arange(self.pictures) if rows is None else np.asarray(rows, np.int64)
    if not chosen.size or chosen[0] < 0 or chosen[-1] >= self.pictures or (np.diff(chosen) < 1).any():
      raise UsageError(f"rows of a batch of {self.pictures} pictures: give ascending rows from 0")
    return chosen + step * self.pictures

  def _weights_of(self, positions: np.ndarray, keys: Sequence[str]) -> np.ndarray:
    """Returns float32 [N]: 0 for skipped pictures and positions beyond the end of a stream of `first`, else 1."""
    weights = self.skipped.weights(keys)
    return weights if self._end is None else weights * (positions < self._end)

  def indices(self, positions: np.ndarray) -> np.ndarray:
    """Returns int64 [N]: the indices in `source` of the pictures at positions, int64 [N]."""
    return self.order.at(positions).indices

  def _load_pixels(
    self, pixels: np.ndarray, pictures: Iterable[tuple[str, bytes]], positions: np.ndarray
  ) -> None:
    """Fills uint8 [N, H, W, 3] with the pictures (key, bytes) of N positions; skipped ones become black.

    With stored vectors it fills float32 [N, D], and iterates `pictures` without decoding them.
    """
    if self.features:
      keys = [key for key, _ in pictures]
      pixels[...] = self._vectors_of(self.indices(positions), keys)
      return
    randoms = [None] * len(positions)
    if self.augment is not None:
      randoms = draws.uniform(self.seed, "augment", positions, images.NUM_DRAWS)
    for row, (key, data), random in zip(pixels, pictures, randoms, strict=True):
      try:
        if self.resize == "bilinear":
          row[...] = images.load(data, key, self.image_size, self.augment, random)
        else:
          row[...] = images.load_pixels(data, key, self.image_size, self.resize)
      except XmcapError as error:
        self.skipped.add(key, error)
        row[...] = 0
        self._count_lost(_UNDECODABLE, [key])

  def _count_lost(self, reason: str, keys: Sequence[str]) -> None:
    """Counts losses, one per key, and logs the first with a reason."""
    if not keys or not self.counts_losses:
      return
    with self._lock:
      is_first = reason not in self._lost
      self._lost[reason] = self._lost.get(reason, 0) + len(keys)
    if is_first:
      logging.warning("%s: first in picture %s; later ones are only counted", reason, keys[0])

  @property
  def lost(self) -> dict[str, int]:
    """Reason -> number of losses in the batches made so far, including prefetched ones."""
    with self._lock:
      return dict(self._lost)
