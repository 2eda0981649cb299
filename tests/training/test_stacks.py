import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmcap.models import stacking
from xmcap.training import stacks
from xmcap.training.optimizer import Optimizer, adafactor, merge, multiplier_tree
from xmcap.training.schedule import ConstantThenRsqrt

OPTIMIZER = Optimizer(
  lambda: adafactor(min_dim_size_to_factor=2), ConstantThenRsqrt(learning_rate=0.1, constant_steps=None)
)


def layers(count):
  """A model whose parameters all differ: two stacks, and one parameter outside of them."""
  rng = np.random.default_rng(0)

  def normal(*shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)

  def layer():
    return {"mlp": {"kernel": normal(4, 6), "bias": normal(6)}}

  return {
    "encoder": {f"layers_{number}": layer() for number in range(count)},
    "decoder": {f"layers_{number}": layer() for number in range(2)},
    "head": {"kernel": jnp.ones((3, 2))},
  }


def test_layers_come_together_in_the_order_of_their_numbers():
  params = layers(11)
  joined = stacks.together(params)
  assert set(joined["encoder"]) == set(joined["decoder"]) == {"layers"}
  for name, found in joined["encoder"]["layers"]["mlp"].items():
    expected = [params["encoder"][f"layers_{number}"]["mlp"][name] for number in range(11)]
    np.testing.assert_array_equal(found, jnp.stack(expected), err_msg=name)
  assert joined["head"]["kernel"] is params["head"]["kernel"]
  apart = stacks.apart(joined, params)
  assert jax.tree.structure(apart) == jax.tree.structure(params)
  jax.tree.map(np.testing.assert_array_equal, apart, params)
  assert stacks.together(joined) == joined  # What is stacked already stays.


def test_an_optimizers_state_is_that_of_stacked_layers():
  single = layers(3)
  stacked = stacks.together(single)
  assert stacking.is_stacked(stacked)
  states = OPTIMIZER.init(single), OPTIMIZER.init(stacked)
  assert jax.tree.structure(states[0]) == jax.tree.structure(states[1])
  assert set(states[0]) == {"encoder_layers_3", "decoder_layers_2", stacks.SINGLE}


@pytest.mark.parametrize("frozen", ["layers_1/", "layers_1/mlp/bias", "encoder/layers_[02]/"])
def test_layers_that_are_frozen_in_part_learn_as_each_by_itself(frozen):
  params = layers(3)
  optimizer = Optimizer(OPTIMIZER.transformation, OPTIMIZER.schedule, frozen=[frozen], clip_norm=None)
  learning, still = optimizer.split(params)
  grads = jax.tree.map(jnp.cos, learning)
  found, _, _ = optimizer.update(grads, optimizer.init(learning), learning, 0, 10)
  merged = merge(found, still)
  assert jax.tree.structure(merged) == jax.tree.structure(params)

  for path, param in jax.tree_util.tree_leaves_with_path(learning):
    # The same rule for this parameter alone.
    rule = optimizer.transformation()
    new = merged
    for key in path:
      new = new[key.key]
    direction, _ = rule.update(jnp.cos(param), rule.init(param), param)
    np.testing.assert_allclose(new, param - 0.1 * direction, rtol=1e-6)


def test_layers_of_a_stack_have_multipliers_of_their_own():
  params = layers(3)
  grads = jax.tree.map(jnp.cos, params)

  def moved(multipliers):
    optimizer = Optimizer(OPTIMIZER.transformation, OPTIMIZER.schedule, multipliers)
    new, _, _ = optimizer.update(grads, optimizer.init(params), params, 0, 10)
    return jax.tree.map(jnp.subtract, new, params)

  plain, scaled = moved(()), moved([("encoder/layers_1/", 3.0), ("decoder/.*bias", 2.0)])
  factors = multiplier_tree(params, [("encoder/layers_1/", 3.0), ("decoder/.*bias", 2.0)])
  jax.tree.map(
    lambda a, b, factor: np.testing.assert_allclose(a, b * factor, rtol=1e-4, atol=1e-6),
    scaled,
    plain,
    factors,
  )


@pytest.mark.parametrize("loss_is_finite, bad", [(False, 0.0), (True, np.nan), (True, np.inf)])
def test_nothing_changes_where_loss_or_gradient_is_not_finite(loss_is_finite, bad):
  params = layers(2)
  grads = jax.tree.map(jnp.cos, params)
  grads["encoder"]["layers_1"]["mlp"]["bias"] += jnp.zeros(6).at[3].set(bad)
  state = OPTIMIZER.init(params)
  new, new_state, measured = OPTIMIZER.update(grads, state, params, 0, 10, finite=jnp.asarray(loss_is_finite))
  assert np.isfinite(measured["grad_norm"]) == (bad == 0)
  jax.tree.map(np.testing.assert_array_equal, (new, new_state), (params, state))
