"""Processes that share the work on many languages; with one process, the work is done here."""

import concurrent.futures
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

_In = TypeVar("_In")
_Job = TypeVar("_Job")
_Out = TypeVar("_Out")


class Workers:
  """A context manager; `processes` of 1, or a process that cannot be forked, means this process.

  Each worker has its own queue, so that what one has loaded it can be asked for again. What comes out does not
  depend on how many there are.
  """

  def __init__(self, processes: int = 1):
    self._queues: list[concurrent.futures.Executor] = []
    if processes > 1 and _can_fork():
      context = multiprocessing.get_context("fork")
      # The workers give way to this process and its helper, who feed them: so they are never without work.
      self._queues = [
        concurrent.futures.ProcessPoolExecutor(1, context, os.nice, (5,)) for _ in range(processes)
      ]
      self._helper = concurrent.futures.ProcessPoolExecutor(1, context)

  def __enter__(self) -> "Workers":
    return self

  def __exit__(self, *exception) -> None:
    if self._queues:
      for queue in (self._helper, *self._queues):
        queue.shutdown(cancel_futures=True)

  @property
  def several(self) -> bool:
    """Whether there are processes beside this one."""
    return bool(self._queues)

  def start(self, function: Callable[..., _Out], *arguments) -> Callable[[], _Out]:
    """Starts a call in a process of its own; returns a function that waits for its result.

    Where there is no other process, the call is made when it is waited for.
    """
    if not self._queues:
      return lambda: function(*arguments)
    return self._helper.submit(function, *arguments).result

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
    running: dict[concurrent.futures.Future, tuple[int, concurrent.futures.Executor]] = {}

    def submit(queue: concurrent.futures.Executor) -> None:
      place = next(places, None)
      if place is not None:
        running[queue.submit(function, make(items[place]))] = place, queue

    for queue in self._queues * 2:
      submit(queue)
    while running:
      done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
      for future in done:
        place, queue = running.pop(future)
        results[place] = future.result()
        submit(queue)
    return [results[place] for place in range(len(items))]


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
