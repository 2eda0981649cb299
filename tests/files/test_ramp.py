"""`Ramp`: how many requests a second a process sends, with a clock that only pauses move."""

import pytest

from tests.files.test_attempts import Time
from xmcap.files import ramp
from xmcap.files.ramp import Ramp

DOUBLING = 1200.0


@pytest.fixture
def clock(monkeypatch):
  clock = Time()
  monkeypatch.setattr(ramp, "time", clock)
  return clock


def sent(clock, limit: Ramp, seconds: float, capacity: float = float("inf"), every: float = 0.0) -> list[int]:
  """Requests of each second that a store of `capacity` a second answers; one each `every` seconds is asked for."""
  begin, numbers = clock.now, [0] * int(seconds)
  refused = 0
  while True:
    limit.wait()
    second = int(clock.now - begin)
    if second >= seconds:
      return [*numbers, refused]
    if numbers[second] < capacity:
      numbers[second] += 1
      limit.answered()
    else:
      refused += 1
      limit.refused()
    clock.now += every


def test_requests_double_in_twenty_minutes_and_not_earlier(clock):
  *numbers, _ = sent(clock, Ramp(10, DOUBLING), 2400)
  assert numbers[1] == pytest.approx(10, abs=1)
  assert sum(numbers[1190:1200]) == pytest.approx(200, abs=5)
  assert sum(numbers[2390:2400]) == pytest.approx(400, abs=8)


def test_a_rate_that_is_not_used_does_not_grow(clock):
  limit = Ramp(10, DOUBLING)
  sent(clock, limit, 2400, every=0.5)
  assert limit.rate == 10


@pytest.mark.parametrize("rate, at_once", [(2, 1), (10, 1), (1000, 100)])
def test_a_burst_is_what_a_tenth_of_a_second_left_over(clock, rate, at_once):
  limit = Ramp(rate, DOUBLING)
  clock.now += 60
  *numbers, _ = sent(clock, limit, 2)
  assert numbers[0] == pytest.approx(rate + at_once, abs=1) and numbers[1] == pytest.approx(rate, abs=1)


def test_a_store_that_refuses_gets_fewer_and_is_then_used_well(clock):
  """From 100 a second to 40: after a few seconds few requests are refused, and most of what it takes is sent."""
  limit = Ramp(100, DOUBLING)
  sent(clock, limit, 10, capacity=40)
  *numbers, refused = sent(clock, limit, 1200, capacity=40)
  assert 0.75 * 40 < sum(numbers) / 1200 <= 40
  assert refused / sum(numbers) < 0.01


def test_an_outage_counts_once(clock):
  limit = Ramp(100, DOUBLING)
  sent(clock, limit, 20)
  before = limit.rate
  for _ in range(15):
    clock.now += 1.1
    limit.refused()
  assert limit.rate > 0.5 * before


def test_a_store_that_refuses_all_but_little_is_still_asked(clock):
  limit = Ramp(16, DOUBLING)
  for _ in range(100):
    limit.answered()
    clock.now += 1.1
    limit.refused()
  assert limit.rate == 1


def test_a_rate_of_0_is_no_limit(clock):
  limit = Ramp(0, DOUBLING)
  for _ in range(1000):
    limit.wait()
  assert clock.now == 100
