"""Processes that share the work on many languages; with one process, the work is done here."""

import concurrent.futures
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

_In = TypeVar("_In")
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
      self._queues = [concurrent.futures.ProcessPoolExecutor(1, context) for _ in range(processes)]

  def __enter__(self) -> "Workers":
    return self

  def __exit__(self, *exception) -> None:
    for queue in self._queues:
      queue.shutdown(cancel_futures=True)

  @property
  def several(self) -> bool:
    """Whether there are processes beside this one."""
    return bool(self._queues)

  def start(self, function: Callable[..., _Out], *arguments, worker: int = 0) -> Callable[[], _Out]:
    """Starts a call; returns a function that waits for its result. With one process, it runs when waited for."""
    if not self._queues:
      return lambda: function(*arguments)
    return self._queues[worker % len(self._queues)].submit(function, *arguments).result

  def map(
    self, function: Callable[[_In], _Out], items: Sequence[_In], cost: Callable[[_In], float]
  ) -> list[_Out]:
    """Returns the results in the order of the items.

    The costliest items are started first, each by the worker that has least to do: the costliest by worker 0,
    the next by worker 1, and so on.
    """
    waiting: list = [None] * len(items)
    busy = [0.0] * max(1, len(self._queues))
    for place in sorted(range(len(items)), key=lambda place: -cost(items[place])):
      worker = busy.index(min(busy))
      busy[worker] += cost(items[place])
      waiting[place] = self.start(function, items[place], worker=worker)
    return [wait() for wait in waiting]


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
