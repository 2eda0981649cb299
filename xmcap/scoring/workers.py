"""Processes that share the work on many languages; with one process, the work is done here."""

import concurrent.futures
import mmap
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

_In = TypeVar("_In")
_Job = TypeVar("_Job")
_Out = TypeVar("_Out")


_SLOT = 4 << 20
"""Bytes of a job that is handed over in shared memory; larger ones go through a pipe, 64 KiB at a time."""

_IN_HAND = 2
"""Jobs that a worker has at a time: one that it works on, and the next."""


class Workers:
  """A context manager; `processes` of 1, or a process that cannot be forked, means this process.

  Each worker has its own queue, so that what one has loaded it can be asked for again. What comes out does not
  depend on how many there are.
  """

  def __init__(self, processes: int = 1):
    self._queues: list[concurrent.futures.Executor] = []
    if processes > 1 and _can_fork():
      context = multiprocessing.get_context("fork")
      self._memory = mmap.mmap(-1, processes * _IN_HAND * _SLOT)
      self._queues = [
        concurrent.futures.ProcessPoolExecutor(1, context, _begin, (self._memory,)) for _ in range(processes)
      ]

  def __enter__(self) -> "Workers":
    return self

  def __exit__(self, *exception) -> None:
    for queue in self._queues:
      queue.shutdown(cancel_futures=True)

  @property
  def several(self) -> bool:
    """Whether there are processes beside this one."""
    return bool(self._queues)

  def start(self, function: Callable[..., _Out], *arguments) -> Callable[[], _Out]:
    """Starts a call in the last worker; returns a function that waits for its result.

    Where there is no worker, the call is made when it is waited for.
    """
    if not self._queues:
      return lambda: function(*arguments)
    return self._queues[-1].submit(function, *arguments).result

  def tell(self, worker: int, function: Callable, *arguments) -> None:
    """Has a worker make a call before anything else that it will be given; does nothing without workers."""
    if self._queues:
      self._queues[worker % len(self._queues)].submit(function, *arguments)

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
    if not self._queues:
      return [function(make(item)) for item in items]
    places = iter(sorted(range(len(items)), key=lambda place: -cost(items[place])))
    results: dict[int, _Out] = {}
    running: dict[concurrent.futures.Future, tuple[int, concurrent.futures.Executor, int]] = {}

    def submit(queue: concurrent.futures.Executor, slot: int) -> None:
      place = next(places, None)
      if place is not None:
        running[self._submit(queue, slot, function, make(items[place]))] = place, queue, slot

    for slot in range(len(self._queues) * _IN_HAND):
      submit(self._queues[slot % len(self._queues)], slot)
    while running:
      done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
      for future in done:
        place, queue, slot = running.pop(future)
        results[place] = future.result()
        submit(queue, slot)
    return [results[place] for place in range(len(items))]

  def _submit(
    self, queue: concurrent.futures.Executor, slot: int, function: Callable[[_Job], _Out], job: _Job
  ) -> concurrent.futures.Future:
    packed = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
    if len(packed) > _SLOT:
      return queue.submit(function, job)
    self._memory[slot * _SLOT : slot * _SLOT + len(packed)] = packed
    return queue.submit(_call, function, slot, len(packed))


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
