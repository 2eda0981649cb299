"""Processes that share the work on many languages; with one process, the work is done here."""

import functools
import mmap
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from xmcap import languages
from xmcap import processes as processes_lib

_In = TypeVar("_In")
_Job = TypeVar("_Job")
_Out = TypeVar("_Out")


_SLOT = 4 << 20
"""Bytes of a job that is handed over in shared memory; larger ones go through the connection, piece by piece."""

MAX_PROCESSES = len(languages.LANGUAGES)
"""Processes that are started at most: there is no more than a language for each."""


class Workers:
  """A context manager; `processes` of 1, or a process that cannot be forked, means this process.

  What a worker has loaded it can be asked for again. What comes out does not depend on how many there are. An error in
  the `with` ends the workers at once, in the middle of their work.

  Raises:
    XmcapError: (the methods too) a worker cannot be started, or was killed.
  """

  def __init__(self, processes: int = 1):
    processes = min(processes, MAX_PROCESSES)
    self._workers: list[processes_lib.Worker] = []
    if processes > 1 and _can_fork():
      context = multiprocessing.get_context("fork")
      self._memory = mmap.mmap(-1, processes * processes_lib.IN_HAND * _SLOT)
      try:
        for _ in range(processes):
          self._workers.append(processes_lib.Worker(context, _begin, (self._memory,), self._workers))
      except BaseException:
        self._end(at_once=True)
        raise

  def __enter__(self) -> "Workers":
    return self

  def __exit__(self, kind: type | None, *exception) -> None:
    self._end(at_once=kind is not None)

  @property
  def several(self) -> bool:
    """Whether there are processes beside this one."""
    return bool(self._workers)

  def start(self, function: Callable[..., _Out], *arguments) -> Callable[[], _Out]:
    """Starts a call in the last worker; returns a function that waits for its result.

    Where there is no worker, the call is made when it is waited for.
    """
    if not self._workers:
      return functools.partial(function, *arguments)
    return self._workers[-1].call(processes_lib.pack(function, *arguments)).result

  def tell(self, worker: int, function: Callable, *arguments) -> None:
    """Has a worker make a call before anything else that it will be given; does nothing without workers."""
    if self._workers:
      self._workers[worker % len(self._workers)].call(processes_lib.pack(function, *arguments))

  def map(
    self,
    function: Callable[[_Job], _Out],
    items: Sequence[_In],
    cost: Callable[[_In], float],
    make: Callable[[_In], _Job],
  ) -> list[_Out]:
    """Returns `function(make(item))` of each item, in their order.

    `make` is called here, when the work on the items before has begun. The costliest items come first: the
    costliest goes to worker 0, the next to worker 1, and so on; then each worker gets the next one in time.
    """
    if not self._workers:
      return [function(make(item)) for item in items]

    def pack(place: int, slot: int) -> bytes:
      job = make(items[place])
      packed = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
      if len(packed) > _SLOT:
        return processes_lib.pack(function, job)
      self._memory[slot * _SLOT : slot * _SLOT + len(packed)] = packed
      return processes_lib.pack(_call, function, slot, len(packed))

    places = iter(sorted(range(len(items)), key=lambda place: -cost(items[place])))
    results = dict(processes_lib.share(self._workers, places, pack))
    return [results[place] for place in range(len(items))]

  def _end(self, at_once: bool) -> None:
    for worker in self._workers:
      worker.end(at_once)


_memory: mmap.mmap  # of a worker: that of the process which it belongs to


def _begin(memory: mmap.mmap) -> None:
  global _memory
  _memory = memory
  # Workers give way to the process that feeds them: so they are never without work.
  os.nice(5)


def _call(function: Callable[[_Job], _Out], slot: int, length: int) -> _Out:
  with memoryview(_memory) as memory:
    job = pickle.loads(memory[slot * _SLOT : slot * _SLOT + length])
  return function(job)


def _can_fork() -> bool:
  # Their threads may hold locks that a copy of the process would wait for without end.
  threaded = any(name in sys.modules for name in ("jax", "tensorflow"))
  return not threaded and "fork" in multiprocessing.get_all_start_methods()


def available() -> int:
  """Returns the number of cores that this process may use."""
  try:
    return len(os.sched_getaffinity(0))
  except AttributeError:
    return os.cpu_count() or 1
