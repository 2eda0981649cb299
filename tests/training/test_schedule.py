import json
import pathlib

import numpy as np
import optax
import pytest

from xmcap.errors import UsageError
from xmcap.training.schedule import (
  ConstantThenRsqrt,
  WarmupCosine,
  WarmupStableDecay,
  WarmupStepDecay,
)

GOLDENS = json.loads((pathlib.Path(__file__).parent / "goldens/schedules.json").read_text())
"""The rates of transformers' schedules at the steps 0 to 20 of 20; `.ci/goldens.py` says how they are made."""
COSINE, COSINE_TO = "get_cosine_schedule_with_warmup", "get_cosine_with_min_lr_schedule_with_warmup"


def test_constant_then_rsqrt():
  schedule = ConstantThenRsqrt(learning_rate=3e-4, constant_steps=100)
  assert float(schedule(0, 1000)) == pytest.approx(3e-4)
  assert float(schedule(100, 1000)) == pytest.approx(3e-4)
  assert float(schedule(400, 1000)) == pytest.approx(1.5e-4)


def test_constant_then_rsqrt_without_constant_steps_never_decays():
  assert float(ConstantThenRsqrt(learning_rate=3e-5, constant_steps=None)(10**6, 10**7)) == pytest.approx(
    3e-5
  )


def test_constant_then_rsqrt_warmup():
  schedule = ConstantThenRsqrt(learning_rate=1.0, warmup_steps=4)
  assert [float(schedule(step, 100)) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_constant_then_rsqrt_cooldown():
  schedule = ConstantThenRsqrt(learning_rate=1.0, cooldown_steps=4)
  assert [float(schedule(step, 10)) for step in (5, 6, 7, 8, 9, 10)] == [1, 1, 0.75, 0.5, 0.25, 0]


def test_constant_then_rsqrt_refuses_negative_numbers():
  with pytest.raises(UsageError, match="ConstantThenRsqrt.warmup_steps is -1"):
    ConstantThenRsqrt(warmup_steps=-1)


def test_warm_up_then_halving():
  schedule = WarmupStepDecay(learning_rate=1.0, warmup_steps=2, every=3)
  assert [float(schedule(step, 100)) for step in range(9)] == [0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]
  assert float(WarmupStepDecay(2.0, 0)(0, 1)) == 2
  drafts = WarmupStepDecay()  # section 3.3 and Table 4 of the draft
  assert [float(drafts(step, 0)) for step in (7_999, 15_999, 165_999, 166_000, 316_000)] == pytest.approx(
    [0.5e-4, 1e-4, 1e-4, 0.5e-4, 0.25e-4]
  )


def test_step_decay_equals_optax():
  ours = WarmupStepDecay(5e-4, warmup_steps=0, factor=0.8, every=3)
  theirs = optax.exponential_decay(5e-4, 3, 0.8, staircase=True)
  np.testing.assert_allclose([ours(n, 20) for n in range(20)], [theirs(n) for n in range(20)], rtol=1e-6)
  with pytest.raises(UsageError, match="every is 0: give a number of at least 1"):
    WarmupStepDecay(every=0)


def rates(schedule, total=20):
  return [float(schedule(step, total)) for step in range(total + 1)]


@pytest.mark.parametrize("name, ratio", [(COSINE, 0.0), (COSINE_TO, 0.1)])
def test_warmup_cosine_equals_transformers_5_23_and_optax(name, ratio):
  made = rates(WarmupCosine(learning_rate=1.0, warmup_steps=4, final_ratio=ratio))
  np.testing.assert_allclose(made, GOLDENS[name]["rates"], atol=1e-6)
  of_optax = optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 20, ratio)
  np.testing.assert_allclose(made, [of_optax(step) for step in range(21)], atol=1e-6)


@pytest.mark.parametrize("golden", GOLDENS["get_wsd_schedule"])
@pytest.mark.parametrize("decay", [8, 0.4])
def test_warmup_stable_decay_equals_transformers_5_23(golden, decay):
  arguments = golden["arguments"]
  shape, ratio = arguments["decay_type"], arguments["min_lr_ratio"]
  made = rates(WarmupStableDecay(1.0, 4, decay, shape, ratio))
  # transformers begins the warm-up at the final rate.
  first = 4 if ratio else 0
  np.testing.assert_allclose(made[first:], golden["rates"][first:], atol=1e-6)
  assert made[0] == 0


def test_warmup_stable_decay_equals_optaxs_joined_lines():
  lines = [
    optax.linear_schedule(0, 3e-4, 4),
    optax.constant_schedule(3e-4),
    optax.linear_schedule(3e-4, 0, 8),
  ]
  joined = optax.join_schedules(lines, [4, 12])
  made = rates(WarmupStableDecay(3e-4, 4, 8))
  np.testing.assert_allclose(made, [joined(step) for step in range(21)], rtol=1e-6)


def test_schedules_without_warmup_begin_at_the_peak_and_without_decay_stay_there():
  assert rates(WarmupCosine(0.5))[0] == 0.5
  assert rates(WarmupStableDecay(0.5, decay=0)) == [0.5] * 21
  # A run of a few steps still decays.
  assert rates(WarmupStableDecay(0.5, decay=0.01), 3) == [0.5, 0.5, 0.5, 0]


@pytest.mark.parametrize(
  "make, message",
  [(lambda: WarmupCosine(learning_rate=-1), "WarmupCosine.learning_rate is -1: give a number of at least 0"),
   (lambda: WarmupCosine(learning_rate=float("nan")), "learning_rate is nan"),
   (lambda: WarmupCosine(warmup_steps="many"), "warmup_steps is 'many'"),
   (lambda: ConstantThenRsqrt(constant_steps="many"), "ConstantThenRsqrt.constant_steps is 'many'"),
   (lambda: WarmupCosine(final_ratio=1.5), "final_ratio is 1.5: give a number from 0 to 1"),
   (lambda: WarmupStableDecay(decay=-2), "WarmupStableDecay.decay is -2"),
   (lambda: WarmupStableDecay(decay=1000.0), "decay is 1000.0: give a whole number of steps"),
   (lambda: WarmupStableDecay(decay=None), "decay is None"),
   (lambda: WarmupStableDecay(shape="square"), "shape is 'square': give one of linear, cosine, 1-sqrt"),
   (lambda: WarmupCosine(warmup_steps=20)(0, 20), r"Cosine.warmup_steps \(20\): too long for the run of 20 steps"),
   (lambda: WarmupStableDecay(1, 5, 16)(0, 20), r"\(5\) and .*decay \(16\): too long for the run of 20"),
   (lambda: WarmupStableDecay(decay=21)(0, 20), r"^WarmupStableDecay.decay \(21\): too long for the run")],
)  # fmt: skip
def test_impossible_phases_of_a_schedule_are_refused(make, message):
  with pytest.raises(UsageError, match=message):
    make()
