"""Worker processes that share the work on data, spawned: the caller may hold threads of JAX or TensorFlow."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from xmcap import processes as processes_lib
from xmcap import terminal

_Out = TypeVar("_Out")


class Pool:
  """Processes that take calls in turn."""

  def __init__(self, workers: list[processes_lib.Worker]):
    self._workers = workers

  def map(self, function: Callable[..., _Out], *iterables: Iterable[Any]) -> Iterator[_Out]:
    """Yields what a function returns for the items of iterables, in their order, as `map` does.

    Raises:
      processes.Killed: a process ended in the middle of its work.
    """

    def pack(numbered: tuple[int, tuple[Any, ...]], slot: int) -> bytes:
      del slot
      return processes_lib.pack(function, *numbered[1])

    done: dict[int, _Out] = {}
    shared = processes_lib.share(self._workers, enumerate(zip(*iterables, strict=False)), pack)
    for place in itertools.count():
      while place not in done:
        found = next(shared, None)
        if found is None:
          return
        (number, _), result = found
        done[number] = result
      yield done.pop(place)


@contextlib.contextmanager
def pool(
  processes: int, initializer: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[Pool]:
  """A pool of processes.

  They end at once when the caller is killed: a restarted build is not to meet those of the one before. An error in
  the `with` ends the work with what is begun; what waits is not done.

  Args:
    processes: how many; over `processes.MAX`, that many.
    initializer, arguments: called in each process before anything else.

  Raises:
    XmcapError: a process cannot be started.
  """
  context = multiprocessing.get_context("spawn")
  workers: list[processes_lib.Worker] = []
  try:
    for _ in range(min(processes, processes_lib.MAX)):
      workers.append(processes_lib.Worker(context, _begin, (initializer, arguments)))
    yield Pool(workers)
  except Exception:
    _end(workers)
    raise
  except BaseException:
    # Whoever stops a command does not wait for what is half done, and all that is written is whole or absent.
    _end(workers, at_once=True)
    raise
  else:
    _end(workers)


def _end(workers: list[processes_lib.Worker], at_once: bool = False) -> None:
  for worker in workers:
    worker.end(at_once)


def _begin(initializer: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
  terminal.guard()
  if initializer is not None:
    initializer(*arguments)
