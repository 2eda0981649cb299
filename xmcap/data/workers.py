"""Threads that prefetch batches, and processes that decode parts of them, each with an interpreter lock of its own.

Threads hold their process's lock for a fifth to a third of the work on an image, so no number of cores makes more than
some thousand images a second with threads alone (benchmarks/stream.py measures it).

Each process shares with this one the memory for the pixels of a part. The thread that waits for the part copies them
out, so batches are ordinary arrays. The memory has no name: unlike multiprocessing's it takes nothing of /dev/shm,
which containers limit to 64 MB, and the kernel frees it however the processes end.
"""

import collections
import contextlib
import dataclasses
import itertools
import math
import mmap
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import types
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent import futures
from multiprocessing import reduction, util
from typing import Any, Generic, TypeVar

import gin
import numpy as np

from xmcap import processes, terminal
from xmcap.errors import XmcapError
from xmcap.files import attempts, object_store, ramp, range_cache

Part = TypeVar("Part")
Out = TypeVar("Out")

CORES = 8
"""From so many cores on, streams use processes unless told otherwise; with fewer, threads lose little to the lock."""
MOST = 64
"""The number of processes unless told otherwise: as many as cores, but at most this. Each takes some 150 MB."""

PER_CORE = 200
"""Images of 640 x 480 as JPEG that a core reads and decodes a second (201 in benchmarks/stream.py)."""
REQUESTS_OF_A_CHUNK = 2.0
"""Requests of a bucket for neighbouring images that grouping by length puts into several batches, on the hosts of a
v4-128 (benchmarks/bucket_reads.py)."""
MARGIN = 1.2
"""A host should read so many times what its devices take."""

_BATCHES = 16  # limit of a turn in batches of the run: for small images they take less than a second
_LEAST_TURNS, _MOST_TURNS, _STEADY = 3, 5, 1.2
_CONFIGURED = (range_cache.RecordCache, object_store.ObjectStore)  # by gin, and used where records are read


def cores_for(images: float) -> int:
  """Returns the cores that read so many images a second, with the margin, at `PER_CORE`."""
  return math.ceil(MARGIN * images / PER_CORE)


class _Pixels:
  """Memory of `size` bytes; pickled for a process that is being spawned, it is the same memory there."""

  def __init__(self, size: int, descriptor: int | None = None):
    self._size = size
    self._descriptor = os.memfd_create("xmcap-pixels") if descriptor is None else descriptor
    os.ftruncate(self._descriptor, size)
    self._memory = mmap.mmap(self._descriptor, size)

  def __reduce__(self):
    return _received, (reduction.DupFd(self._descriptor), self._size)

  def __del__(self):
    os.close(self._descriptor)

  def array(self, shape: tuple[int, ...]) -> np.ndarray:
    """Returns its first bytes as uint8 of a shape."""
    return np.frombuffer(self._memory, np.uint8, math.prod(shape)).reshape(shape)


def _received(descriptor: Any, size: int) -> _Pixels:
  return _Pixels(size, descriptor.detach())


class Decoders:
  """`count` processes that call a stream's `reader`; started when they are needed.

  They end with `close`, with this object, or with this process, however that ends.

  Args:
    count: their number.
    stream: name of the class of the stream, for messages.
  """

  def __init__(self, count: int, stream: str):
    self.count = count
    self._stream = stream
    self.started = False
    self._idle: queue.SimpleQueue[tuple[processes.Worker, int, _Pixels]] = queue.SimpleQueue()
    self._lock = threading.Lock()
    self._end: Any = None

  def start(self, read: Callable[..., Any], size: int, lanes: int = 1) -> None:
    """Starts the processes, unless they run, and waits until they are ready.

    Args:
      read: called as `read(pixels, *arguments)`; can be pickled.
      size: bytes of the pixels of the largest part.
      lanes: parts that a process makes at a time: while some wait for their records, it decodes another.

    Raises:
      XmcapError: a process cannot be started, or cannot open the records or the vocabulary.
    """
    with self._lock:
      if self.started:
        return
      packed = pickle.dumps(read, pickle.HIGHEST_PROTOCOL)
      bound = {kind.__name__: gin.get_bindings(kind) for kind in _CONFIGURED}
      workers: list[processes.Worker] = []
      # Also runs before multiprocessing waits for its processes at exit.
      self._end = util.Finalize(self, _end, (workers,), exitpriority=0)
      try:
        begun = []
        with processes.lean():
          for _ in range(self.count):
            pixels = [_Pixels(size) for _ in range(lanes)]  # the kernel gives memory only where it is used
            advice = f"use fewer processes ({self._stream}.workers is {self.count})"
            workers.append(processes.Worker(_SPAWN, _attach, (pixels,), advice=advice, lanes=lanes))
            begun.append(pixels)
        for number, worker in enumerate(workers):
          worker.send(_begin, packed, bound, number, ramp.sharing() * self.count)
        for worker in workers:
          worker.receive()
      except BaseException:
        self._end()
        raise
      # The first lanes of all processes come first, so that a few parts are shared by all.
      for number in range(lanes):
        for worker, pixels in zip(workers, begun, strict=True):
          self._idle.put((worker.lanes[number], number, pixels[number]))
      self.started = True

  def make(self, pixels: np.ndarray, *arguments: Any) -> Any:
    """Fills uint8 [N, H, W, 3] in an idle process, and returns what `read` does there.

    Raises:
      Killed: the process died.
      XmcapError: as `read`.
    """
    worker, lane, shared = self._idle.get()
    try:
      worker.send(_make, lane, pixels.shape, arguments)
      made = worker.receive()
      pixels[...] = shared.array(pixels.shape)
      return made
    finally:
      self._idle.put((worker, lane, shared))

  def close(self) -> None:
    """Ends the processes; nobody may wait for a part."""
    with self._lock:
      if self.started:
        self._end()
        self._idle, self.started = queue.SimpleQueue(), False


