"""Rows of evaluators that need no device, computed in other processes while training goes on.

Those processes import this module, so it imports no jax.
"""

import dataclasses
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xmcap import processes, terminal
from xmcap.errors import UsageError, XmcapError, one_line

Row = tuple[str, str, float]
"""Language, name, value."""

_SPAWN = multiprocessing.get_context("spawn")
_NICE = 10  # the steps come first, as the processes that read pictures for them need the same cores


@dataclasses.dataclass(frozen=True)
class Deferred:
  """What an evaluator may yield in place of rows: `function(*arguments)` yields them, and may take its time.

  Function and arguments are pickled, so the function is one of a module; if that imports no jax, neither does the
  process that calls it.
  """

  function: Callable[..., Iterable[Row]]
  arguments: tuple[Any, ...] = ()


def at_once(rows: Iterable[Row | Deferred]) -> Iterator[Row]:
  """Yields an evaluator's rows, and makes deferred calls in this process."""
  for row in rows:
    if isinstance(row, Deferred):
      yield from row.function(*row.arguments)
    else:
      yield row


class Evaluation:
  """One evaluation of a run: the rows of all evaluators, of which some may still be computed.

  Attributes:
    step: the step whose weights are evaluated.
    is_deferred: whether an evaluator deferred a call, in this process.
    seconds: that training waited for the evaluators.
    is_shown: whether the rows are printed and written.
  """

  def __init__(self, step: int, computes: bool):
    """With `computes`, as in process 0 of a run alone, deferred calls are made and rows kept."""
    self.step = step
    self.is_deferred = False
    self.seconds = 0.0
    self.is_shown = False
    self._computes = computes
    self._parts: list[tuple[str, Row | processes.Worker]] = []
    self._outcome: dict[str, Any] = {}

  def add(self, evaluator: str, rows: Iterable[Row | Deferred]) -> None:
    """Takes all rows of an evaluator; each deferred call begins at once, in a process of its own."""
    for row in rows:
      self.is_deferred |= isinstance(row, Deferred)
      if self._computes:
        self._parts.append((evaluator, _begun(row) if isinstance(row, Deferred) else row))

  def wait(self, seconds: float) -> bool:
    """Waits for the deferred calls, at most so long; returns whether all have ended."""
    until = time.monotonic() + seconds
    return all(worker.connection.poll(max(0.0, until - time.monotonic())) for worker in self._workers())

  def outcome(self) -> dict[str, Any]:
    """Waits for the deferred calls; returns {"rows": [[language, name, value], ...]}, or the first failure.

    A failure has `error`, one line, `evaluator`, and `is_usage`, whether it is a UsageError.
    """
    if not self._outcome:
      rows: list[Row] = []
      for evaluator, part in self._parts:
        try:
          more = part.receive() if isinstance(part, processes.Worker) else [part]
          rows += [(language, name, float(value)) for language, name, value in more]
        except Exception as error:
          if not isinstance(error, XmcapError):
            from absl import logging  # scoring alone has none

            logging.error("an evaluator's error", exc_info=error)
          failure = {"error": one_line(error), "is_usage": isinstance(error, UsageError)}
          self._outcome = {"evaluator": evaluator, **failure}
          break
      else:
        self._outcome = {"rows": rows}
      self.end()
    return self._outcome

  def end(self) -> None:
    """Ends the processes, whatever they do."""
    processes.end(self._workers(), at_once=True)
    self._parts.clear()

  def _workers(self) -> list[processes.Worker]:
    return [part for _, part in self._parts if isinstance(part, processes.Worker)]


def _begun(call: Deferred) -> processes.Worker:
  with processes.lean():
    worker = processes.Worker(_SPAWN, _begin, advice="give the host more memory, or evaluate fewer pictures")
  try:
    worker.send(_rows, call)
  except BaseException:  # such as of arguments that cannot be pickled
    processes.end([worker], at_once=True)
    raise
  return worker


# ---- in the process --------------------------------------------------------------------------------


def _begin() -> None:
  terminal.guard()
  # A scheduler may send it to all processes of a job; the run waits for the rows after it has saved its state.
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  os.nice(_NICE)


def _rows(call: Deferred) -> list[Row]:
  return list(at_once([call]))
