"""`xmcap convert`: its options, and what it writes of a run."""

import jax
import numpy as np
import pytest
from flax import traverse_util
from safetensors.numpy import load_file, save_file

from tests.convert.conftest import convert, write_mt5, write_tower  # noqa: F401
from xmcap.convert.source import parameter_shapes
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


def captioner(vit, stacked=False):
  """{path: array} of a captioner, random."""
  rng = np.random.RandomState(0)
  shapes = (
    parameter_shapes(T5) | parameter_shapes(vit) | {"projection/kernel": (16, 16), "projection/bias": (16,)}
  )
  flat = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
  if stacked:
    for name in [name for name in flat if "layers_0/" in name]:
      layers = [
        flat.pop(name.replace("layers_0", f"layers_{n}")) for n in range(3 if "decoder" in name else 2)
      ]
      flat[name.replace("layers_0", "layers")] = np.stack(layers)
  return flat


def write_run(folder, vit, stacked=False):
  """A run's folder: a checkpoint as the training loop writes it, and its configuration."""
  from xmcap.training.checkpoints import write as checkpoints
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.step import create_state

  params = jax.tree.map(jax.numpy.asarray, traverse_util.unflatten_dict(captioner(vit, stacked), sep="/"))
  run = checkpoints.Checkpoints(folder)
  run.save(3, create_state(params, Optimizer(adam)))
  run.close()
  model = model_json.Model({"vit": model_json.of_config(vit), "t5": model_json.of_config(T5)}, "emoji36")
  (folder / "model.json").write_text(model_json.as_text(model))
  return folder


@pytest.mark.parametrize("name", VITS)
def test_convert_captioner_to_hugging_face(tmp_path, convert, name):  # noqa: F811
  out = convert(write_run(tmp_path / "run", VITS[name]), "--to=hf")
  flat = captioner(VITS[name])
  linear = load_file(out / "projection.safetensors")
  np.testing.assert_array_equal(linear["weight"].T, flat["projection/kernel"])
  np.testing.assert_array_equal(linear["bias"], flat["projection/bias"])
  transformers = pytest.importorskip("transformers")
  for model, part in (("MT5ForConditionalGeneration", "t5"), (name, "vit")):
    # A ViTModel's pooler is none of the captioner's.
    options = {"add_pooling_layer": False} if model == "ViTModel" else {}
    _, info = getattr(transformers, model).from_pretrained(out / part, output_loading_info=True, **options)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
  # And back, to what it was.
  for part in ("t5", "vit"):
    back = load_file(convert(out / part) / "params.safetensors")
    for path, array in back.items():
      np.testing.assert_array_equal(array, flat[path])


def test_convert_a_checkpoint_with_stacked_layers(tmp_path, convert):  # noqa: F811
  run = write_run(tmp_path / "run", VITS["ViTModel"], stacked=True)
  out = convert(run / "checkpoints/3", "--to=hf", "--part=t5")
  assert "left out because of --part=t5: projection, vit" in convert.printed
  back = load_file(convert(out) / "params.safetensors")
  flat = captioner(VITS["ViTModel"])
  assert len(back) == len(parameter_shapes(T5))
  for path, array in back.items():
    np.testing.assert_array_equal(array, flat[path])


def test_convert_refuses_a_vit_unknown_to_transformers(tmp_path, convert):  # noqa: F811
  vit = ViTConfig(16, 2, 24, 2, 4, 12, "gap", pre_norm=True)
  run = write_run(tmp_path / "run", vit)
  line = convert(run, "--to=hf", code=2)
  assert "no class for a ViT with pool 'gap', pre_norm True" in line and "--part=t5" in line
  convert(run, "--to=hf", "--part=t5")


def test_convert_refuses_parameters_against_model_json(tmp_path, convert):  # noqa: F811
  run = write_run(tmp_path / "run", VITS["ViTModel"])
  config = (run / "model.json").read_text()
  (run / "model.json").write_text(config.replace('"mlp_dim": 20', '"mlp_dim": 28'))
  line = convert(run, "--to=hf", code=2)
  assert "layers_0/mlp/wi_0/kernel has shape (16, 20), and its configuration asks for (16, 28)" in line
  (run / "model.json").write_text(config.replace('"num_encoder_layers": 2', '"num_encoder_layers": 1'))
  assert "encoder/layers_1/" in convert(run, "--to=hf", code=2)
  (run / "model.json").unlink()
  assert "model.json, which describes the weights, is missing" in convert(run, "--to=hf", code=2)


