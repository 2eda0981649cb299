"""`xmcap convert`: its options, and what it writes of a captioner and of a run."""

import functools
import json
import shutil

import jax
import numpy as np
import pytest
from flax import traverse_util
from safetensors.numpy import load_file, save_file

from tests.make import files
from tests.make.command import Result, xmcap, xmcap_without
from xmcap.convert import source
from xmcap.files import tensors as tensor_files
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

T5 = T5Config(37, 16, 2, 12, 2, 3, 20)
VITS = {
  "SiglipVisionModel": ViTConfig(16, 2, 24, 2, 4, 12),
  "ViTModel": ViTConfig(16, 2, 24, 2, 4, 12, "tok", activation="gelu"),
  "CLIPVisionModel": ViTConfig(
    16, 2, 24, 2, 4, 12, "tok", pre_norm=True, patch_bias=False, activation="quick_gelu"
  ),
}
VIT = VITS["ViTModel"]


def captioner(vit=VIT) -> dict[str, np.ndarray]:
  """The parameters of a captioner, random."""
  rng = np.random.RandomState(0)
  projection = {"projection/kernel": (16, 16), "projection/bias": (16,)}
  shapes = source.parameter_shapes(T5) | source.parameter_shapes(vit) | projection
  return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder, parameters, **configs):
  """Writes a folder of parameters with their configurations."""
  folder.mkdir(parents=True)
  if parameters:
    save_file(parameters, folder / "params.safetensors")
  parts = {name: model_json.of_config(config) for name, config in configs.items()}
  (folder / "model.json").write_text(model_json.as_text(model_json.Model(parts, "emoji36")))
  return folder


def write_run(folder):
  """Writes a checkpoint as the training loop does, with stacked layers."""
  from xmcap.training.checkpoints import write as checkpoints
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.step import create_state

  parameters = captioner()
  for name in [name for name in parameters if "layers_0/" in name]:
    count = 3 if "decoder" in name else 2
    layers = [parameters.pop(name.replace("layers_0", f"layers_{layer}")) for layer in range(count)]
    parameters[name.replace("layers_0", "layers")] = np.stack(layers)
  params = jax.tree.map(jax.numpy.asarray, traverse_util.unflatten_dict(parameters, sep="/"))
  run = checkpoints.Checkpoints(write(folder, {}, vit=VIT, t5=T5))
  run.save(3, create_state(params, Optimizer(adam)))
  run.close()


def convert(folder, out, *options) -> Result:
  return xmcap("convert", f"--input={folder}", f"--out={out}", *options)


def assert_equal_parameters(folder, expected):
  for name, array in load_file(folder / "params.safetensors").items():
    np.testing.assert_array_equal(array, expected[name])


