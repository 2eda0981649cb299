"""Folders as transformers 5.23.0 with torch 2.13.0 writes them, small, with random weights."""

import dataclasses
import functools
import json
import pathlib

import jax
import numpy as np
import pytest
from flax import traverse_util

from tests.make import files, models
from tests.make.command import xmcap
from xmcap.files.tensors import read_safetensors
from xmcap.models import model_json, stacking
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViT, ViTConfig

T5_SIZES = dict(
  vocab_size=37, d_model=16, d_kv=12, d_ff=20, num_layers=2, num_decoder_layers=3, num_heads=2, dropout_rate=0.0,
  feed_forward_proj="gated-gelu",
)  # fmt: skip
VIT_SIZES = dict(
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=24,
  image_size=12,
  patch_size=4,
)


@models.once
def write_mt5(folder, seed=0, tied=False, **sizes):
  """An mT5, with logits of its own unless tied; returns the folder."""
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  torch.manual_seed(seed)
  model = transformers.MT5ForConditionalGeneration(transformers.MT5Config(**T5_SIZES | sizes))
  for name, p in model.named_parameters():
    p.data = torch.randn_like(p) * 0.2 + (1.0 if "norm" in name else 0.0)
  if not tied:
    # Its class ties the two; public files hold both, and then it lets them be.
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
  model.save_pretrained(folder)
  if not tied:
    edit_json(folder / "config.json", tie_word_embeddings=False)
  return folder


@models.once
def write_tower(folder, kind, seed=0, whole=False, **sizes):
  """A vision tower (`ViT`, `CLIP`, `Siglip`), or the whole model it is part of; returns the folder."""
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  torch.manual_seed(seed)
  sizes = VIT_SIZES | sizes
  if whole:
    text = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=11,
                bos_token_id=1, eos_token_id=2, pad_token_id=0)  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=sizes)
    model = getattr(transformers, f"{kind}Model")(config)
  else:
    vision = "" if kind == "ViT" else "Vision"
    model = getattr(transformers, f"{kind}{vision}Model")(
      getattr(transformers, f"{kind}{vision}Config")(**sizes)
    )
  for name, p in model.named_parameters():
    p.data = torch.randn_like(p) * 0.2 + (1.0 if "norm" in name and "weight" in name else 0.0)
  model.save_pretrained(folder)
  return folder


def edit_json(path, **changes):
  """Changes fields; of a field that is an object, only those of its fields that are given."""
  path = pathlib.Path(path)
  values = json.loads(path.read_text())
  for name, value in changes.items():
    both = isinstance(value, dict) and isinstance(values.get(name), dict)
    values[name] = values[name] | value if both else value
  path.write_text(json.dumps(values))


def params_of(folder):
  """The parameters in a folder that `xmcap convert` wrote, a nested dict of float32."""
  flat = {
    name: tensor.read()
    for name, tensor in read_safetensors(pathlib.Path(folder, "params.safetensors")).items()
  }
  return traverse_util.unflatten_dict({name: np.asarray(x, np.float32) for name, x in flat.items()}, sep="/")


def config_of(folder, config):
  """`T5Config` or `ViTConfig` as the folder's model.json says it, in float32."""
  part = "t5" if config is T5Config else "vit"
  return dataclasses.replace(
    model_json.read(pathlib.Path(folder, "model.json")).config(part), dtype="float32"
  )


def vit_features(folder, images):
  """What the ViT in a folder that `xmcap convert` wrote makes of images."""
  params = stacking.stack(params_of(folder)["vit"])
  return np.asarray(_vit(config_of(folder, ViTConfig))({"params": params}, images))


@functools.cache
def _vit(config):
  return jax.jit(ViT(config).apply)


def embedded(folder, pixels, texts):
  """Embeddings of pictures and texts by the dual tower in a folder that `xmcap convert` wrote, and their logits."""
  from xmcap.families.dual.model import DualTower
  from xmcap.training.checkpoints import weights

  model, params = model_json.read(folder / "model.json"), weights.read_all(str(folder))
  params.setdefault("logit_bias", np.zeros((), np.float32))
  module = DualTower(model.config("vit"), model.config("text"), model.config("dual"))

  @jax.jit
  def run(params, pixels, texts):
    image = module.apply({"params": params}, pixels, method="embed_images")
    text = module.apply({"params": params}, texts, method="embed_texts")
    return image, text, jax.numpy.exp(params["logit_scale"]) * text @ image.T + params["logit_bias"]

  return [np.asarray(array) for array in run(params, pixels, texts)]


def embed_labels(folder, out, labels, *options):
  """Runs `xmcap embed` with names of classes: language -> ids and names."""
  path = files.json(out.with_name("labels.json"), labels)
  return xmcap("embed", f"--model_dir={folder}", f"--labels={path}", f"--out={out}", *options)


def same_trees(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture
def convert(tmp_path):
  """Runs `xmcap convert`: (input, options) -> the new folder, or the error's line if it fails with `code`."""
  count = iter(range(100))

  def run(path, *options, code=0):
    out = tmp_path / f"converted{next(count)}"
    result = xmcap("convert", f"--input={path}", f"--out={out}", *options)
    run.printed = result.out
    if code == 0:
      result.succeeded()
      return out
    result.refused(code=code)
    assert not (out / "params.safetensors").exists() and not (out / "model.safetensors").exists()
    return result.err.splitlines()[-1]

  return run
