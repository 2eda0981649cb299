"""The progress of a piece of work, in lines of text."""

import time
from collections.abc import Callable

Say = Callable[[str], None]
_SECONDS_BETWEEN = 2.0


class Progress:
  """Says now and then how much of a piece of work is done, how fast it goes and how long it will take.

  Called with the units done. With a `unit`, such as `bytes`, the first call does not count for the rate: it reports
  what an earlier run has done.
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
