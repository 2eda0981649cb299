"""Shares work on many languages between processes."""

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from xmcap import processes as processes_lib

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_function: Callable  # in a worker process, the function to call with each item


def share(function: Callable[[_In], _Out], items: Sequence[_In], processes: int) -> list[_Out]:
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
  workers: list[processes_lib.Worker] = []
  at_once = True
  try:
    for _ in range(processes):
      workers.append(processes_lib.Worker(context, _begin, (function,), workers))
    results = dict(processes_lib.share(workers, _call, ((item,) for item in items)))
    at_once = False
  finally:
    processes_lib.end(workers, at_once)
  return [results[number] for number in range(len(items))]


def _begin(function: Callable) -> None:
  global _function
  _function = function


def _call(item):
  return _function(item)
