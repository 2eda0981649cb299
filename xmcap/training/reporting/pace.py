"""How fast a run goes, and where its time goes."""

import time
from collections.abc import Callable

import numpy as np

BESIDE = ("evaluating", "saving", "compiling", "profiling")
"""What a run does beside training. The rates are of the time without it."""


class Pace:
  """The times of the steps since the last report, and the time that went elsewhere.

  Args:
    clock: seconds that never go back.
  """

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._since = self._last_done = clock()
    self._start_over(self._since)

  def _start_over(self, now: float) -> None:
    # The newest step was done a moment before the report; what lies between belongs to the next step.
    self._since = now
    self._steps: list[float] = []
    self._beside = dict.fromkeys(BESIDE, 0.0)
    self._waited = 0.0

  def step_done(self) -> None:
    """Notes that the device has done one more step by now."""
    now = self._clock()
    self._steps.append(now - self._last_done)
    self._last_done = now

  def waited(self, seconds: float) -> None:
    """Counts time in which the device had nothing to do for want of data."""
    self._waited += seconds

  def beside(self, what: str, seconds: float) -> None:
    """Takes time that was no training out of the rates and the step that it fell into; `what` is one of `BESIDE`."""
    self._beside[what] += seconds
    self._last_done += seconds

  def take(self) -> tuple[float, dict[str, float], dict[str, float]]:
    """What was measured since the last report; the next one starts from here.

    Returns:
      Seconds of training; the step's times in seconds (`step_seconds`, its mean, `step_seconds_p50`,
      `step_seconds_p95`) and `steps_per_second`; and the shares of all the time, `waiting_for_data` and those of
      `BESIDE`.
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
