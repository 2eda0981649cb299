import pytest

from xmcap.training.metrics import Pace


class Clock:
  def __init__(self):
    self.now = 100.0

  def __call__(self):
    return self.now


@pytest.fixture
def clock():
  return Clock()


@pytest.fixture
def pace(clock):
  return Pace(clock)


def steps(pace, clock, seconds):
  for each in seconds:
    clock.now += each
    pace.step_done()


def test_pace_step_seconds_and_percentiles(pace, clock):
  steps(pace, clock, [1.0] * 19 + [3.0])
  training, speed, _ = pace.take()
  assert training == pytest.approx(22)
  assert speed["step_seconds"] == pytest.approx(1.1) and speed["steps_per_second"] == pytest.approx(1 / 1.1)
  assert speed["step_seconds_p50"] == pytest.approx(1) and 1 < speed["step_seconds_p95"] <= 3


def test_pace_excludes_evaluating_from_step_times(pace, clock):
  steps(pace, clock, [1.0])
  clock.now += 5
  pace.beside("evaluating", 5)
  steps(pace, clock, [1.0])
  training, speed, shares = pace.take()
  assert training == pytest.approx(2) and speed["step_seconds_p95"] == pytest.approx(1)
  assert shares["evaluating"] == pytest.approx(5 / 7) and shares["saving"] == 0


def test_pace_waiting_for_data_is_a_share_within_the_step(pace, clock):
  pace.waited(2)
  steps(pace, clock, [4.0])
  training, speed, shares = pace.take()
  assert shares["waiting_for_data"] == pytest.approx(0.5) and speed["step_seconds"] == pytest.approx(4)


def test_pace_take_restarts_without_losing_time(pace, clock):
  steps(pace, clock, [1.0])
  clock.now += 0.25
  pace.take()
  clock.now += 2
  pace.beside("saving", 2)
  steps(pace, clock, [1.0])
  training, speed, shares = pace.take()
  assert training == pytest.approx(1) and shares["saving"] == pytest.approx(2 / 3)
  # What was done between the step's end and the report belongs to the next step.
  assert speed["step_seconds_p50"] == pytest.approx(1.25)
