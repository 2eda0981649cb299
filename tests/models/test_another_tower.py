"""Adding an image tower (DINOv2): its module, a line in `PARTS`, a gin file. It trains, is saved, captions."""

import json
import pathlib

import gin
import jax
import numpy as np
import pytest

from tests import drawn_params
from tests.make import small_corpus
from tests.make.command import xmcap
from tests.models.dinov2_tower import Dinov2, Dinov2Config
from xmcap.errors import UsageError
from xmcap.models import model_json, parts, stacking
from xmcap.models.captioner import Captioner, variable_shapes
from xmcap.models.t5 import T5Config
from xmcap.planning.parameters import count_parameters
from xmcap.training.checkpoints import read

GIN = pathlib.Path(__file__).with_name("dinov2.gin")
CONFIG = Dinov2Config(16, 2, 32, 2, 4, 12, dtype="float32")
T5 = T5Config(23, 12, 2, 8, 1, 1, 20, dtype="float32")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
  """The registration: what a product's tower has as a line in `PARTS`."""
  place = "tests.models.dinov2_tower"
  part = parts.ModelPart(f"{place}:Dinov2Config", f"{place}:Dinov2", "width", "num_tokens", of_weights=True)
  monkeypatch.setitem(parts.PARTS, "dinov2", part)


@pytest.mark.slow
def test_dinov2_tower_trains_is_saved_and_captions(tmp_path):
  corpus = small_corpus.write(tmp_path / "corpus", "folder", languages=("fa", "quz", "sw"))
  (corpus / "languages.txt").write_text("fa\nquz\nsw\n")
  out = tmp_path / "model"
  xmcap(
    "train", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin", f"--gin_file={GIN}", "--allow_import",
    f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={out}", f"--gin.VOCABULARY={corpus / 'vocabulary.model'}",
    "--gin.TOTAL_STEPS=2", "--gin.BATCH_SIZE=4", "--gin.hooks.evaluators=[]",
    "--gin.CaptionStream.target_lengths=(64,)",
  ).succeeded()  # fmt: skip
  model = model_json.of_folder(out)
  assert list(model.parts) == ["t5", "dinov2"]
  assert model.captioner()[0] == Dinov2Config(16, 2, 32, 2, 4, 12)
  params = read.flat(read.load_params(out))
  assert params["vit/registers"].shape == (4, 16) and params["vit/layers/mlp_scale/scale"].shape == (2, 16)
  assert np.abs(params["vit/layers/mlp_scale/scale"] - 1).min() > 0  # it learnt
  picture = min((corpus / "images").iterdir())
  printed = xmcap("caption", f"--model_dir={out}", "--languages=fa,sw", "--json", picture).succeeded().out
  rows = [json.loads(line) for line in printed.splitlines()]
  assert [row["language"] for row in rows] == ["fa", "sw"]


def test_dinov2_tower_shapes_and_parts():
  shapes = variable_shapes(CONFIG, T5)["params"]
  assert shapes["projection"]["kernel"].shape == (parts.width(CONFIG), 12)
  assert count_parameters(CONFIG, T5)["vit/registers"] == 4 * 16
  assert parts.of_module(Captioner(CONFIG, T5)) == {"dinov2": CONFIG, "t5": T5}


def test_two_towers_in_gin_are_refused():
  assert parts.bound_image_config().__name__ == "ViTConfig"
  gin.bind_parameter("Dinov2Config.image_size", 12)
  assert parts.bound_image_config() is Dinov2Config
  gin.bind_parameter("ViTConfig.image_size", 12)
  with pytest.raises(UsageError, match="two image towers, ViTConfig and Dinov2Config"):
    parts.bound_image_config()


def test_dinov2_tower_equals_transformers():
  transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
  theirs = transformers.Dinov2WithRegistersModel(
    transformers.Dinov2WithRegistersConfig(
      hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=12, patch_size=4,
      num_register_tokens=4,
    )
  ).eval()  # fmt: skip
  module = Dinov2(CONFIG)
  image = np.random.RandomState(0).randint(0, 256, (2, 12, 12, 3)).astype(np.uint8)
  shapes = jax.eval_shape(module.init, jax.random.key(0), image)["params"]
  params = drawn_params.like(shapes, scale=0.4)
  ours = stacking.flatten(stacking.unstack(params))
  state = {name: torch.tensor(np.asarray(value)) for name, value in _for_transformers(ours).items()}
  missing = theirs.load_state_dict(state, strict=False)
  assert missing.missing_keys == ["embeddings.mask_token"] and not missing.unexpected_keys
  mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
  pixels = torch.tensor(((image / 255 - mean) / std).transpose(0, 3, 1, 2), dtype=torch.float32)
  with torch.no_grad():
    expected = theirs(pixels).last_hidden_state[:, 1 + 4 :].numpy()
  np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, image), expected, rtol=1e-4, atol=1e-4)


def _for_transformers(ours):
  """The parameters {path: array} by their names in transformers 5."""
  names = {
    "attention_norm": "norm1", "mlp_norm": "norm2", "attention/query": "attention.q_proj",
    "attention/key": "attention.k_proj", "attention/value": "attention.v_proj", "attention/out": "attention.o_proj",
    "mlp/wi": "mlp.fc1", "mlp/wo": "mlp.fc2",
  }  # fmt: skip
  theirs = {
    "embeddings.cls_token": ours["class_token"][None, None],
    "embeddings.register_tokens": ours["registers"][None],
    "embeddings.position_embeddings": ours["position_embedding"][None],
    "embeddings.patch_embeddings.projection.weight": ours["patch_kernel"].transpose(3, 2, 0, 1),
    "embeddings.patch_embeddings.projection.bias": ours["patch_bias"],
    "layernorm.weight": ours["final_norm/scale"],
    "layernorm.bias": ours["final_norm/bias"],
  }
  for number in range(CONFIG.depth):
    below, above = f"layers_{number}", f"encoder.layer.{number}"
    theirs[f"{above}.layer_scale1.lambda1"] = ours[f"{below}/attention_scale/scale"]
    theirs[f"{above}.layer_scale2.lambda1"] = ours[f"{below}/mlp_scale/scale"]
    for name, other in names.items():
      weight = ours.get(f"{below}/{name}/kernel")
      theirs[f"{above}.{other}.weight"] = ours[f"{below}/{name}/scale"] if weight is None else weight.T
      theirs[f"{above}.{other}.bias"] = ours[f"{below}/{name}/bias"]
  return theirs
