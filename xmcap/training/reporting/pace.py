"""Measures how fast a run goes, and where its time goes."""

import time
from collections.abc import Callable

import numpy as np

BESIDE = ("evaluating", "saving", "compiling", "profiling")
"""What a run does beside training; the rates leave this time out."""


class Pace:
  """The times of the steps since the last report, and the time that went elsewhere."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._since = self._last_done = clock()
    self._start_over(self._since)

  def _start_over(self, now: float) -> None:
    # `_last_done` stays: the time between the last step and the report belongs to the next step.
    self._since = now
    self._steps: list[float] = []
    self._beside = dict.fromkeys(BESIDE, 0.0)
    self._waited = 0.0

  def step_done(self) -> None:
    """Notes that the device has finished one more step."""
    now = self._clock()
    self._steps.append(now - self._last_done)
    self._last_done = now

  def waited(self, seconds: float) -> None:
    """Counts time in which the device was idle for want of data."""
    self._waited += seconds

  def beside(self, what: str, seconds: float) -> None:
    """Takes the time of one of `BESIDE` out of the rates and out of the step that it fell into."""
    self._beside[what] += seconds
    self._last_done += seconds

  def take(self) -> tuple[float, dict[str, float], dict[str, float]]:
    """Returns what was measured since the last report, and starts over.

    Returns:
      Seconds of training; `steps_per_second` and the mean, median and 95th percentile of a step's seconds by name;
      and the shares of the whole time that were `waiting_for_data` or one of `BESIDE`.
    """
    now = self._clock()
    whole = max(now - self._since, 1e-9)
    training = max(whole - sum(self._beside.values()), 1e-9)
    steps = self._steps or [training]
    p50, p95 = np.percentile(steps, (50, 95))
    speed = {
      "step_seconds": training / len(steps),
      "step_seconds_p50": float(p50),
      "step_seconds_p95": float(p95),
      "steps_per_second": len(steps) / training,
    }
    shares = {"waiting_for_data": min(1.0, self._waited / whole)}
    shares.update({what: seconds / whole for what, seconds in self._beside.items()})
    self._start_over(now)
    return training, speed, shares
