"""How many requests a second this process sends to a store: few at first, and more while the store answers them.

A bucket of Cloud Storage takes about 5,000 reads a second at first. To go beyond, one should not double them in less
than 20 minutes (https://cloud.google.com/storage/docs/request-rate).
"""

import threading
import time

PUBLISHED = 5_000
"""Reads a second that a bucket of Cloud Storage takes at first."""

_BACK = 0.7  # of the rate that was refused
_LEAST = 1 / 16  # of the first rate
_BURST = 0.1  # seconds: what was not sent in them may be sent at once, or a request
_MEASURED = 10.0  # seconds over which the rate of this process is measured

_sharing = 1


def share(processes: int) -> None:
  """Says that so many processes read from the stores as this one does."""
  global _sharing
  _sharing = processes


def sharing() -> int:
  """The number of processes that share a store with this one, itself included."""
  return _sharing


class Ramp:
  """The requests of this process to one store; safe across threads.

  Args:
    rate: requests a second at first; 0: any number.
    doubling: seconds after which there may be twice as many, as long as they are sent.
  """

  def __init__(self, rate: float, doubling: float):
    self.rate = rate
    self._least = rate * _LEAST
    self._doubling = doubling
    self._lock = threading.Lock()
    self._due = self._last = self._since = time.monotonic()
    self._sent = 0.0
    self._back = float("-inf")
    self._has_answered = True

  def wait(self) -> None:
    """Waits until the next request may be sent."""
    if not self.rate:
      return
    with self._lock:
      now = time.monotonic()
      self._due = max(self._due, now - max(_BURST, 1 / self.rate)) + 1 / self.rate
      pause = self._due - now
      if pause > 0:  # more would be sent if they might
        self.rate *= 2 ** ((now - self._last) / self._doubling)
      self._last = now
      self._sent += 1
      if now - self._since > _MEASURED:
        self._sent, self._since = self._sent / 2, (self._since + now) / 2
    if pause > 0:
      time.sleep(pause)

  def answered(self) -> None:
    """Says that the store answered."""
    self._has_answered = True

  def refused(self) -> None:
    """Says that the store refused a request for the number of them: there are fewer from now on.

    Refusals of the same second count once, and so does an outage, in which nothing is answered.
    """
    with self._lock:
      now = time.monotonic()
      if not self.rate or not self._has_answered or now - self._back < 1:
        return
      measured = self._sent / max(now - self._since, 1.0)
      self.rate = max(self._least, _BACK * min(self.rate, measured))
      self._due = max(self._due, now)
      self._back, self._has_answered = now, False
