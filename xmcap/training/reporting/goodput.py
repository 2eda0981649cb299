"""Goodput: the share of a run's wall time, over all its starts, that went into steps which count.

The kinds of time follow the "badput" of Google's ML Goodput Measurement
(https://github.com/AI-Hypercomputer/ml-goodput-measurement); docs/training.md compares them. Each line of
`metrics.jsonl` holds the shares so far, so a start needs only that file to go on counting, however the last one ended.
Needs neither jax nor tensorflow.
"""

import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmcap.errors import one_line
from xmcap.training.reporting import metrics_file

KINDS = {
  "steps": "steps that count",
  "lost": "steps after the checkpoint from which a later start resumed",
  "down": "between the last line of a start and the next start",
  "starting": "imports, joining the hosts, the first batch, shapes",
  "restoring": "reading or making the state",
  "compiling": "compiling steps",
  "waiting_for_data": "devices idle for want of a batch",
  "evaluating": "evaluators",
  "saving": "steps held up by a checkpoint",
  "profiling": "traces",
}
"""Kind of time -> what it holds. The kinds exclude each other, and their shares sum to 1."""

SECONDS = "goodput/seconds"
"""Name of a run's wall time since its first start."""


class Goodput:
  """Counts the seconds of a run by kind, over all its starts.

  What nothing claims belongs to the phase that the run is in: `starting`, `restoring` or `steps`. A step costs two
  additions. `launched` is when this start began, in seconds since 1970; None: now.
  """

  def __init__(
    self,
    launched: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
  ):
    age = 0.0 if launched is None else max(0.0, now() - launched)
    self._launched = now() - age
    self._clock = clock
    self._phase = "starting"
    self._since, self._claimed = clock() - age, 0.0
    self.seconds = dict.fromkeys(KINDS, 0.0)

  def resume(self, model_dir: str | os.PathLike, step: int, say: Callable[[str], None]) -> None:
    """Adds what the earlier starts of the run took, at a start from `step`; a file that cannot be read is reported."""
    try:
      rows = [row for row in metrics_file.read(model_dir) if row is not None]
    except Exception as error:  # object stores raise many types
      say(f"goodput counts from this start, because the earlier ones cannot be read: {one_line(error)}")
      return
    for kind, seconds in carried(rows, step, self._launched).items():
      self.seconds[kind] += seconds

  def phase(self, kind: str) -> None:
    """Ends the current phase and begins another."""
    self._close()
    self._phase = kind

  def spend(self, kind: str, seconds: float) -> None:
    """Claims seconds of the current phase for another kind."""
    self.seconds[kind] += seconds
    self._claimed += seconds

  def shares(self) -> dict[str, float]:
    """Returns `goodput/KIND`, shares that sum to 1, and `goodput/seconds`, the time since the run's first start."""
    self._close()
    whole = sum(self.seconds.values())
    shares = {f"goodput/{kind}": seconds / (whole or 1.0) for kind, seconds in self.seconds.items()}
    return {SECONDS: whole, **shares}

  def _close(self) -> None:
    now = self._clock()
    # May be negative, if a line was written in the midst of what is claimed later; so the sum is always the wall time.
    self.seconds[self._phase] += now - self._since - self._claimed
    self._since, self._claimed = now, 0.0


def carried(rows: Sequence[Mapping[str, Any]], step: int, launched: float) -> dict[str, float]:
  """Returns the seconds by kind of all earlier starts, for a start from `step` at time `launched`.

  `rows` are the lines of `metrics.jsonl`, in their order. Steps after `step` were lost. The time since the last line is
  down time, unless the run had finished. What a killed start did after its last line is not known, and counts as down.
  """
  counted = [row for row in rows if metrics_file.is_number(row.get(SECONDS))]
  if not counted:
    return {}
  seconds = _seconds(counted[-1])
  # Lines follow each other in time, so the last one at or before `step` is of the history that is resumed.
  kept = next((_seconds(row)["steps"] for row in reversed(counted) if row["step"] <= step), 0.0)
  lost = max(0.0, seconds["steps"] - kept)
  seconds["steps"] -= lost
  seconds["lost"] += lost
  if rows[-1].get("event") != "finished":
    seconds["down"] += max(0.0, launched - counted[-1]["time"])
  return seconds


def _seconds(row: Mapping[str, Any]) -> dict[str, float]:
  shares = {kind: row.get(f"goodput/{kind}") for kind in KINDS}
  return {
    kind: row[SECONDS] * share if metrics_file.is_number(share) else 0.0 for kind, share in shares.items()
  }


def process_start() -> float:
  """When this process began, in seconds since 1970; now, where the system does not tell."""
  try:
    # The 22nd field; the second is the program's name in brackets, which may hold anything.
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
  except (OSError, ValueError, IndexError, AttributeError):
    age = 0.0
  return time.time() - max(0.0, age)
