"""Checkpoints of t5x: the legacy layout written by hand as its head (2026-04) writes it, today's by orbax 0.12.8."""

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore
from flax import serialization, traverse_util

from tests.convert.conftest import config_of, params_of, same_trees
from xmcap.convert.source import parameter_shapes
from xmcap.models.t5 import T5Config

CONFIG = T5Config(37, 16, 2, 12, 2, 3, 20, relpos_buckets=16)


@pytest.fixture(scope="module")
def params():
  rng = np.random.RandomState(0)
  flat = {
    name: rng.standard_normal(shape).astype(np.float32) for name, shape in parameter_shapes(CONFIG).items()
  }
  return traverse_util.unflatten_dict(flat, sep="/")


def write_legacy(folder, params, path_key="kvstore", kvstore="gfile", rename=lambda name: name):
  """Vectors in the msgpack, matrices as gzipped zarr of several chunks, as specs; optimizer state beside them."""
  folder.mkdir()
  target = {}
  for name, array in traverse_util.flatten_dict(params, sep=".").items():
    if array.ndim == 1:
      target[name] = array
      continue
    name_on_disk = rename(f"target.{name}")
    metadata = {
      "chunks": [-(-size // 2) for size in array.shape], "compressor": {"id": "gzip", "level": 1},
      "dtype": array.dtype.str, "shape": list(array.shape),
    }  # fmt: skip
    spec = {
      "driver": "zarr",
      "kvstore": {"driver": "file", "path": str(folder / name_on_disk)},
      "metadata": metadata,
    }
    if "/" not in name_on_disk:
      tensorstore.open(spec, create=True).result().write(array).result()
    written = {"driver": "zarr", "kvstore": {"driver": kvstore}, "metadata": metadata}
    (written["kvstore"] if path_key == "kvstore" else written)["path"] = name_on_disk
    target[name] = written
  tree = {
    "target": traverse_util.unflatten_dict(target, sep="."),
    "state": {"step": np.int32(7), "param_states": {"decoder": {"m": np.zeros(3, np.float32)}}},
  }
  (folder / "checkpoint").write_bytes(serialization.msgpack_serialize({"version": 3, "optimizer": tree}))
  return folder


@pytest.fixture(autouse=True)
def as_t5x_writes(nothing_of_orbax_that_is_deprecated):
  """Allows Orbax's older way of writing, which is t5x's."""
  yield
  nothing_of_orbax_that_is_deprecated.clear()


def write_today(folder, params):
  tree = {"target": params, "state": {"step": np.int32(7), "param_states": {"decoder": {"m": np.zeros(3)}}}}
  ocp.PyTreeCheckpointer().save(folder / "state", tree)
  return folder


@pytest.mark.parametrize("layout", [{}, {"path_key": "beside"}, {"kvstore": "gcs"}])
def test_t5x_legacy_checkpoint_layouts(tmp_path, convert, params, layout):
  out = convert(write_legacy(tmp_path / "checkpoint_7", params, **layout))
  same_trees(params_of(out), params)
  config = config_of(out, T5Config)
  assert (config.head_dim, config.num_decoder_layers, config.relpos_buckets) == (12, 3, 16)
  (line,) = (line for line in convert.printed.splitlines() if line.endswith("the optimizer's state"))
  assert "state/step" in line and "state/param_states/decoder/m" in line


def test_t5x_current_checkpoint_layout(tmp_path, convert, params):
  out = convert(write_today(tmp_path / "checkpoint_7", params))
  same_trees(params_of(out), params)
  assert "the optimizer's state" in convert.printed


def test_t5x_newest_checkpoint_of_a_run_is_converted(tmp_path, convert, params):
  write_today(tmp_path / "run/checkpoint_9", jax.tree.map(np.zeros_like, params))
  write_today(tmp_path / "run/checkpoint_10", params)
  same_trees(params_of(convert(tmp_path / "run", "--from=t5x")), params)


def test_t5x_to_transformers_round_trip(tmp_path, convert, params):
  out = convert(write_today(tmp_path / "checkpoint_7", params))
  same_trees(params_of(convert(convert(out, "--to=hf"))), params)


def scanned(params, axis=1, same=True):
  """As t5x.examples.scalable_t5 stacks layers: `encoder/encoder/NAME`, layers on `axis`, a relpos_bias in each."""
  flat, found = traverse_util.flatten_dict(params, sep="/"), {}
  for name, array in flat.items():
    part, _, inside = name.partition("/")
    count = {"encoder": CONFIG.num_encoder_layers, "decoder": CONFIG.num_decoder_layers}.get(part)
    if inside.startswith("layers_0/"):
      inside = inside.removeprefix("layers_0/")
      layers = [flat[f"{part}/layers_{n}/{inside}"] for n in range(count)]
    elif inside.startswith("relpos_bias"):
      layers = [array + (0 if same else n) for n in range(count)]
    else:
      if not inside.startswith("layers_"):
        found[name] = array
      continue
    found[f"{part}/{part}/{inside}"] = np.stack(layers, axis=min(axis, array.ndim))
  return traverse_util.unflatten_dict(found, sep="/")


@pytest.mark.parametrize("write", [write_legacy, write_today])
@pytest.mark.parametrize("axis", [0, 1])
def test_t5x_scanned_layers_are_unstacked(tmp_path, convert, params, write, axis):
  same_trees(params_of(convert(write(tmp_path / "checkpoint_7", scanned(params, axis)))), params)


def test_t5x_scanned_layers_with_differing_relpos_bias_are_refused(tmp_path, convert, params):
  source = write_today(tmp_path / "checkpoint_7", scanned(params, same=False))
  assert "each layer of its decoder has a relpos_bias of its own" in convert(source, code=2).replace(
    "encoder", "decoder"
  )


@pytest.mark.parametrize("folder", ["../outside", "/etc", "target.x/../../y", ".."])
def test_t5x_tensorstore_spec_outside_the_folder_is_refused(tmp_path, convert, params, folder):
  source = write_legacy(
    tmp_path / "checkpoint_7",
    params,
    rename=lambda name: folder if "wi_0" in name and "/" in folder else name,
  )
  if "/" not in folder:
    source = write_legacy(
      tmp_path / "checkpoint_8", {"token_embedder": params["token_embedder"]}, rename=lambda _: "x"
    )
    data = serialization.msgpack_restore((source / "checkpoint").read_bytes())
    data["optimizer"]["target"]["token_embedder"]["embedding"]["kvstore"]["path"] = folder
    (source / "checkpoint").write_bytes(serialization.msgpack_serialize(data))
  assert "nor a zarr folder" in convert(source, code=2)


def _shorten(path, size):
  path.write_bytes(path.read_bytes()[:-size])


CHUNK = "target.decoder.layers_1.mlp.wo.kernel/1.0"


@pytest.mark.parametrize(
  "damage, message",
  [
    (lambda source: (source / "target.decoder.logits_dense.kernel").rename(source / "elsewhere"),
     "target.decoder.logits_dense.kernel, which holds target/decoder/logits_dense/kernel, is missing"),
    (lambda source: (source / CHUNK).unlink(),
     "1 of the chunks of target/decoder/layers_1/mlp/wo/kernel are missing"),
    (lambda source: _shorten(source / CHUNK, 9), "target.decoder.layers_1.mlp.wo.kernel: cannot be read"),
    (lambda source: _shorten(source / "checkpoint", 100), "or not a msgpack checkpoint"),
  ],
  ids=["folder", "chunk", "damaged chunk", "msgpack"],
)  # fmt: skip
def test_t5x_damaged_checkpoint_is_refused(tmp_path, convert, params, damage, message):
  source = write_legacy(tmp_path / "checkpoint_7", params)
  damage(source)
  assert message in convert(source, code=2)


@pytest.mark.parametrize(
  "change, message",
  [
    (lambda flat: flat.pop("decoder/layers_1/mlp/wo/kernel"), "no tensor target/decoder/layers_1/mlp/wo/kernel, which"),
    (lambda flat: flat.pop("decoder/logits_dense/kernel"), "no tensor decoder/logits_dense/kernel: not a T5.1.1"),
    (lambda flat: flat.update({"decoder/extra/scale": np.zeros(4, np.float32)}), "decoder/extra/scale (4,) has no"),
    (lambda flat: flat.update({"encoder/layers_1/mlp/wo/kernel": np.zeros((20, 15), np.float32)}),
     "encoder/layers_1/mlp/wo/kernel has shape (20, 15), and its other shapes ask for (20, 16)"),
    (lambda flat: flat.update({"encoder/encoder/layers/mlp/wo/kernel": np.zeros((2, 20, 16), np.float32)}), "stacked"),
    (lambda flat: flat.update({"vit/final_norm/scale": np.zeros(4, np.float32)}), "a captioner, not a T5: use"),
  ],
  ids=["missing", "tied", "extra", "shape", "scanned", "captioner"],
)  # fmt: skip
def test_t5x_mismatched_parameters_are_refused(tmp_path, convert, params, change, message):
  flat = traverse_util.flatten_dict(params, sep="/")
  change(flat)
  source = write_legacy(tmp_path / "checkpoint_7", traverse_util.unflatten_dict(flat, sep="/"))
  assert message in convert(source, code=2)
