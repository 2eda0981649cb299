"""Worker processes that end with the process that started them."""

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from xmcap import terminal


@contextlib.contextmanager
def pool(
  processes: int, initializer: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
  """A pool of processes, spawned (the caller may hold threads of JAX or TensorFlow).

  They end at once when the caller is killed: a restarted build is not to meet those of the one before. An error in
  the `with` ends the work with what is begun; what waits is not done.

  Args:
    processes: how many.
    initializer, arguments: called in each process before anything else.
  """
  executor = concurrent.futures.ProcessPoolExecutor(
    processes,
    mp_context=_Context(),
    initializer=_begin,
    initargs=(initializer, arguments),
  )
  try:
    yield executor
  except Exception:
    raise
  except BaseException:
    # Whoever stops a command does not wait for what is half done, and all that is written is whole or absent.
    for process in list(executor._processes.values()):
      process.kill()
    raise
  finally:
    executor.shutdown(wait=True, cancel_futures=True)


class _Process(multiprocessing.context.SpawnProcess):
  """A process that the keyboard does not stop: it stops the caller, which ends its processes."""

  def start(self):
    # Held back from the first instruction on, or a process that is still importing would say so in many lines.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
      super().start()
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(multiprocessing.context.SpawnContext):
  Process = _Process


def _begin(initializer: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
  # A parent that was killed while this process was starting: its work waits in the queue, and is not to be begun.
  _end_with_parent(timeout=0)
  threading.Thread(target=_end_with_parent, daemon=True).start()
  terminal.guard()
  if initializer is not None:
    initializer(*arguments)


def _end_with_parent(timeout: float | None = None) -> None:
  """Waits `timeout` seconds (None: for ever) for the parent's end, and ends with it."""
  parent = multiprocessing.parent_process()
  if parent is not None and multiprocessing.connection.wait([parent.sentinel], timeout):
    os._exit(1)
