import json
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.linen.partitioning import AxisMetadata
from jax.sharding import AbstractMesh, PartitionSpec

from tests.make.command import forked
from xmcap.errors import UsageError, XmcapError
from xmcap.models.layers import constrain, mesh_axes
from xmcap.training.optimizer import Optimizer, adafactor
from xmcap.training.sharding import (
  DEFAULT_RULES,
  MESH_AXES,
  Partitioning,
  parameter_shardings,
  put_batch,
  state_shardings,
  use,
)
from xmcap.training.step import create_state

MESHES = {
  "data 8": {"data": 8},
  "fsdp 8": {"data": 1, "fsdp": 8},
  "data 2 x fsdp 2 x model 2": {"data": 2, "fsdp": 2, "model": 2},
}
OF_CAPTIONS = ("data 2 x fsdp 2 x model 2",)  # the captioner takes long to compile
IN_PARTS = "the loss of each position by itself"


def specs(shape, axes, **rules):
  partitioning = Partitioning(**rules)
  mesh = partitioning.mesh()
  params = {"kernel": jax.ShapeDtypeStruct(shape, jnp.float32)}
  shardings = parameter_shardings(
    params, {"kernel_axes": AxisMetadata(axes)}, mesh, partitioning.logical_rules()
  )
  return shardings["kernel"].spec


def test_logical_axes_map_parameters_to_the_mesh():
  assert specs((4, 6), ("embed", "mlp")) == PartitionSpec("fsdp", ("model", "data"))
  assert specs((4, 6), ("mlp", "embed")) == PartitionSpec(("model", "data"), "fsdp")
  assert specs((4, 6), ("embed", "mlp"), extra_rules=[("mlp", None)]) == PartitionSpec("fsdp", None)


@pytest.mark.parametrize(
  "shape, axes, spec",
  [
    ((768, 2048), ("embed", "mlp"), ("fsdp", ("model", "data"))),
    ((768, 768), ("joined_kv", "embed"), (("model", "data"), "fsdp")),
    ((250_112, 768), ("vocab", "embed"), (("model", "data"), "fsdp")),
    # The logits' kernel is cut along the vocabulary alone; 32,001 rows are not divided, and leave `fsdp` to the width.
    ((768, 250_112), ("head_embed", "head_vocab"), (None, ("model", "fsdp", "data"))),
    ((768, 32_032), ("head_embed", "head_vocab"), (None, ("model", "fsdp"))),
    ((768, 32_001), ("head_embed", "head_vocab"), ("fsdp", None)),
    # Layers are not dealt out: each is needed whole in its turn.
    ((64, 768, 2048), ("layers", "embed", "mlp"), (None, "fsdp", ("model", "data"))),
    # Two `model` devices divide 6 columns, and those times four do not; 100 rows are not divided by 16.
    ((768, 6), ("embed", "mlp"), ("fsdp", "model")),
    ((100, 2048), ("embed", "mlp"), (None, ("model", "data"))),
    ((768,), ("embed",), ("fsdp",)),
  ],
)
def test_parameters_are_sharded_over_all_axes_that_divide_them(shape, axes, spec):
  mesh = AbstractMesh((4, 16, 2), MESH_AXES)
  params = {"kernel": jax.ShapeDtypeStruct(shape, jnp.float32)}
  axes = {"kernel_axes": AxisMetadata(axes)}
  found = parameter_shardings(params, axes, mesh, Partitioning().logical_rules())["kernel"].spec
  assert found == PartitionSpec(*spec)


@pytest.mark.parametrize(
  "rows, vocabulary, rules, cut",
  [
    (65_536, 250_112, DEFAULT_RULES, [("data",), ("model", "fsdp")]),
    # Otherwise each device of `fsdp` would compute all logits of the others' tokens too.
    (65_536, 32_001, DEFAULT_RULES, [("data", "fsdp"), ()]),
    (65_536, 250_111 * 2, DEFAULT_RULES, [("data", "fsdp"), ("model",)]),
    # A run of old rules trains as it did.
    (65_536, 250_112, [("batch", ("data", "fsdp"))], [("data", "fsdp"), ()]),
  ],
)
def test_logits_are_sharded_along_a_divisible_vocabulary(rows, vocabulary, rules, cut):
  sizes = {"data": 4, "fsdp": 16, "model": 2}
  assert mesh_axes((rows, vocabulary), ("batch", "logits"), rules, sizes) == cut