@pytest.fixture(scope="module", autouse=True)
def shapes_are_traced_once():
  """Tracing a model for its shapes takes most of a conversion's time."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(source, "variable_shapes", functools.cache(source.variable_shapes))
    yield


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
  """Folders to convert: `t5` and `hf` hold the same T5, `run` a checkpoint; the others cannot be converted."""
  folder = tmp_path_factory.mktemp("sources")
  whole, text = captioner(), source.parameter_shapes(T5)
  t5 = {name: whole[name] for name in text}
  write(folder / "t5", t5, t5=T5)
  write(folder / "vit", {name: whole[name] for name in source.parameter_shapes(VIT)}, vit=VIT)
  for part, out in (("t5", "hf"), ("vit", "hf_vit")):
    convert(folder / part, folder / out, "--to=hf").succeeded()
  write_run(folder / "run")
  shutil.copytree(folder / "run", folder / "undescribed")
  (folder / "undescribed/model.json").unlink()
  (folder / "empty").mkdir()
  files.text(folder / "notes.txt", "hello")
  gap = ViTConfig(16, 2, 24, 2, 4, 12, "gap", pre_norm=True)
  write(folder / "gap", captioner(gap), vit=gap, t5=T5)
  for name, lost in (("unbiased", "projection/bias"), ("truncated", "decoder/decoder_norm/scale")):
    write(folder / name, {key: value for key, value in whole.items() if key != lost}, vit=VIT, t5=T5)
  for name, change in (("wider", {"mlp_dim": 28}), ("shallower", {"num_encoder_layers": 1})):
    model = json.loads((write(folder / name, whole, vit=VIT, t5=T5) / "model.json").read_text())
    model["t5"] |= change
    files.json(folder / name / "model.json", model)
  return folder


@pytest.mark.parametrize("name", VITS)
def test_convert_captioner_to_hugging_face_and_back(tmp_path, name):
  parameters = captioner(VITS[name])
  folder = write(tmp_path / "source", parameters, vit=VITS[name], t5=T5)
  convert(folder, tmp_path / "hf", "--to=hf").succeeded()
  linear = load_file(tmp_path / "hf/projection.safetensors")
  np.testing.assert_array_equal(linear["weight"].T, parameters["projection/kernel"])
  np.testing.assert_array_equal(linear["bias"], parameters["projection/bias"])
  assert json.loads((tmp_path / "hf/vit/config.json").read_text())["architectures"] == [name]
  for part in ("t5", "vit"):
    convert(tmp_path / "hf" / part, tmp_path / part).succeeded()
    assert_equal_parameters(tmp_path / part, parameters)


@pytest.mark.full
@pytest.mark.parametrize("name", VITS)
def test_converted_captioner_is_loaded_by_transformers(tmp_path, name):
  transformers = pytest.importorskip("transformers")
  folder = write(tmp_path / "source", captioner(VITS[name]), vit=VITS[name], t5=T5)
  convert(folder, tmp_path / "hf", "--to=hf").succeeded()
  for model, part in (("MT5ForConditionalGeneration", "t5"), (name, "vit")):
    # A ViTModel's pooler is none of the captioner's.
    options = {"add_pooling_layer": False} if model == "ViTModel" else {}
    load = getattr(transformers, model).from_pretrained
    _, info = load(tmp_path / "hf" / part, output_loading_info=True, **options)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info


def test_convert_a_checkpoint_with_stacked_layers(tmp_path, sources):
  converted = convert(sources / "run/checkpoints/3", tmp_path / "hf", "--to=hf", "--part=t5")
  converted.succeeded("left out because of --part=t5: projection, vit")
  convert(tmp_path / "hf", tmp_path / "back").succeeded()
  assert len(load_file(tmp_path / "back/params.safetensors")) == len(source.parameter_shapes(T5))
  assert_equal_parameters(tmp_path / "back", captioner())


def test_convert_only_the_t5_of_a_captioner_with_an_unknown_vit(tmp_path, sources):
  convert(sources / "gap", tmp_path / "out", "--to=hf", "--part=t5").succeeded()


@pytest.mark.parametrize(
  "name, options, message",
  [
    ("hf", ["--from=torch"], "argument --from: invalid choice: 'torch'"),
    ("hf", ["--from=t5x"], "holds the format hf, not t5x"),
    ("hf", ["--to=onnx"], "argument --to: invalid choice: 'onnx'"),
    ("hf", ["--part=t5"], "dual alone is taken"),
    ("hf", ["--to=hf", "--part=head"], "--part=head: unknown; use one of all, t5, vit"),
    ("hf", ["--to=hf", "--pool=gap"], "leave them out with --to=hf"),
    ("hf", ["--to=hf"], "--to=hf takes a run's folder"),
    ("hf", ["--pool=gap"], "is a T5, which has no pooling"),
    ("hf", ["--pol=gap"], "did you mean --pool?"),
    ("hf_vit", ["--pool=mean"], "unknown ViTConfig.pool 'mean'"),
    ("absent", [], "no such file or folder"),
    ("empty", [], "empty: neither model.safetensors nor model.safetensors.index.json there"),
    ("notes.txt", [], "notes.txt: not what xmcap converts"),
    ("hf/model.safetensors", [], "give a Hugging Face folder"),
    ("t5", [], "name it in train.pretrained"),
    ("gap", ["--to=hf"], "no class for a ViT with pool 'gap', pre_norm True"),
    ("undescribed", ["--to=hf"], "model.json, which describes the weights, is missing"),
    ("unbiased", ["--to=hf"], "no tensor projection/bias, which its configuration asks for"),
    ("truncated", ["--to=hf"], "no tensor decoder/decoder_norm/scale, which its configuration asks for"),
    ("wider", ["--to=hf"], "wi_0/kernel has shape (16, 20), and its configuration asks for (16, 28)"),
    ("shallower", ["--to=hf"], "encoder/layers_1/"),
  ],
)
def test_convert_refuses_invalid_options_and_sources(tmp_path, sources, name, options, message):
  convert(sources / name, tmp_path / "out", *options).refused(message)
  assert not list(tmp_path.rglob("*.*"))


def test_convert_does_not_overwrite_its_output(tmp_path, sources):
  out = tmp_path / "out"
  convert(sources / "hf", out).succeeded()
  before = (out / "params.safetensors").read_bytes()
  convert(sources / "hf", out).refused("out")
  assert (out / "params.safetensors").read_bytes() == before
  convert(sources / "t5", sources / "hf", "--to=hf").refused("hf")
  run = files.text(tmp_path / "run/model.json", "of a run")
  convert(sources / "hf", run.parent).refused("run")
  assert run.read_text() == "of a run"


def test_convert_prints_the_next_command(tmp_path, sources):
  out = tmp_path / "out"
  convert(sources / "hf", out).succeeded(f"--gin.PRETRAINED=\"['{out}']\"")
  assert sorted(path.name for path in out.iterdir()) == ["model.json", "params.safetensors"]


def test_convert_failed_write_leaves_no_files(tmp_path, sources, monkeypatch):
  def full(*_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(tensor_files.os, "fsync", full)
  convert(sources / "hf", tmp_path / "out").refused("No space left", code=1)
  assert not (tmp_path / "out").exists()


def test_convert_imports_no_torch_transformers_or_tensorflow(tmp_path, sources):
  ours = tmp_path / "ours"
  calls = (
    ["convert", f"--input={sources / 'hf'}", f"--out={ours}"],
    ["convert", "--to=hf", f"--input={ours}", f"--out={tmp_path / 'theirs'}"],
  )
  for result in xmcap_without(("torch", "transformers", "tensorflow"), *calls):
    result.succeeded()
