"""A run's model follows from the weights that it starts from: `model.json` of the PRETRAINED folders."""

import json
import shutil

import pytest

from tests.make.command import xmcap
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

# As `xmcap convert` writes them: activation, epsilon, pooling and size of a ViT that models/bb.gin does not describe.
VIT = ViTConfig(768, 12, 3072, 12, 16, 384, "tok", activation="gelu", norm_epsilon=1e-12, dropout_rate=0.5)
T5 = T5Config(250112, 768, 12, 64, 12, 12, 1024, activation="relu")
_COMMAND = ["train", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin", "--explain"]


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


def write(folder, **configs):
  folder.mkdir(parents=True)
  (folder / "params.safetensors").touch()
  parts = {part: model_json.of_config(config) for part, config in configs.items()}
  (folder / model_json.NAME).write_text(model_json.as_text(model_json.Model(parts)))
  return folder


@pytest.fixture
def weights(tmp_path):
  write(tmp_path / "vit", vit=VIT)
  write(tmp_path / "mt5", t5=T5)
  return tmp_path


def explained(*more, pretrained="['mt5', 'vit']"):
  done = xmcap(*_COMMAND, f"--gin.PRETRAINED={pretrained}", *more).succeeded()
  return dict(line.split(" = ", 1) for line in done.out.splitlines() if " = " in line), done.err


def test_model_sizes_come_from_pretrained_model_json(weights):
  bound, said = explained()
  assert bound["ViTConfig.pool"] == "'tok'" and bound["ViTConfig.activation"] == "'gelu'"
  assert bound["T5Config.mlp_dim"] == "1024" and bound["T5Config.activation"] == "'relu'"
  # Of the run: its picture size, its dropout.
  assert bound["IMAGE_SIZE"] == "224" and bound["T5Config.dropout_rate"] == "0.1"
  assert "ViTConfig.dropout_rate" not in bound
  assert said.splitlines() == [
    "mt5/model.json: T5Config.activation 'gelu_tanh' -> 'relu', T5Config.mlp_dim 2048 -> 1024",
    "vit/model.json: ViTConfig.activation 'gelu_tanh' -> 'gelu', ViTConfig.norm_epsilon 1e-06 -> 1e-12,"
    " ViTConfig.pool 'map' -> 'tok'",
  ]


def test_gin_override_wins_over_pretrained_model_json(weights):
  bound, _ = explained("--gin.ViTConfig.pool=gap")
  assert bound["ViTConfig.pool"] == "'gap'" and bound["ViTConfig.activation"] == "'gelu'"


def test_named_model_json_wins_over_pretrained(weights):
  write(weights / "other", vit=ViTConfig(768, 12, 3072, 12, 16, 224, "gap"))
  bound, _ = explained("--gin_file=other/model.json")
  assert bound["ViTConfig.pool"] == "'gap'" and bound["ViTConfig.activation"] == "'gelu_tanh'"
  assert bound["T5Config.mlp_dim"] == "1024"


def test_pretrained_prefix_keeps_the_pooling_of_the_run(weights):
  bound, _ = explained(pretrained="[('vit', 'vit'), ('mt5', 'encoder')]")
  assert bound["ViTConfig.pool"] == "'map'" and bound["ViTConfig.activation"] == "'gelu'"
  assert bound["T5Config.mlp_dim"] == "2048"


def test_pretrained_without_model_json_changes_nothing(weights):
  (weights / "vit/model.json").unlink()
  bound, said = explained(pretrained="vit")
  assert bound["ViTConfig.pool"] == "'map'" and said == ""


def test_resumed_run_keeps_sizes_without_pretrained_weights(weights):
  write(weights / "run", vit=VIT, t5=T5)
  shutil.rmtree(weights / "vit")
  bound, _ = explained("--gin.MODEL_DIR=run")
  assert bound["ViTConfig.pool"] == "'tok'"


def test_pretrained_checkpoint_uses_model_json_of_its_run(weights):
  write(weights / "run", vit=VIT, t5=T5)
  (weights / "run/checkpoints/7").mkdir(parents=True)
  bound, _ = explained(pretrained="run/checkpoints/7")
  assert bound["T5Config.mlp_dim"] == "1024"


def test_invalid_pretrained_model_json_is_refused(weights):
  text = json.loads((weights / "vit/model.json").read_text())
  text["vit"]["width"] = "wide"
  (weights / "vit/model.json").write_text(json.dumps(text))
  xmcap(*_COMMAND, "--gin.PRETRAINED=vit").refused("vit/model.json: vit.width")