_SPAWN = multiprocessing.get_context("spawn")


def _end(workers: list[processes.Worker]) -> None:
  # They have nothing to lose, and may wait for a bucket.
  processes.end(workers, at_once=True)


# ---- in the processes ------------------------------------------------------------------------------

_here = types.SimpleNamespace()


def _attach(pixels: Sequence[_Pixels]) -> None:
  terminal.guard()
  # A scheduler may send it to all processes of a job; this one is needed until its parent has saved everything.
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  _here.pixels = pixels


def _begin(packed: bytes, bound: Mapping[str, Mapping[str, Any]], number: int, sharing: int) -> None:
  if number:
    attempts.silence()  # they all wait for the same bucket
  ramp.share(sharing)
  for name, values in bound.items():
    for parameter, value in values.items():
      gin.bind_parameter(f"{name}.{parameter}", value)
  _here.read = pickle.loads(packed)


def _make(lane: int, shape: tuple[int, ...], arguments: tuple[Any, ...]) -> Any:
  return _here.read(_here.pixels[lane].array(shape), *arguments)


@dataclasses.dataclass(frozen=True)
class Job(Generic[Part, Out]):
  """Makes an item: `parts` run concurrently on any threads, and `join` makes the item from their results."""

  parts: Sequence[Callable[[], Part]]
  join: Callable[[list[Part]], Out]

  def run(self) -> Out:
    """Makes the item on the calling thread."""
    return self.join([part() for part in self.parts])


def prefetch(jobs: Iterable[Job[Part, Out]], workers: int = 1, depth: int = 4) -> Generator[Out, None, None]:
  """Yields the item of each job in order, with up to `depth` of them prefetched; starts at once.

  An error in a part is raised when its item is due; no part begins after it, as each might wait as long for a bucket.
  Closing the iterator (`close()`, or dropping its last reference) cancels parts that have not begun, and waits for the
  others.

  Args:
    jobs: iterated, and joined, on the calling thread; may be endless.
    workers: number of threads; more than one only helps if the parts release the interpreter lock.
    depth: largest number of items held or in progress.
  """
  executor = futures.ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
  failed = threading.Event()

  def run(part: Callable[[], Part]) -> Part:
    if failed.is_set():
      raise futures.CancelledError  # nobody asks for it: the part that failed is of an earlier item, or of the same
    try:
      return part()
    except BaseException:
      failed.set()
      raise

  submitted = ((job, [executor.submit(run, part) for part in job.parts]) for job in jobs)
  pending = collections.deque(itertools.islice(submitted, depth))

  def items() -> Generator[Any, None, None]:
    try:
      yield  # closing it before the first item also ends the threads
      while pending:
        job, parts = pending.popleft()
        item = job.join([part.result() for part in parts])
        del job, parts  # an item may be large, so only the caller keeps it
        pending.extend(itertools.islice(submitted, 1))
        yield item
    finally:
      executor.shutdown(wait=True, cancel_futures=True)

  return _begun(items())


def unpacked(groups: Generator[Iterable[Out], None, None]) -> Generator[Out, None, None]:
  """Yields the items of groups; closing it closes `groups`."""

  def items() -> Generator[Any, None, None]:
    with contextlib.closing(groups):
      yield
      for group in groups:
        yield from group

  return _begun(items())


def _begun(generator: Generator[Out, None, None]) -> Generator[Out, None, None]:
  """Runs a generator to its first `yield`, so that closing it runs its end."""
  next(generator)
  return generator


@gin.configurable
def reading_rate(stream: Any, rows: int, start_step: int = 0, seconds: float = 1.0) -> float:
  """Measures how many images per second this host makes with all workers of a stream; 0 if it makes none.

  The batches are discarded and not counted in `stream.lost`. An error ends the measurement; the run raises it when it
  reaches that image. Streams other than `ImageStream` are not measured.

  It is the rate of the best of several turns. In the first ones, workers open files, and whichever meets the first
  caption in Chinese or Thai reads a dictionary; turns follow until one is no longer faster by a fifth.

  Args:
    stream: the stream of the run.
    rows: rows of a batch that this process reads.
    start_step: first step of the run; the measurement reads near it.
    seconds: time of the three turns that it takes at least; 0 turns it off.
  """
  workers = getattr(stream, "workers", 0)
  if not workers or seconds <= 0:
    return 0.0
  # Small batches, so that the time limit is met, with some images for each worker.
  at_once = min(8 * workers * stream.lanes, rows)
  trial = stream.resized(at_once)
  trial.maker = trial.maker.uncounted()
  trial.begin()
  step, most = start_step * stream.num_images // at_once, -(-_BATCHES * rows // at_once)
  best = 0.0
  for turn in range(_MOST_TURNS):
    made, rate = _turn(trial, step, most, seconds / _LEAST_TURNS)
    is_steady = turn + 1 >= _LEAST_TURNS and rate * at_once < _STEADY * best
    best, step = max(best, rate * at_once), step + made
    if is_steady or not made:
      break
  return best


def _turn(stream: Any, step: int, most: int, seconds: float) -> tuple[int, float]:
  """Makes batches from a step on, at most so many and so long; returns their number, and how many a second."""
  made, began = 0, time.monotonic()
  batches = stream.batches(step, num_steps=most)
  with contextlib.closing(batches), contextlib.suppress(XmcapError):
    for _ in batches:
      made += 1
      if time.monotonic() - began >= seconds:
        break
  return made, made / (time.monotonic() - began)
