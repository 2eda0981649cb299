"""A limit on the time that a run waits for its data."""

import queue
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from xmcap.errors import RestartError
from xmcap.training.hosts import watch

Out = TypeVar("Out")


class Stalled(RestartError):
  """A data source that gives nothing for too long."""


class Patience:
  """Calls functions on a thread of its own, and waits for each no longer than `seconds`.

  Args:
    seconds: for one call; 0: without end.
    what: is waited for, in words.
  """

  def __init__(self, seconds: float, what: str):
    self.seconds = seconds
    self.what = what
    self._busy = False
    self._asked: queue.SimpleQueue = queue.SimpleQueue()
    self._given: queue.SimpleQueue = queue.SimpleQueue()
    # A daemon: a read that never returns must not keep the process from ending.
    threading.Thread(target=self._work, name="data", daemon=True).start()

  def call(self, function: Callable[[], Out], when: str) -> Out:
    """What `function()` returns, or raises.

    Raises:
      Stalled: it takes longer than `seconds`; `when` says at which step.
    """
    self._busy = True
    self._asked.put(function)
    try:
      with watch.during("data", f"waiting for data: {when}"):
        result, error = self._given.get(timeout=self.seconds or None)
    except queue.Empty:
      watch.write_stacks(f"{when}: no data came")
      raise Stalled(
        f"{when}: waited {self.seconds:g} s for data from {self.what} on {socket.gethostname()}: is its storage within"
        " reach? train.data_timeout is the limit; what was saved before stays"
      ) from None
    self._busy = False
    if error is not None:
      raise error
    return result

  def close(self, batches: Any = None) -> None:
    """Ends the thread, and closes the iterator that it read unless it is at it."""
    self._asked.put(None)
    if not self._busy and hasattr(batches, "close"):
      batches.close()

  def _work(self) -> None:
    while (function := self._asked.get()) is not None:
      try:
        result = (function(), None)
      except BaseException as error:
        result = (None, error)
      self._given.put(result)
      # Held by the one who asked alone: a batch may be large.
      del result, function


def describe(stream: Any) -> str:
  """A stream in a few words: its kind, and where it reads if it tells."""
  name = type(stream).__name__
  source = getattr(stream, "source", None)
  directory, split = getattr(source, "directory", ""), getattr(source, "split", "")
  return f"{name} ({split} of {directory})" if directory else name
