"""Notices when a run hangs: the main thread marks its progress, and another thread watches the marks.

When the limit of a phase (`HangLimits`) has passed, the process writes the stacks of its threads to its log and exits
with code 75. When one of several processes hangs, the others wait for it in a collective and make no progress either:
`heartbeat.py` compares the marks of all processes to name the one that is behind.
"""

import contextlib
import dataclasses
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import NamedTuple

import gin

from xmcap import terminal
from xmcap.errors import RestartError, UsageError

BEAT = 3.0
"""Seconds between two checks of the marks, and between two signs of life to the other processes."""

# A thread whose innermost frame is in one of these modules waits for its devices or for another process.
_WAITS = ("jax.", "jaxlib.", "orbax.checkpoint._src.multihost.", "xmcap.training.hosts.join.")
# Frames in these modules do not tell a reader where the program is.
_LIBRARIES = (
  "jax.", "jaxlib.", "numpy.", "orbax.", "threading.", "queue.", "concurrent.", "asyncio.", "selectors.",
)  # fmt: skip


@gin.configurable
@dataclasses.dataclass(frozen=True)
class HangLimits:
  """Seconds without progress, by phase, after which a run counts as hung and ends; 0: no limit.

  Attributes:
    start: the first batch, shapes, the folder of checkpoints.
    restore: reading or making the initial state.
    compile: a step with new shapes.
    step: any other step.
    evaluation: a batch of an evaluator, including compilation, or its scoring.
    checkpoint: starting to write a checkpoint; at the end of the run, writing it.
  """

  start: float = 3600
  restore: float = 3600
  compile: float = 1800
  step: float = 600
  evaluation: float = 1800
  checkpoint: float = 1800

  def __post_init__(self):
    for name, seconds in dataclasses.asdict(self).items():
      if seconds < 0:
        raise UsageError(f"HangLimits.{name} is {seconds}: give seconds, or 0 for no limit")


class _Mark(NamedTuple):
  count: int
  phase: str
  label: str
  thread: int | None


_mark = _Mark(0, "", "", threading.main_thread().ident)


def progress(phase: str, label: str = "") -> None:
  """Marks progress of the calling thread in a phase of `HangLimits`.

  Two more have no limit here: `data`, which has its own (`train.data_timeout`), and "", which is not watched.
  """
  global _mark
  _mark = _Mark(_mark.count + 1, phase, label or phase, threading.get_ident())


@contextlib.contextmanager
def during(phase: str, label: str = "") -> Iterator[None]:
  """Marks a phase on entry, and the previous one again on exit."""
  before = _mark
  progress(phase, label)
  try:
    yield
  finally:
    progress(before.phase, before.label)


@dataclasses.dataclass(frozen=True)
class State:
  """Where a process is: its last mark, the seconds since then, and the phase's limit (0: none).

  Attributes:
    count: number of marks so far.
    waits: whether it waits for its devices or for another process.
    location: `FILE:LINE in FUNCTION`, outside libraries.
  """

  count: int = 0
  phase: str = ""
  what: str = ""
  seconds: float = 0.0
  limit: float = 0.0
  waits: bool = False
  location: str = ""

  @property
  def hangs(self) -> bool:
    """Whether the limit has passed."""
    return 0 < self.limit < self.seconds

  def describe(self, process: str) -> str:
    """A line that describes a hanging process."""
    at = f", at {self.location}" if self.location else ""
    return (
      f"{process} has been in '{self.what}' for {self.seconds:.0f} s (HangLimits.{self.phase} is {self.limit:g}){at};"
      " its stack is in its log; start the run again to resume from its newest checkpoint"
    )


class Watch:
  """Watches the marks of this process; `look` is called every `BEAT` seconds."""

  def __init__(self, limits: HangLimits, clock: Callable[[], float] = time.monotonic):
    self._limits = dataclasses.asdict(limits)
    self._clock = clock
    self._last = clock()
    self._count, self._seconds = -1, 0.0

  def look(self) -> State:
    """The state now. A pause of this thread (the machine was suspended) counts as at most two beats."""
    mark, now = _mark, self._clock()
    self._seconds = self._seconds + min(now - self._last, 2 * BEAT) if mark.count == self._count else 0.0
    self._count, self._last = mark.count, now
    frame = sys._current_frames().get(mark.thread or 0)
    return State(
      mark.count, mark.phase, mark.label, round(self._seconds, 1), self._limits.get(mark.phase, 0.0),
      _module(frame).startswith(_WAITS), _location(frame),
    )  # fmt: skip


def _module(frame: FrameType | None) -> str:
  return f"{frame.f_globals.get('__name__', '')}." if frame else ""


def _location(frame: FrameType | None) -> str:
  while frame and _module(frame).startswith(_LIBRARIES):
    frame = frame.f_back
  if frame is None:
    return ""
  return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


def behind(states: Mapping[int, State]) -> list[int]:
  """The numbers of the processes that the others wait for.

  They do not wait themselves, unless all do (for a network or device that hangs). Of these, the ones with the fewest
  marks are behind, since all processes pass the same points.
  """
  free = {number: state for number, state in states.items() if not state.waits} or states
  least = min(state.count for state in free.values())
  return [number for number, state in free.items() if state.count == least]


def write_stacks(why: str) -> None:
  """Writes the stacks of all threads of this process to its log."""
  print(f"xmcap: {terminal.shown(why, limit=None)}: the stacks of its threads", file=sys.stderr, flush=True)
  # In a test runner stderr has no file descriptor.
  with contextlib.suppress(OSError, ValueError, AttributeError):
    faulthandler.dump_traceback(sys.stderr, all_threads=True)


def end(code: int, line: str, seconds: float = 0.0) -> None:
  """Ends this process from any thread: prints a line, and waits `seconds` for the others to read its last words."""
  kind = "restart needed" if code == RestartError.exit_code else "error"
  print(f"xmcap: {kind}: {terminal.shown(line, limit=None)}", file=sys.stderr, flush=True)
  sys.stdout.flush()
  time.sleep(seconds)
  os._exit(code)