def test_unknown_or_missing_logical_axis_is_an_error():
  with pytest.raises(XmcapError, match="kernel: no rule for the logical axis 'colour'"):
    specs((4, 6), ("embed", "colour"))
  partitioning = Partitioning()
  with pytest.raises(XmcapError, match="kernel .*its logical axes are None: make it with param_with_axes"):
    params = {"kernel": jax.ShapeDtypeStruct((4,), jnp.float32)}
    parameter_shardings(params, {}, partitioning.mesh(), partitioning.logical_rules())


def test_mesh_must_fit_the_devices_and_rules_the_mesh():
  with pytest.raises(UsageError, match="data 3 x fsdp 1 x model 1 does not fit 1 device"):
    Partitioning(data=3).mesh(jax.devices()[:1])
  with pytest.raises(UsageError, match="mesh axes are data, fsdp, model"):
    Partitioning(extra_rules=[("mlp", "tensor")]).logical_rules()


@pytest.mark.parametrize(
  "partitioning, devices, slices, sizes",
  [
    (Partitioning(), 8, 1, (8, 1, 1)),
    (Partitioning(fsdp=-1), 8, 1, (1, 8, 1)),
    (Partitioning(fsdp=-1, fsdp_limit=16), 64, 1, (4, 16, 1)),
    (Partitioning(fsdp=-1, fsdp_limit=16), 1, 1, (1, 1, 1)),
    (Partitioning(fsdp=-1, fsdp_limit=16), 24, 1, (3, 8, 1)),
    (Partitioning(fsdp=-1, fsdp_limit=16, model=2), 64, 1, (2, 16, 2)),
    (Partitioning(data=2, fsdp=-1), 8, 1, (2, 4, 1)),
    # Parameters are gathered within a slice.
    (Partitioning(fsdp=-1), 128, 2, (2, 64, 1)),
  ],
)
def test_mesh_axis_of_minus_1_takes_remaining_devices(partitioning, devices, slices, sizes):
  assert partitioning.sizes(devices, slices) == sizes


def test_only_data_spans_slices():
  with pytest.raises(UsageError, match="only `data` may span the 2 slices"):
    Partitioning(data=1, fsdp=8).sizes(8, slices=2)


def test_adafactor_factors_are_sharded_as_their_dimensions():
  partitioning = Partitioning()
  mesh = partitioning.mesh()
  params = {"a": jnp.ones((4, 6)), "b": jnp.ones((6, 4)), "c": jnp.ones(3)}
  axes = {"a": ("embed", "mlp"), "b": ("mlp", "embed"), "c": ("mlp",)}
  metadata = {f"{name}_axes": AxisMetadata(value) for name, value in axes.items()}
  placed = parameter_shardings(params, metadata, mesh, partitioning.logical_rules())
  state = create_state(params, Optimizer(lambda: adafactor(min_dim_size_to_factor=2)))
  found = {
    jax.tree_util.keystr(path[-2:], simple=True, separator="/"): (leaf.shape, sharding.spec)
    for (path, leaf), sharding in zip(
      jax.tree_util.tree_leaves_with_path(state),
      jax.tree.leaves(state_shardings(state, placed, mesh)),
      strict=True,
    )
  }
  assert found["v_row/a"] == ((4,), PartitionSpec("fsdp")) and found["v_col/a"] == (
    (6,),
    PartitionSpec(("model", "data")),
  )
  assert found["v_row/b"] == ((4,), PartitionSpec("fsdp")) and found["v_col/b"] == (
    (6,),
    PartitionSpec(("model", "data")),
  )
  assert found["v/c"] == ((3,), PartitionSpec(("model", "data")))
  assert found["v/a"] == ((1,), PartitionSpec())


