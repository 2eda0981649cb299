"""Sharding of the logits' head on 8 simulated devices: the numbers of one device, and no kernel sent around."""

import json

import pytest

from tests.make.command import forked

_WIDTH, _ROWS = 32, 16
_VOCABULARIES = {"divided": 4096, "not divided": 4097}


@pytest.fixture(scope="module")
def found():
  """Vocabulary -> what `main` found."""
  return json.loads(forked(main, devices=8).succeeded().out.splitlines()[-1])


@pytest.mark.parametrize("vocabulary", _VOCABULARIES)
def test_logits_loss_and_gradients_on_8_devices_equal_one(found, vocabulary):
  assert found[vocabulary]["difference"] < 1e-6


def test_logits_kernel_is_sharded_and_gathered_over_data_alone(found):
  kernel = 4 * _WIDTH * _VOCABULARIES["divided"]
  divided = found["divided"]
  assert divided["shard"] == [_WIDTH, 4096 // 8]
  # A quarter of the vocabulary is on each device of `fsdp`, in the program's largest exchange.
  assert divided["largest"] <= kernel / 4
  # It takes the tokens of the four: as many logits as before.
  assert divided["logits"] == [_ROWS * 8 // 2, 4096 // 4]


def test_logits_of_an_indivisible_vocabulary_are_sharded_by_tokens(found):
  assert found["not divided"]["logits"] == [_ROWS, 4097]


def main():
  """On a mesh of data 2 x fsdp 4: the largest exchange of a step, shapes of shards, and differences from one device."""
  import jax
  import jax.numpy as jnp
  import numpy as np

  from xmcap.models.t5 import Decoder, T5Config
  from xmcap.planning import hlo
  from xmcap.training import sharding
  from xmcap.training.objectives import CaptionObjective

  partitioning = sharding.Partitioning(data=2, fsdp=4)
  mesh, rules = partitioning.mesh(), partitioning.logical_rules()
  rng = np.random.default_rng(0)
  hidden = rng.normal(size=(8 * _ROWS, 1, 1, _WIDTH)).astype(np.float32)
  result = {}
  for name, vocabulary in _VOCABULARIES.items():
    config = T5Config(vocabulary, _WIDTH, 2, 8, 0, 1, 32, dtype="float32")
    decoder = Decoder(config)

    class Head:
      """What `CaptionObjective` asks of a captioner: here the pictures are the decoder's output."""

      t5 = config

      def apply(self, variables, hidden, *others, method, decoder=decoder, **options):
        if method == "hidden":
          return hidden
        return decoder.apply({"params": variables["params"]["decoder"]}, hidden, method=method)

    objective = CaptionObjective.__new__(CaptionObjective)
    objective.module, objective.label_smoothing, objective.z_loss = Head(), 0.1, 1e-4
    objective.one_pass = True
    targets = rng.integers(0, vocabulary, (8 * _ROWS, 1, 1)).astype(np.int32)
    batch = {
      "image": hidden, "prompt_tokens": targets, "target_tokens": targets,
      "target_weights": np.ones(targets.shape, np.float32),
    }  # fmt: skip
    variables = decoder.init(jax.random.key(0), hidden, method="logits")
    params, axes = ({"decoder": variables[kind]} for kind in ("params", "params_axes"))
    step = jax.value_and_grad(
      lambda params, batch, objective=objective: objective.loss(params, batch, jax.random.key(0), True)[0]
    )
    one = jax.jit(step)(params, batch)
    places = sharding.parameter_shardings(params, axes, mesh, rules)
    placed = jax.device_put(params, places), jax.device_put(batch, sharding.batch_sharding(mesh))
    with sharding.use(mesh, rules):
      compiled = jax.jit(step, out_shardings=(None, places)).lower(*placed).compile()
      many = compiled(*placed)
      logits = jax.jit(
        lambda params, hidden, decoder=decoder: decoder.apply(
          {"params": params["decoder"]}, hidden, method="logits"
        )
      )(placed[0], placed[1]["image"])
    differences = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(np.asarray(a) - np.asarray(b)))), one, many)
    exchanged = [each.bytes // each.count for each in hlo.Module(compiled.as_text()).collectives()]
    shard = logits.addressable_shards[0].data.shape
    result[name] = {
      "difference": max(jax.tree.leaves(differences)),
      "largest": max(exchanged),
      "shard": list(many[1]["decoder"]["logits_dense"]["kernel"].addressable_shards[0].data.shape),
      "logits": [shard[0], shard[-1]],
    }
  print(json.dumps(result))
