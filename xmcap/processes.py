"""Worker processes that end when the process that started them ends.

Workers of `concurrent.futures` outlive a killed parent and leave its semaphores in /dev/shm. A worker here has one
connection and shares nothing, so it leaves nothing behind.
"""

import contextlib
import copy
import itertools
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import pickle
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.context import ForkContext, SpawnContext
from typing import Any, TypeVar

from xmcap import terminal
from xmcap.errors import XmcapError
from xmcap.progress import Progress, Say

_In = TypeVar("_In")
_Out = TypeVar("_Out")

MAX = 256
"""Upper bound on the number of processes, whatever the user asks for."""

_LOOK = 0.5  # seconds between two checks that the parent is alive
# A library that multiplies matrices starts a thread per core in every process, for nothing.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_starting = threading.Lock()


class Killed(XmcapError):
  """A worker process died during a call."""


class Worker:
  """A process that makes one call at a time, or with `lanes` as many, each on a thread and a connection of its own.

  It calls `initializer(*arguments)` first. `others` are the workers started before it. `advice` ends the messages about
  a process that died. `connection` becomes readable when a result is there or the process has ended. `lanes` are
  workers, this one first, that make calls in the same process.
  """

  def __init__(
    self,
    context: ForkContext | SpawnContext,
    initializer: Callable[..., object] | None = None,
    arguments: tuple[Any, ...] = (),
    others: Sequence["Worker"] = (),
    advice: str = "use fewer processes (--processes)",
    lanes: int = 1,
  ):
    self._advice = advice
    self._ending = threading.Lock()
    ours, theirs = zip(*(context.Pipe() for _ in range(lanes)), strict=True)
    self.connection = ours[0]
    # A forked child must close its copies, or the other workers would not notice when this process ends.
    is_forked = context.get_start_method() == "fork"
    others_ours = [lane.connection for worker in others for lane in worker.lanes]
    copies = [*ours, *others_ours] if is_forked else []
    self._process = context.Process(target=_serve, args=(theirs, copies, initializer, arguments), daemon=True)
    if not is_forked:
      with _safe_path():
        # Otherwise Python starts the tracker with the first process, which unblocks SIGINT.
        multiprocessing.resource_tracker.ensure_running()
    # The child starts with SIGINT blocked: interrupted during its imports, it would print a traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
      with _safe_path():
        self._process.start()
    except OSError as error:
      for connection in ours:
        connection.close()
      raise XmcapError(f"a worker process cannot be started ({error.strerror or error}): {advice}") from error
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)
      for connection in theirs:
        connection.close()
    self.lanes = [self]
    for connection in ours[1:]:
      self.lanes.append(copy.copy(self))
      self.lanes[-1].connection = connection

  def send(self, function: Callable, *arguments: Any) -> None:
    """Starts a call; the worker must be idle."""
    try:
      self.connection.send_bytes(pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL))
    except ConnectionError as error:
      raise self._killed() from error

  def receive(self) -> Any:
    """Waits for the call and returns its result; raises its error, or Killed if the process ended first."""
    try:
      packed = self.connection.recv_bytes()
    except (EOFError, OSError) as error:  # OSError if the result was cut off
      raise self._killed() from error
    succeeded, value = pickle.loads(packed)
    if succeeded:
      return value
    raise Killed(f"{value}: {self._advice}") if isinstance(value, Killed) else value

  def begin_end(self, at_once: bool) -> None:
    """Tells the process to end: after its current call, or at once."""
    if at_once:
      self._process.kill()
    for lane in self.lanes:
      lane.connection.close()

  def join(self) -> None:
    """Waits for the end of the process."""
    with self._ending:  # only one thread learns from the kernel how it ended
      self._process.join()

  def _killed(self) -> Killed:
    self.join()
    status = self._process.exitcode
    assert status is not None  # it has ended
    how = f"ended with status {status}"
    if status < 0:
      how = f"was killed (signal {-status}{'; out of memory?' if -status == signal.SIGKILL else ''})"
    return Killed(f"a worker process {how}: {self._advice}")


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
  """Makes new Python processes import nothing of the working folder, where a stranger's `pickle.py` may be.

  multiprocessing starts them by `python -c`, which looks there first.
  """
  before = os.environ.get("PYTHONSAFEPATH")
  os.environ["PYTHONSAFEPATH"] = "1"
  try:
    yield
  finally:
    if before is None:
      del os.environ["PYTHONSAFEPATH"]
    else:
      os.environ["PYTHONSAFEPATH"] = before


@contextlib.contextmanager
def lean() -> Iterator[None]:
  """Makes processes that start now neither run the caller's program, as multiprocessing does, nor start threads."""
  with _starting:
    main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in _ONE_THREAD}
    # A script or notebook may have no `if __name__ == "__main__"`, and a command would import more than is needed.
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
      yield
    finally:
      sys.modules["__main__"] = main
      for name, value in before.items():
        if value is None:
          del os.environ[name]


def end(workers: Sequence[Worker], at_once: bool = False) -> None:
  """Ends processes, beside each other: after their current calls, or at once."""
  for worker in workers:
    worker.begin_end(at_once)
  # A process with much memory takes a while to give it back.
  for worker in workers:
    worker.join()