def test_adafactor_factors_of_stacked_layers_are_sharded_as_one():
  partitioning = Partitioning()
  mesh = partitioning.mesh()
  # More layers than one dimension of a layer: still it is the layer's dimensions that are factored.
  params = {"encoder": {"layers": {"a": jnp.ones((5, 4, 6))}}}
  metadata = {"encoder": {"layers": {"a_axes": AxisMetadata(("layers", "embed", "mlp"))}}}
  placed = parameter_shardings(params, metadata, mesh, partitioning.logical_rules())
  assert placed["encoder"]["layers"]["a"].spec == PartitionSpec(None, "fsdp", ("model", "data"))
  state = create_state(params, Optimizer(lambda: adafactor(min_dim_size_to_factor=2)))
  places = jax.tree_util.tree_leaves_with_path(state_shardings(state, placed, mesh).opt_state)
  found = {jax.tree_util.keystr(path): place.spec for path, place in places}
  row, column = (
    next(spec for path, spec in found.items() if f".{name}[" in path) for name in ("v_row", "v_col")
  )
  assert row == PartitionSpec(None, "fsdp") and column == PartitionSpec(None, ("model", "data"))


def test_constraints_on_activations_hold_within_a_mesh():
  partitioning = Partitioning()

  def lowered():
    return jax.jit(lambda x: constrain(x, "batch", "embed")).lower(jnp.zeros((16, 4))).as_text()

  assert "sharding_constraint" not in lowered()
  with use(partitioning.mesh(), partitioning.logical_rules()):
    assert 'sharding_constraint %arg0 <@mesh, [{"data", "fsdp"}, {}]>' in lowered()


@pytest.mark.slow
def test_activation_dimension_is_sharded_over_axes_that_divide_it(eight_devices):
  assert eight_devices["constrained"] == {"16": ["data", "fsdp"], "12": "data", "9": None}


def test_batch_is_placed_without_its_keys():
  mesh = Partitioning().mesh()
  placed = put_batch(
    {"image": np.zeros((2 * mesh.size, 3), np.uint8), "key": np.array(["a"] * 2 * mesh.size)}, mesh
  )
  assert list(placed) == ["image"] and placed["image"].dtype == jnp.uint8


# ---- eight simulated devices, in a process of their own ------------------------------------------


@pytest.fixture(scope="module")
def eight_devices(tmp_path_factory):
  """What the toy trained on each mesh, see `main`."""
  return trained(tmp_path_factory.mktemp("toy"), "toy")


def trained(folder, objective):
  forked(main, folder, objective, devices=8).succeeded()
  return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
def test_losses_of_ten_steps_equal_one_devices(eight_devices, mesh):
  assert_learns_alike(eight_devices["losses"], mesh)


@pytest.mark.full
@pytest.mark.slow
def test_a_captioners_losses_equal_one_devices(tmp_path):
  found = trained(tmp_path, "captions")["losses"]
  for mesh in (*OF_CAPTIONS, IN_PARTS):
    assert_learns_alike(found, mesh)


