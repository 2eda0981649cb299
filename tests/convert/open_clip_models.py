"""Small models of two towers with seeded weights, in OpenCLIP's names: the same numbers wherever they are made."""

import json

import numpy as np
from safetensors.numpy import save_file

from tests.make import models

WIDTH, HEADS, MLP, PATCH, SIZE, VOCAB, EMBED = 128, 2, 160, 4, 12, 40, 24
KINDS = ("clip", "quick", "xlm_roberta", "nllb", "siglip_i18n")
TEXTS = np.array([[0, 9, 4, 30, 12, 39], [0, 17, 39, 1, 1, 1], [0, 5, 22, 39, 1, 1]])
"""Of OpenCLIP's own towers 39, the highest id, ends a text; of the encoders 1 is padding."""


def images():
  return np.random.default_rng(1).integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.uint8)


class _Weights(dict):
  def __init__(self):
    super().__init__()
    self._random = np.random.RandomState(0)

  def add(self, name, *shape):
    values = 0.2 * self._random.standard_normal(shape) + (name.endswith("weight") and len(shape) == 1)
    self[name] = values.astype(np.float32)

  def dense(self, name, inputs, outputs, bias=True):
    self.add(f"{name}.weight", outputs, inputs)
    if bias:
      self.add(f"{name}.bias", outputs)

  def norm(self, name):
    self.add(f"{name}.weight", WIDTH)
    self.add(f"{name}.bias", WIDTH)

  def blocks(self, name):
    for n in range(2):
      block = f"{name}.{n}"
      self.norm(f"{block}.ln_1")
      self.add(f"{block}.attn.in_proj_weight", 3 * WIDTH, WIDTH)
      self.add(f"{block}.attn.in_proj_bias", 3 * WIDTH)
      self.dense(f"{block}.attn.out_proj", WIDTH, WIDTH)
      self.norm(f"{block}.ln_2")
      self.dense(f"{block}.mlp.c_fc", WIDTH, 4 * WIDTH)
      self.dense(f"{block}.mlp.c_proj", 4 * WIDTH, WIDTH)

  def vit(self):
    self.add("visual.class_embedding", WIDTH)
    self.add("visual.positional_embedding", (SIZE // PATCH) ** 2 + 1, WIDTH)
    self.add("visual.proj", WIDTH, EMBED)
    self.add("visual.conv1.weight", WIDTH, 3, PATCH, PATCH)
    self.norm("visual.ln_pre")
    self.blocks("visual.transformer.resblocks")
    self.norm("visual.ln_post")

  def timm(self):
    trunk = "visual.trunk"
    self.add(f"{trunk}.patch_embed.proj.weight", WIDTH, 3, PATCH, PATCH)
    self.add(f"{trunk}.patch_embed.proj.bias", WIDTH)
    self.add(f"{trunk}.pos_embed", 1, (SIZE // PATCH) ** 2, WIDTH)
    for n in range(2):
      block = f"{trunk}.blocks.{n}"
      self.norm(f"{block}.norm1")
      self.dense(f"{block}.attn.qkv", WIDTH, 3 * WIDTH)
      self.dense(f"{block}.attn.proj", WIDTH, WIDTH)
      self.norm(f"{block}.norm2")
      self.dense(f"{block}.mlp.fc1", WIDTH, 4 * WIDTH)
      self.dense(f"{block}.mlp.fc2", 4 * WIDTH, WIDTH)
    self.norm(f"{trunk}.norm")
    pool = f"{trunk}.attn_pool"
    self.add(f"{pool}.latent", 1, 1, WIDTH)
    self.dense(f"{pool}.q", WIDTH, WIDTH)
    self.dense(f"{pool}.kv", WIDTH, 2 * WIDTH)
    self.dense(f"{pool}.proj", WIDTH, WIDTH)
    self.norm(f"{pool}.norm")
    self.dense(f"{pool}.mlp.fc1", WIDTH, 4 * WIDTH)
    self.dense(f"{pool}.mlp.fc2", 4 * WIDTH, WIDTH)

  def text(self, prefix, bias, embed):
    self.add(f"{prefix}positional_embedding", 6, WIDTH)
    self.add(f"{prefix}token_embedding.weight", VOCAB, WIDTH)
    self.blocks(f"{prefix}transformer.resblocks")
    self.norm(f"{prefix}ln_final")
    if bias:
      self.dense(f"{prefix}text_projection", WIDTH, embed)
    else:
      self.add(f"{prefix}text_projection", WIDTH, embed)

  def xlm_roberta(self):
    encoder = "text.transformer"
    for name, rows in (("word", VOCAB), ("position", 20), ("token_type", 1)):
      self.add(f"{encoder}.embeddings.{name}_embeddings.weight", rows, WIDTH)
    self.norm(f"{encoder}.embeddings.LayerNorm")
    for n in range(2):
      layer = f"{encoder}.encoder.layer.{n}"
      for part in ("query", "key", "value"):
        self.dense(f"{layer}.attention.self.{part}", WIDTH, WIDTH)
      self.dense(f"{layer}.attention.output.dense", WIDTH, WIDTH)
      self.norm(f"{layer}.attention.output.LayerNorm")
      self.dense(f"{layer}.intermediate.dense", WIDTH, MLP)
      self.dense(f"{layer}.output.dense", MLP, WIDTH)
      self.norm(f"{layer}.output.LayerNorm")
    inner = (WIDTH + EMBED) // 2
    self.dense("text.proj.0", WIDTH, inner, bias=False)
    self.dense("text.proj.2", inner, EMBED, bias=False)

  def m2m100(self, embed):
    encoder = "text.transformer"
    self.add(f"{encoder}.embed_tokens.weight", VOCAB, WIDTH)
    for n in range(2):
      layer = f"{encoder}.layers.{n}"
      for part in ("q", "k", "v", "out"):
        self.dense(f"{layer}.self_attn.{part}_proj", WIDTH, WIDTH)
      self.norm(f"{layer}.self_attn_layer_norm")
      self.dense(f"{layer}.fc1", WIDTH, MLP)
      self.dense(f"{layer}.fc2", MLP, WIDTH)
      self.norm(f"{layer}.final_layer_norm")
    self.norm(f"{encoder}.layer_norm")
    self.dense("text.proj", WIDTH, embed, bias=False)


def weights(kind):
  """{name: array} of a kind's state dict."""
  found = _Weights()
  found["logit_scale"] = np.array(1.5, np.float32)
  if kind in ("nllb", "siglip_i18n"):
    found["logit_bias"] = np.array(-2.5, np.float32)
    found.timm()
  else:
    found.vit()
  if kind == "xlm_roberta":
    found.xlm_roberta()
  elif kind == "nllb":
    found.m2m100(WIDTH)
  elif kind == "siglip_i18n":
    found.text("text.", True, WIDTH)
  else:
    found.text("", False, EMBED)
  return dict(found)


def model_config(kind):
  """`model_cfg` of a kind, as in OpenCLIP's own configurations but for the sizes."""
  vision = {
    "image_size": SIZE,
    "layers": 2,
    "width": WIDTH,
    "head_width": WIDTH // HEADS,
    "patch_size": PATCH,
  }
  timm = {
    "image_size": SIZE, "timm_model_name": "vit_base_patch16_siglip_256", "timm_model_pretrained": False,
    "timm_pool": "map", "timm_proj": "none",
  }  # fmt: skip
  text = {"context_length": 6, "vocab_size": VOCAB, "width": WIDTH, "heads": HEADS, "layers": 2}
  if kind == "clip":
    return {"embed_dim": EMBED, "vision_cfg": vision, "text_cfg": text}
  if kind == "quick":
    return {"embed_dim": EMBED, "quick_gelu": True, "vision_cfg": vision, "text_cfg": text}
  if kind == "xlm_roberta":
    encoder = {"hf_model_name": "xlm-roberta-base", "hf_tokenizer_name": "xlm-roberta-base",
               "hf_pooler_type": "mean_pooler"}  # fmt: skip
    return {"embed_dim": EMBED, "vision_cfg": vision, "text_cfg": encoder}
  siglip = {"embed_dim": WIDTH, "init_logit_bias": -10, "custom_text": True, "vision_cfg": timm}
  if kind == "nllb":
    name = "facebook/nllb-200-distilled-600M"
    encoder = {"hf_model_name": name, "hf_tokenizer_name": name, "hf_proj_type": "linear",
               "hf_pooler_type": "cls_pooler"}  # fmt: skip
    return siglip | {"text_cfg": encoder}
  i18n = {
    "hf_tokenizer_name": "timm/ViT-B-16-SigLIP-i18n-256", "tokenizer_kwargs": {"clean": "canonicalize"},
    "no_causal_mask": True, "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6},
  }  # fmt: skip
  return siglip | {"text_cfg": text | i18n}


@models.once
def write(folder, kind):
  """A folder as OpenCLIP publishes it."""
  folder.mkdir(parents=True, exist_ok=True)
  config = {"model_cfg": model_config(kind)}
  if "timm_model_name" in config["model_cfg"]["vision_cfg"]:
    half = [0.5, 0.5, 0.5]
    config["preprocess_cfg"] = {
      "mean": half,
      "std": half,
      "interpolation": "bicubic",
      "resize_mode": "squash",
    }
  (folder / "open_clip_config.json").write_text(json.dumps(config))
  save_file(weights(kind), folder / "open_clip_model.safetensors")
  return folder