def share(
  workers: Sequence[Worker], function: Callable, calls: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
  """Yields (index of the call, result) as calls finish; `calls` gives the arguments of each call.

  A worker gets the next call as soon as it is free.
  """
  numbered, running = enumerate(calls), {}

  def give(worker: Worker) -> None:
    for number, arguments in numbered:
      worker.send(function, *arguments)
      running[worker.connection] = worker, number
      return

  for worker in workers:
    give(worker)
  while running:
    for connection in multiprocessing.connection.wait(list(running)):
      worker, number = running.pop(connection)
      result = worker.receive()
      give(worker)
      yield number, result


class Pool:
  """Worker processes that share calls; without any, this process makes the calls."""

  def __init__(self, workers: list[Worker]):
    self._workers = workers

  def map(self, function: Callable[..., _Out], *iterables: Iterable[Any]) -> Iterator[_Out]:
    """Does the same as `map`, in order; raises Killed if a process dies during a call."""
    calls = zip(*iterables, strict=False)
    if not self._workers:
      yield from itertools.starmap(function, calls)
    done: dict[int, _Out] = {}
    awaited = 0
    for number, result in share(self._workers, function, calls):
      done[number] = result
      while awaited in done:
        yield done.pop(awaited)
        awaited += 1


@contextlib.contextmanager
def pool(processes: int) -> Iterator[Pool]:
  """Makes a pool of up to `MAX` processes (none for 1); XmcapError if one cannot be started.

  The processes end when the caller is killed, so that they do not interfere with a restarted build.
  """
  context = multiprocessing.get_context("spawn")
  workers: list[Worker] = []
  at_once = False
  try:
    for _ in range(min(processes, MAX) if processes > 1 else 0):
      workers.append(Worker(context, terminal.guard))
    yield Pool(workers)
  except BaseException as error:
    # A user who stops a command should not have to wait; killing is safe, because all files are written atomically.
    at_once = not isinstance(error, Exception)
    raise
  finally:
    end(workers, at_once)


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
  with pool(min(processes or available_cores(), len(ranges))) as shared:
    results = shared.map(function, itertools.repeat(source), ranges, *repeated)
    for done, result in zip(ranges, results, strict=True):
      yield result
      progress(done.stop)


def unshared(value: _Out, processes: int) -> Callable[[], _Out]:
  """Returns a function that gives `value` again, in one of several processes without copying memory of their parent.

  Whoever reads a string changes its count of references, and so gets a copy of the page, which has other strings too:
  each process would soon have all texts of its parent. `processes` are those of `map_forked`; one copies nothing.
  """
  if processes < 2:
    return lambda: value
  packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
  return lambda: pickle.loads(packed)


_function: Callable  # in a worker process, the function to call with each item


def map_forked(function: Callable[[_In], _Out], items: Sequence[_In], processes: int) -> list[_Out]:
  """Returns `function(item)` for each item, in order.

  The processes are forked, so the function's data need not be sent to them. If JAX or TensorFlow is loaded, whose
  threads may hold locks, this process does all the work. An error ends the workers at once.

  Raises:
    XmcapError: a worker cannot be started, or was killed.
  """
  processes = min(processes, len(items))
  threaded = any(name in sys.modules for name in ("jax", "tensorflow"))
  if processes < 2 or threaded or "fork" not in multiprocessing.get_all_start_methods():
    return [function(item) for item in items]
  context = multiprocessing.get_context("fork")
  workers: list[Worker] = []
  at_once = True
  try:
    for _ in range(processes):
      workers.append(Worker(context, _begin, (function,), workers))
    results = dict(share(workers, _call, ((item,) for item in items)))
    at_once = False
  finally:
    end(workers, at_once)
  return [results[number] for number in range(len(items))]


def _begin(function: Callable) -> None:
  global _function
  _function = function


def _call(item):
  return _function(item)


def available_cores() -> int:
  """Returns the number of CPU cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serve(
  connections: Sequence[multiprocessing.connection.Connection],
  copies: Sequence[multiprocessing.connection.Connection],
  initializer: Callable[..., object] | None,
  arguments: tuple[Any, ...],
) -> None:
  _end_with_parent()
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the parent, and the parent stops its workers
  for inherited in copies:
    inherited.close()
  if initializer is not None:
    initializer(*arguments)
  for connection in connections[1:]:
    threading.Thread(target=_answer, args=(connection,), daemon=True).start()
  _answer(connections[0])


def _answer(connection: multiprocessing.connection.Connection) -> None:
  """Makes the calls of a connection until it is closed."""
  with contextlib.suppress(EOFError, ConnectionError):
    while True:
      connection.send_bytes(_outcome(connection.recv_bytes()))


def _outcome(packed: bytes) -> bytes:
  """Makes a call and returns (True, result) or (False, error), pickled."""
  try:
    function, arguments = pickle.loads(packed)
    return pickle.dumps((True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
  except MemoryError:
    error = Killed("a worker process ran out of memory")
  except BaseException as raised:
    error = raised
    if not isinstance(error, XmcapError):
      error.add_note(f"In a worker process:\n{''.join(traceback.format_exception(error))}")
  try:
    outcome = pickle.dumps((False, error))
    pickle.loads(outcome)
    return outcome
  except Exception:  # the error cannot be pickled
    return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _end_with_parent() -> None:
  """Makes this process exit within a second of its parent's end, whatever it is doing."""
  parent = multiprocessing.parent_process()
  assert parent is not None  # this is a worker

  def watch() -> None:
    # Forked processes hold copies of each other's sentinels, hence the check of the parent's id.
    while not multiprocessing.connection.wait([parent.sentinel], _LOOK) and os.getppid() == parent.pid:
      pass
    os._exit(1)

  if os.getppid() != parent.pid:  # a call may lie in the pipe already
    os._exit(1)
  threading.Thread(target=watch, daemon=True).start()
