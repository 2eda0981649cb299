"""`Attempts`: how long, how often and with how many words a stumbling store is asked again."""

import random

import pytest

from xmcap.errors import RestartError
from xmcap.files import attempts


class Time:
  """A clock that only pauses move."""

  def __init__(self):
    self.now = 100.0

  def monotonic(self):
    return self.now

  def sleep(self, seconds):
    self.now += seconds


@pytest.fixture
def clock(monkeypatch):
  clock = Time()
  monkeypatch.setattr(attempts, "time", clock)
  return clock


@pytest.fixture
def lines(monkeypatch):
  lines: list[str] = []
  monkeypatch.setattr(attempts, "_warn", lines.append)
  return lines


def ask(clock, outage, is_down, seconds=600.0):
  """Asks until it is answered; returns when each attempt was."""
  times = []
  with attempts.Attempts(outage, "gs://bucket/x", seconds) as trying:
    while True:
      times.append(clock.now - 100)
      if not is_down(clock.now - 100):
        return times
      trying.failed("read", "503")


def test_an_outage_of_minutes_is_waited_for_and_said_once(clock, lines):
  outage = attempts.Outage("gs://bucket")
  times = ask(clock, outage, lambda now: now < 300)
  assert 300 <= times[-1] < 340
  assert lines[0] == "gs://bucket: 503: trying again for up to 600 s"
  assert lines[1:] == [
    f"gs://bucket: after {times[-1]:.0f} s no request waits; {len(times) - 1} were repeated"
  ]


def test_a_store_that_stays_away_ends_the_run_for_a_restart(clock, lines):
  with pytest.raises(
    RestartError, match=r"^gs://bucket/x cannot be read \(503; tried for 600 s\): check the network"
  ):
    ask(clock, attempts.Outage("gs://bucket"), lambda _: True)
  assert 100 + 600 - 32 < clock.now <= 700
  assert len(lines) == 2


def test_one_failed_attempt_is_not_worth_a_line(clock, lines):
  clock_starts = iter((True, False))
  assert len(ask(clock, attempts.Outage("gs://bucket"), lambda _: next(clock_starts))) == 2
  assert lines == []


def test_processes_come_back_at_different_times(clock, lines):
  """After an outage of a minute, 1,000 processes are spread over half a minute."""
  back = []
  for seed in range(1000):
    clock.now = 100.0
    random.seed(seed)
    back.append(ask(clock, attempts.Outage("gs://bucket"), lambda now: now < 60)[-1])
  in_second = [sum(second <= time < second + 1 for time in back) for second in range(60, 92)]
  assert sum(in_second) == 1000 and max(in_second) < 120


def test_outages_that_follow_each_other_are_not_said_each_time(clock, lines):
  outage = attempts.Outage("gs://bucket")
  for _ in range(5):
    begun = clock.now - 100
    ask(clock, outage, lambda now, begun=begun: now < begun + 8)
  assert 2 <= len(lines) <= 4
