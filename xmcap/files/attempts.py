"""Tries requests to a store again while it stumbles: for minutes, at random times, and said once."""

import logging
import random
import threading
import time

from xmcap.errors import RestartError

_FIRST_PAUSE = 0.5  # seconds; the longest pause doubles after each attempt
_LONGEST_PAUSE = 32.0
_SAID_AFTER = 2.0  # seconds of an outage; most are over by then
_BETWEEN = 60.0  # seconds between two lines about one store

_is_silent = False


def silence() -> None:
  """Leaves it to another process of this host to say that a store stumbles."""
  global _is_silent
  _is_silent = True


class Outage:
  """What the requests of this process to one store wait for; safe across threads."""

  def __init__(self, store: str):
    self._store = store
    self._lock = threading.Lock()
    self._waiting = 0  # requests that are being tried again
    self._began = 0.0
    self._repeated = 0  # attempts that failed since then
    self._said: float | None = None

  def failed(self, reason: str, seconds: float) -> None:
    """Counts a failed attempt, and says once that there will be others for so many seconds."""
    now = time.monotonic()
    with self._lock:
      self._repeated += 1
      is_new = self._said is None or (self._said < self._began and now - self._said > _BETWEEN)
      if now - self._began < _SAID_AFTER or not is_new:
        return
      self._said = now
    _warn(f"{self._store}: {reason}: trying again for up to {seconds:.0f} s")

  def begin(self) -> None:
    """Counts a request that has failed."""
    with self._lock:
      if not self._waiting:
        self._began, self._repeated = time.monotonic(), 0
      self._waiting += 1

  def end(self) -> None:
    """Counts that it succeeded or was given up; with the last one the outage is over."""
    with self._lock:
      self._waiting -= 1
      is_over = not self._waiting and self._said is not None and self._said >= self._began
      seconds, repeated = time.monotonic() - self._began, self._repeated
    if is_over:
      _warn(f"{self._store}: after {seconds:.0f} s no request waits; {repeated} were repeated")


class Attempts:
  """The attempts of one request.

  Args:
    outage: of the store that is asked.
    address: what is asked for, for messages.
    seconds: how long it is tried again.
  """

  def __init__(self, outage: Outage, address: str, seconds: float):
    self._outage, self._address, self._seconds = outage, address, seconds
    self._end = time.monotonic() + seconds
    self._longest = _FIRST_PAUSE
    self._has_failed = False

  def __enter__(self) -> "Attempts":
    return self

  def __exit__(self, *_: object) -> None:
    if self._has_failed:
      self._outage.end()

  def failed(self, done: str, reason: str) -> None:
    """Waits until the next attempt; `done` says what the object could not be, such as `read`.

    RestartError if the time is over.
    """
    if not self._has_failed:
      self._outage.begin()
      self._has_failed = True
    # Any time up to the longest: all hosts began to wait at the same moment, and must not come back at one.
    pause = random.uniform(0, self._longest)
    self._longest = min(2 * self._longest, _LONGEST_PAUSE)
    if time.monotonic() + pause > self._end:
      raise RestartError(
        f"{self._address} cannot be {done} ({reason}; tried for {self._seconds:g} s): check the network and the store, "
        "then start again, or raise ObjectStore.seconds"
      )
    self._outage.failed(reason, self._seconds)
    time.sleep(pause)


def _warn(line: str) -> None:
  if not _is_silent:
    logging.getLogger(__name__).warning("%s", line)