def test_convert_refuses_a_captioner_with_a_partial_projection(tmp_path, convert):  # noqa: F811
  ours = convert(write_mt5(tmp_path / "mt5"))
  flat = captioner(VITS["ViTModel"])
  flat.pop("projection/bias")
  save_file(flat, ours / "params.safetensors")
  model = model_json.Model({"vit": model_json.of_config(VITS["ViTModel"]), "t5": model_json.of_config(T5)})
  (ours / "model.json").write_text(model_json.as_text(model))
  assert "no tensor projection/bias, which its configuration asks for" in convert(ours, "--to=hf", code=2)
  assert not list((tmp_path / "converted1").rglob("*.json"))


@pytest.mark.parametrize(
  "options, message",
  [
    (
      ["--from=torch"],
      "argument --from: invalid choice: 'torch'",
    ),
    (["--from=t5x"], "holds the format hf, not t5x"),
    (["--to=onnx"], "argument --to: invalid choice: 'onnx'"),
    (["--part=t5"], "dual alone is taken"),
    (["--to=hf", "--part=head"], "--part=head: unknown; use one of all, t5, vit"),
    (["--to=hf", "--pool=gap"], "leave them out with --to=hf"),
    (["--to=hf"], "--to=hf takes a run's folder"),
    (["--pool=gap"], "is a T5, which has no pooling"),
    (["--pol=gap"], "did you mean --pool?"),
  ],
)
def test_convert_refuses_invalid_options(tmp_path, convert, options, message):  # noqa: F811
  assert message in convert(write_mt5(tmp_path / "mt5"), *options, code=2)


def test_convert_refuses_an_unknown_pool(tmp_path, convert):  # noqa: F811
  assert "unknown ViTConfig.pool 'mean'" in convert(
    write_tower(tmp_path / "vit", "ViT"), "--pool=mean", code=2
  )


def test_convert_refuses_inputs_without_weights(tmp_path, convert):  # noqa: F811
  assert "no such file or folder" in convert(tmp_path / "absent", code=2)
  (tmp_path / "empty").mkdir()
  assert "empty: not what xmcap converts" in convert(tmp_path / "empty", code=2)
  (tmp_path / "notes.txt").write_text("hello")
  assert "notes.txt: not what xmcap converts" in convert(tmp_path / "notes.txt", code=2)
  source = write_mt5(tmp_path / "mt5")
  assert "give a Hugging Face folder" in convert(source / "model.safetensors", code=2)
  assert "name it in train.pretrained" in convert(convert(source), code=2)


def test_convert_does_not_overwrite_its_output(tmp_path, convert):  # noqa: F811
  from xmcap import cli

  source = write_mt5(tmp_path / "mt5")
  out = convert(source)
  before = (out / "params.safetensors").read_bytes()
  assert cli.main(["convert", f"--input={source}", f"--out={out}"]) == 2
  assert (out / "params.safetensors").read_bytes() == before
  ours = convert(source)
  assert cli.main(["convert", f"--input={ours}", f"--out={source}", "--to=hf"]) == 2
  run = tmp_path / "run"
  run.mkdir()
  (run / "model.json").write_text("of a run")
  assert cli.main(["convert", f"--input={source}", f"--out={run}"]) == 2
  assert (run / "model.json").read_text() == "of a run"


def test_convert_prints_the_next_command(tmp_path, convert):  # noqa: F811
  out = convert(write_mt5(tmp_path / "mt5"))
  assert sorted(path.name for path in out.iterdir()) == ["model.json", "params.safetensors"]
  assert f"--gin.PRETRAINED=\"['{out}']\"" in convert.printed


def test_convert_failed_write_leaves_no_files(tmp_path, convert, monkeypatch):  # noqa: F811
  source = write_mt5(tmp_path / "mt5")
  from xmcap import cli
  from xmcap.files import tensors as tensor_files

  def full(*_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(tensor_files.os, "fsync", full)
  out = tmp_path / "out"
  assert cli.main(["convert", f"--input={source}", f"--out={out}"]) == 1
  assert not out.exists()


def test_convert_imports_no_torch_transformers_or_tensorflow(tmp_path):
  import subprocess
  import sys

  source = write_mt5(tmp_path / "mt5")
  program = (
    "import sys\nfrom xmcap import cli\n"
    f"assert cli.main(['convert', '--input={source}', '--out={tmp_path / 'ours'}']) == 0\n"
    f"assert cli.main(['convert', '--to=hf', '--input={tmp_path / 'ours'}', '--out={tmp_path / 'theirs'}']) == 0\n"
    "print([name for name in ('torch', 'transformers', 'tensorflow') if name in sys.modules])"
  )
  done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
  assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_convert_refuses_a_truncated_params_safetensors(tmp_path, convert):  # noqa: F811
  ours = convert(write_mt5(tmp_path / "mt5"))
  tensors = load_file(ours / "params.safetensors")
  tensors.pop("decoder/decoder_norm/scale")
  save_file(tensors, ours / "params.safetensors")
  assert "no tensor decoder/decoder_norm/scale, which its configuration asks for" in convert(
    ours, "--to=hf", code=2
  )
