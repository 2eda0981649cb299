"""Worker processes: each makes calls for the process that started it, and ends when that one does.

`concurrent.futures` has such pools too. Its processes outlive one that is killed, its semaphores stay in /dev/shm, and
a worker that is killed while it sends a result is waited for without end. Here a worker has one connection and nothing
that is shared, so that there is nothing to leave behind.
"""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import BaseContext
from typing import Any

from xmcap.errors import XmcapError

IN_HAND = 2
"""Calls that a worker has at a time: one that it works on, and the next."""

_SMALL = 1024
"""Bytes of a call that is sent to a worker that is busy; a connection holds several such, whatever the platform."""

_LOOK = 0.5
"""Seconds between two looks whether the parent is there, should its end not be told."""


MAX = 256
"""Processes that are started at most, whatever is asked for."""


class Killed(XmcapError):
  """A worker process ended in the middle of its work."""


class Call:
  """A call that a worker makes; `result()` waits for what comes out, and raises what it raised."""

  def __init__(self, worker: "Worker"):
    self._worker = worker
    self._outcome: tuple[bool, Any] | None = None

  def result(self) -> Any:
    """Returns what the call returned; Killed if the worker's end came first."""
    while self._outcome is None:
      self._worker.receive()
    succeeded, value = self._outcome
    if succeeded:
      return value
    raise value

  def take(self, outcome: tuple[bool, Any]) -> None:
    """Notes what came out: (True, value) or (False, error)."""
    self._outcome = outcome


class Worker:
  """A process that makes calls one after another.

  Attributes:
    connection: of this process to it; ready to be read when a result has come, or the worker has ended.
    pending: the calls that it has and whose results have not been received, the oldest first.
  """

  def __init__(
    self,
    context: BaseContext,
    initializer: Callable[..., object] | None = None,
    arguments: tuple[Any, ...] = (),
    others: Sequence["Worker"] = (),
  ):
    """Starts the process.

    Args:
      context: of `multiprocessing`: `fork` or `spawn`.
      initializer, arguments: called in the process before anything else.
      others: those that were started before.
    """
    self.connection, theirs = context.Pipe()
    self.pending: collections.deque[Call] = collections.deque()
    self._waiting: collections.deque[tuple[bytes, Call]] = collections.deque()
    # A forked process holds copies of these, with which the other workers would not see this process's end.
    forked = context.get_start_method() == "fork"
    copies = [self.connection, *(worker.connection for worker in others)] if forked else []
    self._process = context.Process(target=_serve, args=(theirs, copies, initializer, arguments), daemon=True)
    if not forked:
      # Started with the first process otherwise, and Python lets the keyboard through again when it has done that.
      multiprocessing.resource_tracker.ensure_running()
    # Held back from the first instruction on, or a process that still imports would tell of the keyboard in many lines.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
      self._process.start()
    except OSError as error:
      self.connection.close()
      raise XmcapError(
        f"a worker process cannot be started ({error.strerror or error}): use fewer processes"
      ) from error
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)
      theirs.close()

  def call(self, packed: bytes) -> Call:
    """Has a call made that `pack` packed; one that is large is sent when the worker has nothing else to do."""
    call = Call(self)
    self._waiting.append((packed, call))
    self._send()
    return call

  def receive(self) -> Call:
    """Waits for the result of the oldest call, and returns that call; Killed if the worker has ended."""
    try:
      packed = self.connection.recv_bytes()
    except (EOFError, OSError) as error:  # the second where the result is cut off
      raise self._killed() from error
    outcome = pickle.loads(packed)
    call = self.pending.popleft()
    call.take(outcome)
    self._send()
    return call

  def end(self, at_once: bool = False) -> None:
    """Ends the process, after the call that it is making or `at_once`."""
    if at_once:
      self._process.kill()
    self.connection.close()
    self._process.join()

  def _send(self) -> None:
    # A worker that sends a large result does not read: two large messages would wait for each other for ever.
    while self._waiting and (not self.pending or len(self._waiting[0][0]) <= _SMALL):
      packed, call = self._waiting.popleft()
      try:
        self.connection.send_bytes(packed)
      except ConnectionError as error:
        raise self._killed() from error
      self.pending.append(call)

  def _killed(self) -> Killed:
    self._process.join()
    status = self._process.exitcode
    how = f"ended with status {status}"
    if status < 0:
      how = f"was killed (signal {-status}{'; out of memory?' if -status == signal.SIGKILL else ''})"
    return Killed(f"a worker process {how}: use fewer processes (--processes)")


def pack(function: Callable, *arguments: Any) -> bytes:
  """Returns a call as `Worker.call` takes it."""
  return pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)


def share(
  workers: Sequence[Worker], items: Iterator[Any], pack_item: Callable[[Any, int], bytes]
) -> Iterator[tuple[Any, Any]]:
  """Yields (item, result) as they are done: the first items go to the workers in turn, then each gets the next in time.

  Args:
    workers: that share the items.
    items: are asked for when a worker can take one.
    pack_item: returns the call for an item; also given the slot, in [0, len(workers) * IN_HAND), which no other call
      has until the result is there.
  """
  running: dict[Call, tuple[Any, int]] = {}
  end = object()

  def give(slot: int) -> None:
    item = next(items, end)
    if item is not end:
      running[workers[slot % len(workers)].call(pack_item(item, slot))] = item, slot

  for slot in range(len(workers) * IN_HAND):
    give(slot)
  while running:
    busy = {worker.connection: worker for worker in workers if worker.pending}
    for connection in multiprocessing.connection.wait(list(busy)):
      call = busy[connection].receive()
      if call in running:
        item, slot = running.pop(call)
        result = call.result()
        give(slot)
        yield item, result


def _serve(
  connection: multiprocessing.connection.Connection,
  copies: Sequence[multiprocessing.connection.Connection],
  initializer: Callable[..., object] | None,
  arguments: tuple[Any, ...],
) -> None:
  """Makes calls until there is nobody to make them for."""
  _end_with_parent()
  # The keyboard stops the parent, and that these.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  for copy in copies:
    copy.close()
  if initializer is not None:
    initializer(*arguments)
  with contextlib.suppress(EOFError, ConnectionError):
    while True:
      packed = connection.recv_bytes()
      connection.send_bytes(_outcome(packed))


def _outcome(packed: bytes) -> bytes:
  """Makes a call; returns (True, value) or (False, error), pickled."""
  try:
    function, arguments = pickle.loads(packed)
    return pickle.dumps((True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
  except MemoryError:
    return pickle.dumps(
      (False, Killed("a worker process ran out of memory: use fewer processes (--processes)"))
    )
  except BaseException as error:
    if not isinstance(error, XmcapError):
      error.add_note(f"In a worker process:\n{''.join(traceback.format_exception(error))}")
    try:
      outcome = pickle.dumps((False, error))
      pickle.loads(outcome)
    except Exception:
      outcome = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return outcome


def _end_with_parent() -> None:
  """Has this process end within a second of its parent's end, whatever it does then."""
  parent = multiprocessing.parent_process()

  def gone(timeout: float) -> bool:
    # Of forked processes each holds what tells the end to those before it; hence the second look.
    return bool(multiprocessing.connection.wait([parent.sentinel], timeout)) or os.getppid() != parent.pid

  def watch() -> None:
    while not gone(_LOOK):
      pass
    os._exit(1)

  # A parent that was killed while this process was starting: its work is not to be begun.
  if gone(0):
    os._exit(1)
  threading.Thread(target=watch, daemon=True).start()
