import pytest

from xmcap.errors import UsageError
from xmcap.training.schedule import ConstantThenRsqrt, WarmupThenHalving


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
  schedule = WarmupThenHalving(learning_rate=1.0, warmup_steps=2, halve_every=3)
  assert [float(schedule(step, 100)) for step in range(9)] == [0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]
  assert float(WarmupThenHalving(2.0, 0, 10)(0, 1)) == 2
  with pytest.raises(UsageError, match="halve_every=0.*give a learning_rate"):
    WarmupThenHalving(halve_every=0)
