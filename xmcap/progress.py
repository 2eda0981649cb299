"""Progress lines: how much is done, at what rate, and how long the rest will take."""

import time
from collections.abc import Callable

Say = Callable[[str], None]
_SECONDS_BETWEEN = 2.0


class Progress:
  """Reports the amount done, the rate and the time left, every two seconds at most.

  It is called with the number of units done so far; `unit` is such as `bytes`. The rate, and so the time left, leaves
  out the first call, whose work was slower than the rest, because it compiles or starts workers, or an earlier run's.
  """

  def __init__(self, say: Say, label: str, total: int, unit: str = ""):
    self._say, self._label, self._total, self._unit = say, label, total, unit
    self._said = time.monotonic()
    self._first: tuple[float, int] | None = None  # when the first call was, and what was done then

  def __call__(self, done: int) -> None:
    now = time.monotonic()
    if self._first is None:
      self._first = now, done
    if now - self._said < _SECONDS_BETWEEN and done < self._total:
      return
    self._said = now
    scale, unit = (1e6, " MB") if self._unit == "bytes" else (1, "")
    began, before = self._first
    rate = (done - before) / max(now - began, 1e-9)
    line = f"{self._label}: {done / scale:,.0f} of {self._total / scale:,.0f}{unit}"
    if rate > 0 and done < self._total:
      line += f", {rate / scale:,.1f}{unit} a second, {duration((self._total - done) / rate)} left"
    self._say(line)


def duration(seconds: float) -> str:
  """Returns such as `2 min 5 s`."""
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
