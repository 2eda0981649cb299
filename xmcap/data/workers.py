"""Worker processes for work on data; spawned, because the caller may have threads of JAX or TensorFlow."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from xmcap import processes as processes_lib
from xmcap import terminal
from xmcap.files import files
from xmcap.progress import Progress, Say

_Out = TypeVar("_Out")


class Pool:
  """Worker processes that share calls; without any, this process makes the calls."""

  def __init__(self, workers: list[processes_lib.Worker]):
    self._workers = workers

  def map(self, function: Callable[..., _Out], *iterables: Iterable[Any]) -> Iterator[_Out]:
    """Does the same as `map`, in order; raises processes.Killed if a process dies during a call."""
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
  """Makes a pool of up to `processes.MAX` processes (none for 1); XmcapError if one cannot be started.

  The processes end when the caller is killed, so that they do not interfere with a restarted build.
  """
  context = multiprocessing.get_context("spawn")
  workers: list[processes_lib.Worker] = []
  at_once = False
  try:
    for _ in range(min(processes, processes_lib.MAX) if processes > 1 else 0):
      workers.append(processes_lib.Worker(context, terminal.guard))
    yield Pool(workers)
  except BaseException as error:
    # A user who stops a command should not have to wait; killing is safe, because all files are written atomically.
    at_once = not isinstance(error, Exception)
    raise
  finally:
    processes_lib.end(workers, at_once)


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

  If there are several chunks, `processes` (None: one per core) share the work; all arguments must be picklable. `say`
  receives progress lines about `what`.
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
