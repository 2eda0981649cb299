"""Stacked layers: the same values unrolled, scanned and rematerialized, and both layouts of parameters."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import traverse_util

from tests import drawn_params
from xmcap.models import stacking
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer
from xmcap.training.schedule import ConstantThenRsqrt
from xmcap.training.step import create_state, make_train_step


def _objective(vit, t5, **changes):
  return CaptionObjective(dataclasses.replace(vit, **changes), dataclasses.replace(t5, **changes))


def _train(objective, params, batch, steps):
  optimizer = Optimizer(schedule=ConstantThenRsqrt(learning_rate=0.01, constant_steps=None))
  state, losses = create_state(params, optimizer), []
  step = jax.jit(make_train_step(objective, optimizer, steps))
  for _ in range(steps):
    state, metrics = step(state, batch)
    losses.append(float(metrics["loss"]))
  return state, losses


@pytest.fixture(scope="module")
def begun(variables):
  """Parameters about as small as those of a fresh model, from which no step goes far."""
  return drawn_params.like(variables["params"], scale=0.05)


@pytest.fixture(scope="module")
def unrolled(vit_config, t5_config, begun, batch):
  return _train(_objective(vit_config, t5_config), begun, batch, 5)


def test_scan_and_remat_have_the_gradients_of_unrolled_layers(vit_config, t5_config, begun, batch):
  def gradients(**changes):
    objective = _objective(vit_config, t5_config, **changes)
    loss = lambda params: objective.loss(params, batch, jax.random.key(0), True)[0]  # noqa: E731
    return jax.jit(jax.value_and_grad(loss))(begun)

  jax.tree.map(
    lambda mine, other: np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6),
    gradients(scan=True, remat="dots"), gradients(),
  )  # fmt: skip


@pytest.mark.parametrize("scan", [False, True])
def test_each_remat_policy_has_the_loss_and_gradients_of_none(vit_config, t5_config, begun, batch, scan):
  towers = [dataclasses.replace(config, dropout_rate=0.1, scan=scan) for config in (vit_config, t5_config)]

  def gradients(remat):
    objective = _objective(*towers, remat=remat)
    key = jax.random.key(0, impl="rbg")  # its dropout compiles in half the time
    loss = lambda params: objective.loss(params, batch, key, False)[0]  # noqa: E731
    return jax.jit(jax.value_and_grad(loss))(begun)

  expected = gradients("no")
  for remat in ("dots", "full"):
    jax.tree.map(
      lambda mine, other: np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6),
      gradients(remat), expected,
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("changes", [{"scan": True, "remat": "full"}, {"scan": True}, {"remat": "full"}])
def test_scan_and_remat_train_as_unrolled_layers(vit_config, t5_config, begun, batch, unrolled, changes):
  state, losses = _train(_objective(vit_config, t5_config, **changes), begun, batch, 5)
  assert losses[0] != losses[-1]
  np.testing.assert_allclose(losses, unrolled[1], atol=1e-6, rtol=0)
  expected = traverse_util.flatten_dict(unrolled[0].params, sep="/")
  for path, leaf in traverse_util.flatten_dict(state.params, sep="/").items():
    # The softmax does not feel the bias of its keys: its gradient is rounding, which Adafactor makes as large as any.
    if not path.endswith("key/bias"):
      np.testing.assert_allclose(leaf, expected[path], atol=2e-5, err_msg=path)


def test_stacked_parameters_have_a_layers_axis(vit_config, t5_config, batch):
  made = jax.eval_shape(lambda: _objective(vit_config, t5_config).init(jax.random.key(0), batch))
  kernel = made["params_axes"]["decoder"]["layers"]["mlp"]["wo"]["kernel_axes"]
  assert kernel.names == ("layers", "mlp", "embed")
  assert made["params"]["decoder"]["layers"]["mlp"]["wo"]["kernel"].shape == (
    t5_config.num_decoder_layers, t5_config.mlp_dim, t5_config.emb_dim,
  )  # fmt: skip


def test_stacked_layers_are_initialized_differently(captioner, batch):
  @jax.jit
  def begun(key):
    params = captioner.init(key, batch["image"], batch["prompt_tokens"], batch["target_tokens"])["params"]
    return params["vit"]["layers"]["mlp"]["wi"]["kernel"]

  kernel = np.asarray(begun(jax.random.key(0)))
  assert not np.allclose(kernel[0], kernel[1])


def test_stack_and_unstack_round_trip(params):
  apart = stacking.unstack(params)
  assert "layers_0" in apart["vit"] and "layers" not in apart["vit"]
  jax.tree.map(np.testing.assert_array_equal, stacking.stack(apart), params)


def test_layers_are_ordered_by_number_not_by_name():
  params = {"encoder": {f"layers_{i}": {"scale": np.full(2, i)} for i in range(12)}, "norm": np.ones(3)}
  stacked = stacking.stack(params)
  np.testing.assert_array_equal(stacked["encoder"]["layers"]["scale"][:, 0], np.arange(12))
  assert list(stacking.unstack(stacked)["encoder"]) == list(params["encoder"])


def test_a_missing_layer_is_named():
  with pytest.raises(ValueError, match="encoder/layers/scale: layer 1 is missing"):
    stacking.stack({"encoder": {f"layers_{i}": {"scale": np.ones(2)} for i in (0, 2)}})
