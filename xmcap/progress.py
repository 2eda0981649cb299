"""Progress lines: how much is done, at what rate, and how long the rest will take."""

import time
from collections.abc import Callable

Say = Callable[[str], None]
_SECONDS_BETWEEN = 2.0


class Progress:
  """Reports the amount done, the rate and the time left, every two seconds at most.

  It is called with the number of units done so far. With a `unit`, such as `bytes`, the rate leaves out the first call,
  which reports the work of an earlier run.
  """

  def __init__(self, say: Say, what: str, total: int, unit: str = ""):
    self._say, self._what, self._total, self._unit = say, what, total, unit
    self._began = self._said = time.monotonic()
    self._before: int | None = None

  def __call__(self, done: int) -> None:
    now = time.monotonic()
    if self._before is None:
      self._before = done if self._unit else 0
    if now - self._said < _SECONDS_BETWEEN and done < self._total:
      return
    self._said = now
    scale, unit = (1e6, " MB") if self._unit == "bytes" else (1, "")
    rate = (done - self._before) / max(now - self._began, 1e-9)
    line = f"{self._what}: {done / scale:,.0f} of {self._total / scale:,.0f}{unit}"
    if rate > 0 and done < self._total:
      line += f", {rate / scale:,.1f}{unit} a second, {_duration((self._total - done) / rate)} left"
    self._say(line)


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
