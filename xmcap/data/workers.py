"""Worker processes that share the work on data, spawned: the caller may hold threads of JAX or TensorFlow."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from xmcap import processes as processes_lib
from xmcap import terminal
from xmcap.progress import Progress, Say
from xmcap.storage import files

_Out = TypeVar("_Out")


class Pool:
  """Processes that take calls in turn; without any, this one makes them."""

  def __init__(self, workers: list[processes_lib.Worker]):
    self._workers = workers

  def map(self, function: Callable[..., _Out], *iterables: Iterable[Any]) -> Iterator[_Out]:
    """As `map`, in order; raises processes.Killed if a process ends in the middle of its work."""
    calls = zip(*iterables, strict=False)
    if not self._workers:
      yield from itertools.starmap(function, calls)
    done: dict[int, _Out] = {}
    awaited = 0
    for number, result in processes_lib.share(self._workers, function, calls):
      done[number] = result
      while awaited in done:
        yield done.pop(awaited)
        awaited += 1


@contextlib.contextmanager
def pool(processes: int) -> Iterator[Pool]:
  """A pool of so many processes, `processes.MAX` at most, none for 1; XmcapError if one cannot be started.

  They end at once when the caller is killed, so that a restarted build does not meet those of the one before.
  """
  context = multiprocessing.get_context("spawn")
  workers: list[processes_lib.Worker] = []
  at_once = False
  try:
    for _ in range(min(processes, processes_lib.MAX) if processes > 1 else 0):
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
  processes: int | None,
  what: str,
  say: Say | None,
) -> Iterator[_Out]:
  """Yields function(source, range of indices, *arguments) for successive chunks of a source's records, in order.

  The work is shared by `processes` (None: one a core) if there are several chunks; all arguments can be pickled.
  `say` gets lines on the progress of `what`.
  """
  count = len(source)
  ranges = [range(start, min(start + chunk, count)) for start in range(0, count, chunk)]
  progress = Progress(say or (lambda line: None), what, count)
  repeated = [itertools.repeat(argument) for argument in arguments]
  with pool(min(processes or files.available_cores(), len(ranges))) as shared:
    results = shared.map(function, itertools.repeat(source), ranges, *repeated)
    for done, result in zip(ranges, results, strict=True):
      yield result
      progress(done.stop)
