"""A run that hangs is seen: the main thread marks its progress, another thread looks at the marks.

`progress("evaluation", "evaluation batch 7")` costs no more than an assignment, so it may stand in any loop. Each phase
has its limit (`HangLimits`). Past it the process writes the stacks of its threads to its log and ends with exit code
75. Of several processes, those that wait for another one in a collective make no progress either: `heartbeat.py`
compares the marks of all, and the process that is behind is the one that is named.
"""

import contextlib
import dataclasses
import faulthandler
import json
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

# Seconds between two looks, and between two signs of life to the other processes.
BEAT = 3.0
# Waiting for data has a limit of its own, `train.data_timeout`; "" is what nobody watches.
_UNLIMITED = ("data", "")
# The innermost frame of a thread that waits for its devices or for another process is in one of these.
_WAITS = ("jax.", "jaxlib.", "orbax.checkpoint._src.multihost.", "xmcap.training.hosts.join.")
# No place that helps a reader: the libraries' frames, and those of the standard library's locks and queues.
_LIBRARIES = ("jax.", "jaxlib.", "orbax.", "threading.", "queue.", "concurrent.", "asyncio.", "selectors.")
_GOES_ON = "the run goes on from its newest checkpoint when it is started again"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class HangLimits:
  """Seconds without progress, by phase, after which a run hangs and ends; 0: no limit.

  Attributes:
    start: until the run knows its shapes; the first batch is read.
    restore: a checkpoint or weights are read, or fresh parameters made.
    compile: a step whose shapes are new.
    step: any other step.
    evaluation: a batch of an evaluator, its compilation included, or its scores.
    checkpoint: a checkpoint is handed over for writing; at the end of the run it is on disk.
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


_PHASES = frozenset([field.name for field in dataclasses.fields(HangLimits)]).union(_UNLIMITED)


class _Mark(NamedTuple):
  count: int
  phase: str
  what: str
  thread: int


_mark = _Mark(0, "", "", threading.main_thread().ident)


def progress(phase: str, what: str = "") -> None:
  """Marks that the calling thread has come to a point.

  Args:
    phase: a name of `HangLimits`; `data`, which has no limit here (`train.data_timeout` is its own); or "".
    what: the point in words, such as `step 120`.
  """
  global _mark
  if phase not in _PHASES:
    raise ValueError(f"no phase {phase!r}; there are {sorted(_PHASES)}")
  _mark = _Mark(_mark.count + 1, phase, what or phase, threading.get_ident())


@contextlib.contextmanager
def during(phase: str, what: str = "") -> Iterator[None]:
  """`progress` on the way in; on the way out, the phase that was before begins anew."""
  before = _mark
  progress(phase, what)
  try:
    yield
  finally:
    progress(before.phase, before.what)


@dataclasses.dataclass(frozen=True)
class State:
  """Where the marking thread of a process is.

  Attributes:
    count: of its marks so far.
    phase: of the last one.
    what: it said.
    seconds: since then.
    limit: of the phase, 0: none.
    waits: it waits for its devices or for another process.
    place: `FILE:LINE in FUNCTION`, where in the program it is; libraries are left out.
  """

  count: int = 0
  phase: str = ""
  what: str = ""
  seconds: float = 0.0
  limit: float = 0.0
  waits: bool = False
  place: str = ""

  @property
  def hangs(self) -> bool:
    """Whether the limit is passed."""
    return 0 < self.limit < self.seconds

  def describe(self, who: str) -> str:
    """A line on a process that hangs; `who` names it."""
    at = f", at {self.place}" if self.place else ""
    return (
      f"{who} has been in '{self.what}' for {self.seconds:.0f} s (HangLimits.{self.phase} is {self.limit:g}){at};"
      f" its stack is in its log; {_GOES_ON}"
    )

  def encode(self) -> str:
    """As text; `decode` reads it."""
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def decode(cls, text: str) -> "State":
    """What `encode` wrote."""
    return cls(**json.loads(text)) if text else cls()


class Watch:
  """Looks at the marks of this process every `BEAT` seconds.

  Args:
    limits: of the phases.
    clock: seconds.
  """

  def __init__(self, limits: HangLimits, clock: Callable[[], float] = time.monotonic):
    self._limits = dataclasses.asdict(limits)
    self._clock = clock
    self._last = clock()
    self._count, self._seconds = -1, 0.0

  def look(self) -> State:
    """The state now.

    Time in which this thread did not run either (the machine was suspended, the process stopped) counts as two beats
    at most.
    """
    mark, now = _mark, self._clock()
    self._seconds = self._seconds + min(now - self._last, 2 * BEAT) if mark.count == self._count else 0.0
    self._count, self._last = mark.count, now
    frame = sys._current_frames().get(mark.thread)
    return State(
      mark.count, mark.phase, mark.what, round(self._seconds, 1), self._limits.get(mark.phase, 0.0),
      _module(frame).startswith(_WAITS), _place(frame),
    )  # fmt: skip


def behind(states: Mapping[int, State]) -> list[int]:
  """The processes that the others wait for, by number.

  Those that do not wait for another themselves; where all do (a network or device that hangs), all count. Of these, the
  ones with the fewest marks: all processes pass the same points.
  """
  free = {number: state for number, state in states.items() if not state.waits} or states
  least = min(state.count for state in free.values())
  return [number for number, state in free.items() if state.count == least]


def write_stacks(why: str) -> None:
  """The stacks of all threads of this process, to its log."""
  print(f"xmcap: {terminal.shown(why, limit=None)}: the stacks of its threads", file=sys.stderr, flush=True)
  with contextlib.suppress(OSError, ValueError, AttributeError):  # no file descriptor, as under a test runner
    faulthandler.dump_traceback(sys.stderr, all_threads=True)


def end(code: int, line: str, seconds: float = 0.0) -> None:
  """Says the line and ends the process, from any thread; `seconds` later, for others to read what it left them."""
  kind = "to be started again" if code == RestartError.exit_code else "error"
  print(f"xmcap: {kind}: {terminal.shown(line, limit=None)}", file=sys.stderr, flush=True)
  sys.stdout.flush()
  time.sleep(seconds)
  os._exit(code)


@contextlib.contextmanager
def alone(limits: HangLimits) -> Iterator[None]:
  """Within it a run of one process is ended when it hangs."""
  watch, ended = Watch(limits), threading.Event()

  def work():
    while not ended.wait(BEAT):
      state = watch.look()
      if state.hangs and not ended.is_set():
        line = state.describe("this process")
        write_stacks(f"hangs in '{state.what}'")
        end(RestartError.exit_code, line)

  thread = threading.Thread(target=work, name="watch", daemon=True)
  thread.start()
  try:
    yield
  finally:
    ended.set()
    progress("")


def _module(frame: FrameType | None) -> str:
  return f"{frame.f_globals.get('__name__', '')}." if frame else ""


def _place(frame: FrameType | None) -> str:
  while frame and _module(frame).startswith(_LIBRARIES):
    frame = frame.f_back
  if not frame:
    return ""
  code = frame.f_code
  return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
