"""Sharding of parameters for evaluation and decoding."""

import json
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests import pictures
from tests.make.command import forked
from xmcap.evaluation import sharded_params
from xmcap.training import sharding

MESHES = {
  "data 2 x fsdp 4": {"data": 2, "fsdp": 4},
  "data 2 x fsdp 2 x model 2": {"data": 2, "fsdp": 2, "model": 2},
}


def test_for_evaluation_keeps_the_sharding_of_a_run():
  mesh = sharding.Partitioning().mesh()
  params = {"a": jax.device_put(np.ones(4), NamedSharding(mesh, PartitionSpec("fsdp")))}
  sharded = sharded_params.for_evaluation(params, [])
  assert sharded.params is params and sharded.mesh == mesh and sharded.rules is None


def test_for_evaluation_replicates_host_parameters():
  sharded = sharded_params.for_evaluation({"a": np.ones(4)}, jax.local_devices())
  lies = sharded.params["a"].sharding
  assert lies.is_fully_replicated and lies.device_set == set(jax.local_devices())
  assert sharded.mesh.axis_names == sharding.MESH_AXES and sharded.rules


def test_for_decoding_does_not_copy_fitting_parameters():
  mesh = sharding.Partitioning().mesh(jax.devices()[:1])
  params = {"a": jax.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, PartitionSpec("fsdp")))}
  kept = sharded_params.for_decoding(params, []).params["a"]
  assert kept.unsafe_buffer_pointer() == params["a"].unsafe_buffer_pointer()


def test_for_decoding_shards_by_model_and_batch_only():
  sharded = sharded_params.for_decoding({"a": np.ones(4)}, jax.local_devices())
  rules = dict(reversed(sharded.rules))  # the first rule of an axis wins
  assert rules["batch"] == ("data", "fsdp") and rules["embed"] is None and rules["head_embed"] is None
  assert rules["vocab"] == rules["mlp"] == rules["head_vocab"] == rules["logits"] == "model"


# ---- eight simulated devices, in a process of their own ------------------------------------------


@pytest.fixture(
  scope="module",
  params=[pytest.param("data 2 x fsdp 4", marks=pytest.mark.full), "data 2 x fsdp 2 x model 2"],
)
def eight_devices(request, tmp_path_factory):
  """The name of a mesh, and {"one" device, or that "mesh": what it gives}, see `measure`."""
  file = tmp_path_factory.mktemp("meshes") / "result.json"
  # With fewer threads, two collectives may wait for each other.
  forked(measure, file, MESHES[request.param], environment={"NPROC": "64"}).succeeded()
  return request.param, json.loads(file.read_text())


@pytest.mark.slow
def test_no_parameter_is_gathered_within_the_loop_over_tokens(eight_devices):
  name, result = eight_devices
  found = result["mesh"]
  assert found["as they lie"]["all"] > 100 and found["for decoding"]["all"] < 10
  if "model" in name:
    # Where `model` cuts the logits, the best logits of its parts come together, and their tokens: 4 rows, 2 parts.
    assert found["for decoding"]["bytes in loops"] == 2 * 4 * 2 * 4
  else:
    # A CPU's compiler moves all out of the loop but for the look-up in the embedding; a TPU's does not.
    assert found["as they lie"]["in loops"] > 0 and found["for decoding"]["in loops"] == 0


@pytest.mark.slow
def test_sharded_captions_and_losses_equal_one_device(eight_devices):
  one, found = (eight_devices[1][name] for name in ("one", "mesh"))
  assert len(one["captions"]) == 11 and found["captions"] == one["captions"]
  assert [name for name, _ in one["loss"]] == ["accuracy", "cross_entropy", "loss"]
  np.testing.assert_allclose(
    [value for _, value in found["loss"]], [value for _, value in one["loss"]], rtol=1e-5
  )


def gathers(text):
  """The all-gathers of a compiled program: all, and those that loops run."""
  from xmcap.planning import hlo

  module = hlo.Module(text)
  everything = [one for instructions in module.functions.values() for one in instructions]
  inside = {name for one in everything if one.operation == "while" for name in one.called}
  for _ in module.functions:
    inside |= {name for outer in inside for one in module.functions[outer] for name in one.called}
  looped = [one for name in inside for one in module.functions[name] if one.operation == "all-gather"]
  return {
    "all": sum(one.operation == "all-gather" for one in everything),
    "in loops": len(looped),
    "bytes in loops": sum(size for one in looped for size in hlo.array_bytes(one.shape)),
  }


def drawn(planned):
  """Random numbers for the shapes of parameters."""
  rng = np.random.default_rng(0)
  return jax.tree.map(lambda plan: rng.normal(0, 0.3, plan.shape).astype(plan.dtype), planned)


def measure(file, cut):
  """Decodes and measures 11 pictures on a device and on a mesh, with the parameters as a training run has them."""
  from tests.training.test_sharding import captions
  from xmcap.evaluation import predictor as predictor_lib
  from xmcap.evaluation.evaluators import LossEvaluator
  from xmcap.models.decoding import generator as decoding
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.state import plan_state

  jax.config.update("jax_num_cpu_devices", 8)
  objective, _ = captions()
  stream = pictures.Captions(11, batch=3)
  load = {f"{number:02d}": pictures.caption(number)["image"] for number in range(11)}
  result, numbers = {}, {}
  for name, sizes in (("one", {}), ("mesh", cut)):
    partitioning = sharding.Partitioning(**sizes)
    mesh = partitioning.mesh(jax.devices()[:1] if name == "one" else None)
    rules = partitioning.logical_rules()
    found = result[name] = {}

    with (
      mock.patch.object(predictor_lib, "bound_image_config", lambda: lambda: objective.module.vit),
      mock.patch.object(predictor_lib, "bound_language_model", lambda: lambda: objective.module.t5),
      mock.patch.object(predictor_lib.registry, "registration", pictures.registration),
      sharding.use(mesh, rules),
    ):
      planned = plan_state(objective, Optimizer(adam), stream.batch(0), mesh, rules).target.params
      # Without what initialises them, which takes longest to compile: test_sharding.py runs that on meshes.
      numbers = numbers or drawn(planned)
      params = jax.tree.map(lambda number, plan: jax.device_put(number, plan.sharding), numbers, planned)
      predictor = predictor_lib.Predictor("a mixture", max_length=6, batch_size=3)
      found["captions"] = dict(predictor(params, sorted(load), load.__getitem__, ["en", "fil"]))
      found["loss"] = [(row[1], row[2]) for row in LossEvaluator(objective, stream).run(params, 0)]
      if name == "one":
        continue

      generator = decoding.Generator(objective.module, max_length=6)
      sharded = sharded_params.for_decoding(params, [], generator.cast)
      batch = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=sharding.batch_sharding(mesh))
        for shape, dtype in (((8, 16, 16, 3), np.uint8), ((8, 2, 1), np.int32))
      ]
      rest = jax.random.key(0), np.arange(8)

      def of(params, batch=batch, rest=rest, generator=generator):
        jax.clear_caches()  # which rules hold is no argument of the program
        return gathers(decoding.generate.lower(*generator.static, params, *batch, *rest).compile().as_text())

      found["as they lie"] = of(params)
      with sharded.computing():
        found["for decoding"] = of(sharded.params)
  Path(file).write_text(json.dumps(result))
