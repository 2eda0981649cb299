"""Worker processes that share the work on data, spawned: the caller may hold threads of JAX or TensorFlow."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from xmcap import processes as processes_lib
from xmcap import terminal
from xmcap.storage import files

_Out = TypeVar("_Out")


class Pool:
  """Processes that take calls in turn."""

  def __init__(self, workers: list[processes_lib.Worker]):
    self._workers = workers

  def map(self, function: Callable[..., _Out], *iterables: Iterable[Any]) -> Iterator[_Out]:
    """Yields the results of a function for the items of iterables, in their order, as `map` does.

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
def pool(processes: int) -> Iterator[Pool]:
  """A pool of so many processes, `processes.MAX` at most.

  They end at once when the caller is killed, so that a restarted build does not meet those of the one before. An error
  in the `with` ends the work with what is begun.

  Raises:
    XmcapError: a process cannot be started.
  """
  context = multiprocessing.get_context("spawn")
  workers: list[processes_lib.Worker] = []
  at_once = False
  try:
    for _ in range(min(processes, processes_lib.MAX)):
      workers.append(processes_lib.Worker(context, terminal.guard))
    yield Pool(workers)
  except BaseException as error:
    # Whoever stops a command does not wait for work in progress: all files are whole or absent.
    at_once = not isinstance(error, Exception)
    raise
  finally:
    for worker in workers:
      worker.end(at_once)


def map_records(
  function: Callable[..., _Out],
  source: Any,
  *arguments: Any,
  chunk: int,
  processes: int | None = None,
  progress: Callable[[int, int], None] | None = None,
) -> Iterator[_Out]:
  """Yields function(source, range of indices, *arguments) for successive chunks of a source's records, in order.

  Args:
    function, source, arguments: can be pickled.
    chunk: records of a call.
    processes: None: one a core. A single chunk needs none.
    progress: called with the records so far, and all of them.
  """
  count = len(source)
  ranges = [range(start, min(start + chunk, count)) for start in range(0, count, chunk)]
  processes = min(processes or files.available_cores(), len(ranges))
  repeated = [itertools.repeat(argument) for argument in arguments]
  with contextlib.ExitStack() as stack:
    run = map if processes <= 1 else stack.enter_context(pool(processes)).map
    for done, result in zip(ranges, run(function, itertools.repeat(source), ranges, *repeated), strict=True):
      yield result
      if progress is not None:
        progress(done.stop, count)
