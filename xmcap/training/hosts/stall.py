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
  """Calls functions on a thread of its own, and waits at most `seconds` for each (0: no limit).

  The message names `source`.
  """

  def __init__(self, seconds: float, source: str):
    self.seconds = seconds
    self.source = source
    self._busy = False
    self._asked: queue.SimpleQueue = queue.SimpleQueue()
    self._given: queue.SimpleQueue = queue.SimpleQueue()
    # A daemon, so that a read that never returns does not keep the process alive.
    threading.Thread(target=self._work, name="data", daemon=True).start()

  def call(self, function: Callable[[], Out], when: str) -> Out:
    """Returns what `function()` returns, or raises what it raises; Stalled if it takes longer than `seconds`."""
    self._busy = True
    self._asked.put(function)
    try:
      with watch.during("data", f"waiting for data: {when}"):
        result, error = self._given.get(timeout=self.seconds or None)
    except queue.Empty:
      watch.write_stacks(f"{when}: no data came")
      raise Stalled(
        f"{when}: waited {self.seconds:g} s for data from {self.source} on {socket.gethostname()}: is its storage"
        " within reach? train.data_timeout is the limit; what was saved before stays"
      ) from None
    self._busy = False
    if error is not None:
      raise error
    return result

  def close(self, batches: Any = None) -> None:
    """Ends the thread, and closes the iterator that it reads unless a read hangs."""
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
      del result, function  # a batch may be large, and only the caller should hold it


def describe(stream: Any) -> str:
  """Names a stream by its kind, and by the records that it reads if it has them."""
  name = type(stream).__name__
  source = getattr(stream, "source", None)
  directory, split = getattr(source, "directory", ""), getattr(source, "split", "")
  return f"{name} ({split} of {directory})" if directory else name