def assert_learns_alike(found, mesh):
  one = found["one"]
  assert len(one) == 10 and one[-1] < one[0]
  np.testing.assert_allclose(found[mesh], one, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
def test_parameter_bytes_per_device_on_a_mesh(eight_devices, mesh):
  # Over `data` too: no device keeps what another does.
  whole, of_weights, of_ema = eight_devices["bytes"][mesh]
  assert of_weights * 8 == of_ema * 8 == whole


@pytest.mark.slow
def test_checkpoint_of_one_mesh_is_read_on_another(eight_devices):
  for mesh, (step, difference) in eight_devices["read"].items():
    assert step == 10 and difference == 0, mesh


def captions():
  """A tiny captioner of scanned layers, of which the ViT's recompute activations, and random batches for it."""
  from xmcap.models.t5 import T5Config
  from xmcap.models.vit import ViTConfig
  from xmcap.training.objectives import CaptionObjective

  vit = ViTConfig(
    width=16, depth=2, mlp_dim=32, num_heads=2, patch_size=8, image_size=16, pool="map", dropout_rate=0.1,
    scan=True, remat="dots",
  )  # fmt: skip
  t5 = T5Config(
    vocab_size=64, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=2, num_decoder_layers=2, mlp_dim=32,
    dropout_rate=0.1, scan=True,
  )  # fmt: skip

  class Stream:
    num_images = 16

    def batch(self, step, rows=None):
      rng = np.random.default_rng(0)  # one batch again and again: its loss falls
      weights = (np.arange(5) < rng.integers(2, 6, (16, 2, 1))).astype(np.float32)
      return {"image": rng.integers(0, 256, (16, 16, 16, 3)).astype(np.uint8),
              "prompt_tokens": rng.integers(3, 64, (16, 2, 1)).astype(np.int32),
              "target_tokens": (rng.integers(3, 64, (16, 2, 5)) * weights).astype(np.int32),
              "target_weights": weights}  # fmt: skip

    def batches(self, start_step, rows=None):
      while True:
        yield self.batch(start_step)

  return CaptionObjective(vit, t5), Stream()


def constrained():
  """Rows -> the mesh axes that they are cut over."""
  partitioning = Partitioning(data=4, fsdp=2)
  found = {}
  with use(partitioning.mesh(), partitioning.logical_rules()):
    for rows in (16, 12, 9):
      placed = jax.jit(lambda x: constrain(x, "batch", "embed"))(jnp.zeros((rows, 4))).sharding.spec
      found[rows] = placed[0] if placed else None
  return found


def main(folder, name):
  """Trains the toy or the captioner for ten steps on its meshes; reads the toy's checkpoints on another mesh each."""
  from tests.training.toy import ToyObjective, ToyStream
  from xmcap.training import token_loss
  from xmcap.training.checkpoints.read import load_params
  from xmcap.training.checkpoints.retention import CheckpointPolicy
  from xmcap.training.hooks import hooks
  from xmcap.training.loop import train
  from xmcap.training.metrics import TrainingProgress
  from xmcap.training.optimizer import adam
  from xmcap.training.reporting.writers import Writers
  from xmcap.training.run import Start
  from xmcap.training.schedule import ConstantThenRsqrt

  assert len(jax.devices()) == 8
  result = {"losses": {}, "bytes": {}, "read": {}, "constrained": constrained()}
  report = TrainingProgress.report

  class OneDevice(Partitioning):
    def mesh(self, devices=None):
      return super().mesh(jax.devices()[:1])

  def noted(values, seen):
    # The printed line has too few digits.
    seen.append(values["loss"])
    return values

  of_toy = name == "toy"
  objective, stream = (ToyObjective(), ToyStream()) if of_toy else captions()
  rule = adam if of_toy else lambda: adafactor(min_dim_size_to_factor=8)
  chosen = MESHES if of_toy else OF_CAPTIONS
  meshes = {"one": OneDevice(), **{mesh: Partitioning(**MESHES[mesh]) for mesh in chosen}}
  if not of_toy:
    meshes[IN_PARTS] = meshes[OF_CAPTIONS[0]]
  settings = {
    "objective": objective,
    "stream": stream,
    "total_steps": 10,
    "optimizer": Optimizer(rule, ConstantThenRsqrt(learning_rate=1e-2), ema_decay=0.9 if of_toy else 0.0),
    "hooks": hooks(log_every=1),
    "writers": Writers(tensorboard=False),
    "start": Start(say=lambda line: None),
    "checkpoint": CheckpointPolicy(every=0),
  }
  names = list(meshes)
  for mesh, partitioning in meshes.items():
    model_dir = f"{folder}/{mesh}"
    seen = result["losses"][mesh] = []
    at_once = 1 if mesh == IN_PARTS else token_loss.MOST_BYTES
    with (
      mock.patch.object(
        TrainingProgress, "report", lambda self, step, seen=seen: noted(report(self, step), seen)
      ),
      mock.patch.object(token_loss, "MOST_BYTES", at_once),
    ):
      state = train(model_dir, partitioning=partitioning, **settings).state
    if of_toy:
      both = state.params["wi"], state.ema.params["wi"]
      result["bytes"][mesh] = [both[0].nbytes, *(wi.addressable_shards[0].data.nbytes for wi in both)]
      other = names[names.index(mesh) - 1]
      read = train(model_dir, partitioning=meshes[other], **settings).state
      for weights, params in {"raw": read.params, "ema": read.weights}.items():
        wrote = load_params(model_dir, weights=weights)
        worst = max(float(np.max(np.abs(np.asarray(params[key]) - wrote[key]))) for key in wrote)
        result["read"][f"{mesh} on {other}, {weights}"] = [int(read.step), worst]
  Path(folder, "result.json").write_text(json.dumps(result))
