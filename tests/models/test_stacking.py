"""Layers stacked and scanned: the numbers of layers one by one."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import traverse_util

from xmcap.models import stacking
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import Generator
from xmcap.models.tagger import Tagger
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer
from xmcap.training.schedule import ConstantThenRsqrt
from xmcap.training.step import create_state, make_train_step

_DEEP = {
  "num_encoder_layers": 3,
  "num_decoder_layers": 11,
}  # ten and more, so that names do not sort as numbers do


def _objective(vit, t5, **changes):
  vit, t5 = dataclasses.replace(vit, **changes), dataclasses.replace(t5, **changes)
  return CaptionObjective(vit, t5)


def _train(objective, batch, steps):
  params = jax.jit(lambda rng: objective.init(rng, batch)["params"])(jax.random.key(0))
  optimizer = Optimizer(schedule=ConstantThenRsqrt(learning_rate=0.01, constant_steps=None))
  state, losses = create_state(params, optimizer), []
  step = jax.jit(make_train_step(objective, optimizer, steps))
  for _ in range(steps):
    state, metrics = step(state, batch)
    losses.append(float(metrics["loss"]))
  return state, losses


@pytest.fixture(scope="module")
def single(vit_config, t5_config, batch):
  return _train(_objective(vit_config, t5_config), batch, 5)


@pytest.mark.parametrize("changes", [{"scan": True}, {"remat": True}, {"scan": True, "remat": True}])
def test_five_steps_are_those_of_layers_one_by_one(vit_config, t5_config, batch, single, changes):
  state, losses = _train(_objective(vit_config, t5_config, **changes), batch, 5)
  assert losses[0] != losses[-1]
  np.testing.assert_allclose(losses, single[1], atol=1e-6, rtol=0)
  assert stacking.is_stacked(state.params) == changes.get("scan", False)
  expected = traverse_util.flatten_dict(single[0].params, sep="/")
  for path, leaf in traverse_util.flatten_dict(stacking.unstack(state.params), sep="/").items():
    # The softmax does not feel the bias of its keys: its gradient is rounding, which Adafactor makes as large as any.
    if not path.endswith("key/bias"):
      np.testing.assert_allclose(leaf, expected[path], atol=2e-5, err_msg=path)


def test_only_one_tower_may_be_stacked(vit_config, t5_config, batch):
  objective = CaptionObjective(dataclasses.replace(vit_config, scan=True), t5_config)
  params = objective.init(jax.random.key(0), batch)["params"]
  assert "layers" in params["vit"] and "layers_0" in params["encoder"]


def test_stacked_layers_have_an_axis_of_their_own(vit_config, t5_config, batch):
  axes = jax.eval_shape(lambda: _objective(vit_config, t5_config, scan=True).init(jax.random.key(0), batch))
  kernel = axes["params_axes"]["decoder"]["layers"]["mlp"]["wo"]["kernel_axes"]
  assert kernel.names == ("layers", "mlp", "embed")


def test_layers_are_stacked_by_number_not_by_name():
  params = {"encoder": {f"layers_{i}": {"scale": np.full(2, i)} for i in range(12)}, "norm": np.ones(3)}
  stacked = stacking.stack(params, {"encoder": {"layers": {"scale": None}}, "norm": None})
  np.testing.assert_array_equal(stacked["encoder"]["layers"]["scale"][:, 0], np.arange(12))
  assert list(stacking.unstack(stacked)["encoder"]) == list(params["encoder"])


def test_stack_undoes_unstack(vit_config, t5_config, batch):
  params = _objective(vit_config, t5_config, scan=True).init(jax.random.key(0), batch)["params"]
  jax.tree.map(np.testing.assert_array_equal, stacking.stack(stacking.unstack(params), params), params)


def test_a_tagger_may_be_stacked(vit_config, batch):
  stacked = Tagger(dataclasses.replace(vit_config, scan=True), 5, 3)
  params = stacking.init(stacked, jax.random.key(0), batch["image"])["params"]
  slots, _ = stacked.apply({"params": params}, batch["image"])
  expected, _ = stacked.unrolled().apply({"params": stacking.unstack(params)}, batch["image"])
  np.testing.assert_allclose(slots, expected, atol=1e-5)


def test_dropout_is_a_function_of_its_key(vit_config, t5_config, batch):
  config = dataclasses.replace(t5_config, scan=True, dropout_rate=0.5)
  module = Captioner(vit_config, config)
  inputs = (batch["image"], batch["prompt_tokens"], batch["target_tokens"])
  params = stacking.init(module, jax.random.key(0), *inputs)["params"]

  def logits(seed):
    return module.apply({"params": params}, *inputs, False, rngs={"dropout": jax.random.key(seed)})

  assert not np.allclose(logits(0), logits(1))
  np.testing.assert_array_equal(logits(0), logits(0))


def test_captions_of_stacked_layers_are_those_of_layers_one_by_one(vit_config, t5_config, batch):
  single = Captioner(vit_config, t5_config)
  stacked = Captioner(dataclasses.replace(vit_config, scan=True), dataclasses.replace(t5_config, scan=True))
  inputs = (batch["image"], batch["prompt_tokens"], batch["target_tokens"])
  params = stacking.init(stacked, jax.random.key(0), *inputs)["params"]
  expected, _ = Generator(single, max_length=5)(stacking.unstack(params), *inputs[:2])
  found, _ = Generator(stacked, max_length=5)(params, *inputs[:2])
  np.testing.assert_array_equal(found, expected)
