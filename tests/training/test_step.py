import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.toy import HIDDEN, WIDTH, ToyObjective, ToyStream
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.schedule import ConstantThenRsqrt
from xmcap.training.step import create_state, make_train_step, split

OPTIMIZER = Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None))


class NoDropout(ToyObjective):
  def loss(self, params, batch, rng, deterministic):
    return super().loss(params, batch, rng, True)


TOY = ToyStream()


def numbers(step, stream=TOY):
  return {name: jnp.asarray(array) for name, array in stream.batch(step).items() if name != "key"}


def start(objective):
  return create_state(objective.init(jax.random.key(0), numbers(0))["params"], OPTIMIZER)


def assert_equal(a, b, **tolerance):
  check = (
    (lambda x, y: np.testing.assert_allclose(x, y, **tolerance))
    if tolerance
    else np.testing.assert_array_equal
  )
  jax.tree.map(check, a, b)


def test_train_step_lowers_the_loss():
  objective = ToyObjective()
  step, state = jax.jit(make_train_step(objective, OPTIMIZER, 200)), start(objective)
  losses = []
  for i in range(150):
    state, metrics = step(state, numbers(i))
    losses.append(float(metrics["loss"]))
  assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
  assert int(state.step) == 150 and metrics["learning_rate"] == pytest.approx(1e-2)


@pytest.mark.parametrize("parts", [2, 8])
def test_microbatches_give_the_update_of_the_whole_batch(parts):
  objective = NoDropout()
  whole, metrics = jax.jit(make_train_step(objective, OPTIMIZER, 10))(start(objective), numbers(0))
  cut, cut_metrics = jax.jit(make_train_step(objective, OPTIMIZER, 10, microbatches=parts))(
    start(objective), numbers(0)
  )
  assert_equal(cut.params, whole.params, atol=1e-6)
  assert_equal(cut_metrics, metrics, rtol=1e-5)


def test_microbatches_hold_every_row_once():
  rows = np.asarray(split(jnp.arange(12), 3))
  assert rows.tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


def test_dropout_follows_the_step_and_the_seed():
  objective = ToyObjective()
  state = start(objective)

  steps = {seed: jax.jit(make_train_step(objective, OPTIMIZER, 10, seed)) for seed in (0, 1)}

  def loss(seed, at):
    return float(steps[seed](state.replace(step=jnp.int32(at)), numbers(0))[1]["loss"])

  assert loss(0, 3) == loss(0, 3)
  assert len({loss(0, 3), loss(0, 4), loss(1, 3)}) == 3


def test_non_finite_step_changes_nothing_and_is_counted():
  objective = ToyObjective()
  step, state = jax.jit(make_train_step(objective, OPTIMIZER, 10)), start(objective)
  bad = numbers(0, ToyStream(bad_steps=[0]))
  after, metrics = step(step(state, bad)[0], bad)
  assert_equal(after.params, state.params)
  assert_equal(after.opt_state, state.opt_state)
  assert (int(after.step), int(after.skipped), int(after.skipped_in_a_row)) == (2, 2, 2)
  assert metrics["skipped"] == 2
  good, _ = step(after, numbers(2))
  assert (int(good.skipped), int(good.skipped_in_a_row)) == (2, 0)
  assert not np.array_equal(good.params["wi"], state.params["wi"])


def test_frozen_parameters_stay_and_the_others_learn():
  optimizer = dataclasses.replace(OPTIMIZER, frozen=("^wi$",))
  state = create_state(start(ToyObjective()).params, optimizer)
  after, metrics = jax.jit(make_train_step(ToyObjective(), optimizer, 10))(state, numbers(0))
  np.testing.assert_array_equal(after.params["wi"], state.params["wi"])
  assert not np.array_equal(after.params["wo"], state.params["wo"]) and metrics["grad_norm"] > 0
  assert all(leaf.shape != state.params["wi"].shape for leaf in jax.tree.leaves(after.opt_state))


def test_frozen_parameters_compute_no_gradient():
  def flops(frozen):
    optimizer = dataclasses.replace(OPTIMIZER, frozen=frozen)
    state = create_state(start(ToyObjective()).params, optimizer)
    step = jax.jit(make_train_step(ToyObjective(), optimizer, 10)).lower(state, numbers(0)).compile()
    return step.cost_analysis()["flops"]

  # The gradient by `wi` is a product as large as the one with `wi` itself.
  assert flops(("^wi$",)) < flops(()) - 2 * 32 * WIDTH * HIDDEN
