import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from xmcap.errors import UsageError
from xmcap.training.optimizer import Optimizer, adafactor, adam, global_norm, multiplier_tree
from xmcap.training.schedule import ConstantThenRsqrt

PARAMS = {
  "vit": {"kernel": jnp.ones((4, 3)), "bias": jnp.ones(3)},
  "decoder": {"kernel": jnp.full((3, 2), 2.0)},
}
RATE = ConstantThenRsqrt(learning_rate=0.1, constant_steps=None)


def grads_like(params, scale=1.0):
  return jax.tree.map(
    lambda x: scale * jnp.asarray(np.random.default_rng(x.size).normal(size=x.shape), jnp.float32), params
  )


def run(optimizer, params, grads, steps=3):
  state = optimizer.init(params)
  for step in range(steps):
    params, state, _ = optimizer.update(grads, state, params, step, steps)
  return params


def run_optax(rule, params, grads, steps=3):
  state = rule.init(params)
  for _ in range(steps):
    updates, state = rule.update(grads, state, params)
    params = optax.apply_updates(params, updates)
  return params


@pytest.mark.parametrize(
  "rule, reference",
  [(adam, optax.adam(0.1)), (lambda: adam(weight_decay=0.1), optax.adamw(0.1, weight_decay=0.1)),
   (adafactor, optax.adafactor(0.1)), (lambda: adafactor(min_dim_size_to_factor=2), optax.adafactor(0.1, 2))],
)  # fmt: skip
def test_equals_optax_with_its_own_learning_rate(rule, reference):
  grads = grads_like(PARAMS)
  ours = run(Optimizer(rule, RATE, clip_norm=None), PARAMS, grads)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), ours, run_optax(reference, PARAMS, grads)
  )


def test_clips_by_global_norm():
  grads = grads_like(PARAMS, 100.0)
  small = jax.tree.map(lambda x: x / global_norm(grads), grads)

  def eps():
    return adam(eps=1.0)  # with it the size of a gradient matters to Adam

  clipped, plain = (
    run(Optimizer(eps, RATE, clip_norm=1.0), PARAMS, grads),
    run(Optimizer(eps, RATE, clip_norm=None), PARAMS, small),
  )
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), clipped, plain)


def test_first_multiplier_that_is_found_holds():
  tree = multiplier_tree(PARAMS, [("^vit/bias", 0.0), ("vit", 2.0)])
  assert tree == {"vit": {"kernel": 2.0, "bias": 0.0}, "decoder": {"kernel": 1.0}}


def test_multiplier_scales_the_step_and_zero_freezes():
  grads = grads_like(PARAMS)
  plain = run(Optimizer(adam, RATE), PARAMS, grads, 1)
  scaled = run(Optimizer(adam, RATE, [("decoder", 30.0), ("bias", 0)]), PARAMS, grads, 1)

  def moved(params, top):
    return np.asarray(params[top]["kernel"] - PARAMS[top]["kernel"])

  np.testing.assert_allclose(moved(scaled, "decoder"), 30 * moved(plain, "decoder"), rtol=1e-5)
  np.testing.assert_array_equal(moved(scaled, "vit"), moved(plain, "vit"))
  np.testing.assert_array_equal(scaled["vit"]["bias"], PARAMS["vit"]["bias"])


@pytest.mark.parametrize(
  "multipliers, message",
  [([("encoder", 2.0)], "'encoder' is found in no parameter's path"),
   ([("vit", 2.0), ("vit/bias", 3.0)], "patterns before 'vit/bias' take all its parameters"),
   ([("vit(", 2.0)], "is not a pattern and a number"), ([("vit", "two")], "is not a pattern and a number")],
)  # fmt: skip
def test_refuses_multipliers_that_decide_nothing(multipliers, message):
  with pytest.raises(UsageError, match=message.replace("(", r"\(")):
    Optimizer(adam, RATE, multipliers).init(PARAMS)
