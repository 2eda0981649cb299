"""`Watch`: phases of the main thread, and the process that is behind. Whole runs that hang: test_hang.py."""

import threading
import time

import jax
import numpy as np
import pytest

from xmcap.errors import UsageError
from xmcap.training.hosts import watch
from xmcap.training.hosts.watch import State


class Clock:
  now = 100.0

  def __call__(self):
    return self.now


@pytest.fixture
def clock():
  yield Clock()
  watch.progress("")


@pytest.fixture
def looking(clock):
  found = watch.Watch(watch.HangLimits(step=10), clock)

  def look(seconds=0.0):
    clock.now += seconds
    return found.look()

  return look


def test_watch_counts_seconds_from_the_first_look_at_a_mark(looking):
  watch.progress("step", "step 7")
  assert looking(3).seconds == 0
  assert [looking(3).seconds for _ in range(3)] == [3, 6, 9]
  assert not looking(1).hangs and looking(0.5).hangs
  watch.progress("step", "step 8")
  state = looking(3)
  assert (state.what, state.seconds, state.limit, state.hangs) == ("step 8", 0, 10, False)


def test_watch_ignores_time_of_a_suspended_process(looking):
  watch.progress("step")
  looking()
  assert looking(3600).seconds == 2 * watch.BEAT


@pytest.mark.parametrize("phase", ["data", ""])
def test_data_and_unnamed_phases_never_hang(looking, phase):
  watch.progress(phase)
  looking()
  assert not any(looking(5).hangs for _ in range(1000))


def test_hang_limit_of_0_never_hangs(clock):
  found = watch.Watch(watch.HangLimits(evaluation=0), clock)
  watch.progress("evaluation")
  found.look()
  clock.now += 5
  assert not found.look().hangs


def test_watch_during_restarts_the_outer_phase(looking):
  watch.progress("step", "step 7")
  looking()
  looking(5)
  with watch.during("checkpoint", "checkpoint 7"):
    assert (looking(1).what, looking(0).limit) == ("checkpoint 7", watch.HangLimits().checkpoint)
  assert (looking(5).what, looking(0).seconds) == ("step 7", 0)


def test_watch_location_is_the_innermost_frame_of_the_package(looking):
  def here():
    watch.progress("step")
    return looking()

  state = here()
  assert not state.waits and state.location.startswith("watch.py:"), "the innermost frame of the package"


def test_negative_hang_limits_are_refused():
  with pytest.raises(UsageError, match=r"HangLimits.step is -1"):
    watch.HangLimits(step=-1)


def test_hang_message_names_limit_and_location():
  state = State(3, "evaluation", "batch 7 of loss", 901.2, 900, False, "a.py:1 in f")
  assert state.describe("process 1 (w-1)") == (
    "process 1 (w-1) has been in 'batch 7 of loss' for 901 s (HangLimits.evaluation is 900), at a.py:1 in f; its stack"
    " is in its log; start the run again to resume from its newest checkpoint"
  )


# ---- who is behind --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
  "states, expected",
  [
    ({0: State(7, waits=True), 1: State(7)}, [1]),  # one waits for the other in the same batch
    ({0: State(9, waits=True), 1: State(7)}, [1]),  # the steps of the one that waits are queued
    ({0: State(7, waits=True), 1: State(9)}, [1]),
    ({0: State(7, waits=True), 1: State(7, waits=True)}, [0, 1]),  # the network
    ({0: State(8, waits=True), 1: State(7, waits=True)}, [1]),  # a device
    ({0: State(8), 1: State(7), 2: State(7), 3: State(6, waits=True)}, [1, 2]),
  ],
)
def test_behind_finds_the_process_that_others_wait_for(states, expected):
  assert watch.behind(states) == expected


def test_watch_tells_waiting_for_a_device_from_host_work(looking):
  go, seen = threading.Event(), []

  def slow(x):
    go.wait(120)
    return x

  def look():
    deadline = time.monotonic() + 120
    while not seen or (not seen[-1].waits and time.monotonic() < deadline):
      seen.append(looking())
    go.set()

  watch.progress("step", "step 1")
  assert not looking().waits
  looker = threading.Thread(target=look)
  looker.start()
  result = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((), np.float32), x))(np.float32(1))
  jax.block_until_ready(result)
  looker.join()
  assert seen[-1].waits and seen[-1].location.startswith("test_watch.py:"), seen[-1]
