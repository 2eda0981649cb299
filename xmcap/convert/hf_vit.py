"""Vision towers of transformers (ViTModel, CLIPVisionModel, SiglipVisionModel): names, configuration, both ways."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from xmcap.convert.pairs import (
  JOINED,
  LEADING_ONE,
  PATCH,
  SAME,
  TRANSPOSED,
  Kind,
  Pair,
  Row,
  expand,
  later_positions,
  token_and_positions,
)
from xmcap.convert.source import make_config
from xmcap.errors import UsageError
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown

# gelu_new, gelu_pytorch_tanh and gelu_fast are the same function.
ACTIVATIONS = {
  "gelu": "gelu",
  "gelu_pytorch_tanh": "gelu_tanh",
  "gelu_new": "gelu_tanh",
  "gelu_fast": "gelu_tanh",
  "quick_gelu": "quick_gelu",
}
FIELDS = {
  "width": "hidden_size",
  "depth": "num_hidden_layers",
  "mlp_dim": "intermediate_size",
  "num_heads": "num_attention_heads",
  "patch_size": "patch_size",
  "image_size": "image_size",
  "norm_epsilon": "layer_norm_eps",
}
"""Fields of ViTConfig, and what config.json calls them."""
PROCESSOR = "preprocessor_config.json"
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)


@dataclasses.dataclass(frozen=True)
class Family:
  """One of transformers' vision towers.

  Attributes:
    model: its class there.
    model_type: of the tower's own config.json.
    defaults: what transformers takes where config.json is silent.
    anchor: a tensor that is in every file of it; what stands before it is the prefix of all.
    rows, layer: the tables of names; `layer` of one layer, below `layer_prefix`.
    pool: how the one vector is made.
    pre_norm, patch_bias: as in ViTConfig.
    position, token: names of the positions and of the class token, if there is one.
    token_kind, position_kind: of the two together, and of the positions where the class token is not taken.
    mean, std: of its pictures, where no preprocessor_config.json says.
    may_drop: {pattern of a name without the prefix: reason}.
    processor: the class of its preprocessor_config.json.
  """

  model: str
  model_type: str
  defaults: Mapping[str, Any]
  anchor: str
  rows: list[Row]
  layer: list[Row]
  layer_prefix: str
  pool: str
  pre_norm: bool
  patch_bias: bool
  position: str
  token: str | None
  token_kind: Kind | None
  position_kind: Kind
  mean: tuple[float, ...]
  std: tuple[float, ...]
  may_drop: Mapping[str, str]
  processor: str


def _dense(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED), (f"{ours}/bias", f"{theirs}.bias", SAME)]


def _norm(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/scale", f"{theirs}.weight", SAME), (f"{ours}/bias", f"{theirs}.bias", SAME)]


def _joined(ours: str, theirs: str) -> list[Row]:
  names = ("query", "key", "value")
  return [
    (tuple(f"{ours}/{name}/kernel" for name in names), f"{theirs}.in_proj_weight", JOINED),
    (tuple(f"{ours}/{name}/bias" for name in names), f"{theirs}.in_proj_bias", JOINED),
    *_dense(f"{ours}/out", f"{theirs}.out_proj"),
  ]


VIT_LAYER = [
  *_norm("attention_norm", "layernorm_before"),
  *_dense("attention/query", "attention.attention.query"),
  *_dense("attention/key", "attention.attention.key"),
  *_dense("attention/value", "attention.attention.value"),
  *_dense("attention/out", "attention.output.dense"),
  *_norm("mlp_norm", "layernorm_after"),
  *_dense("mlp/wi", "intermediate.dense"),
  *_dense("mlp/wo", "output.dense"),
]
CLIP_LAYER = [
  *_norm("attention_norm", "layer_norm1"),
  *_dense("attention/query", "self_attn.q_proj"),
  *_dense("attention/key", "self_attn.k_proj"),
  *_dense("attention/value", "self_attn.v_proj"),
  *_dense("attention/out", "self_attn.out_proj"),
  *_norm("mlp_norm", "layer_norm2"),
  *_dense("mlp/wi", "mlp.fc1"),
  *_dense("mlp/wo", "mlp.fc2"),
]
SIGLIP_HEAD = [
  ("map_head/probe", "head.probe", LEADING_ONE),
  *_joined("map_head/attention", "head.attention"),
  *_norm("map_head/mlp_norm", "head.layernorm"),
  *_dense("map_head/mlp/wi", "head.mlp.fc1"),
  *_dense("map_head/mlp/wo", "head.mlp.fc2"),
]
_BESIDE = {
  r"(.*\.)?embeddings\.position_ids": "numbers from 0 on, not weights",
  r"text_model\..*": "the text tower",
  r"text_projection\..*": "the text tower's projection",
  r"visual_projection\..*": "the projection to the space shared with texts",
  r"logit_scale|logit_bias": "of the contrastive loss",
}
_SIZES = dict(
  hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_channels=3
)

FAMILIES = (
  Family(
    model="ViTModel", model_type="vit", processor="ViTImageProcessor",
    defaults=_SIZES | dict(image_size=224, patch_size=16, hidden_act="gelu", layer_norm_eps=1e-12, qkv_bias=True),
    anchor="embeddings.patch_embeddings.projection.weight",
    rows=[
      ("patch_embedding/kernel", "embeddings.patch_embeddings.projection.weight", PATCH),
      ("patch_embedding/bias", "embeddings.patch_embeddings.projection.bias", SAME),
      *_norm("final_norm", "layernorm"),
    ],
    layer=VIT_LAYER, layer_prefix="encoder.layer.", pool="tok", pre_norm=False, patch_bias=True,
    position="embeddings.position_embeddings", token="embeddings.cls_token",
    token_kind=token_and_positions(lambda token: (1, 1, *token), lambda rows: (1, *rows)),
    position_kind=later_positions(lambda rows: (1, *rows)), mean=HALF, std=HALF,
    may_drop={
      r"(.*\.)?pooler\.dense\.(weight|bias)": "the pooler: xmcap takes the class token as it is",
      r"classifier\.(weight|bias)": "the classifier",
    },
  ),
  Family(
    model="CLIPVisionModel", model_type="clip_vision_model", processor="CLIPImageProcessor",
    defaults=_SIZES | dict(image_size=224, patch_size=32, hidden_act="quick_gelu", layer_norm_eps=1e-5),
    anchor="embeddings.patch_embedding.weight",
    rows=[
      ("patch_embedding/kernel", "embeddings.patch_embedding.weight", PATCH),
      # The name is spelt so in transformers.
      *_norm("pre_norm", "pre_layrnorm"),
      *_norm("final_norm", "post_layernorm"),
    ],
    layer=CLIP_LAYER, layer_prefix="encoder.layers.", pool="tok", pre_norm=True, patch_bias=False,
    position="embeddings.position_embedding.weight", token="embeddings.class_embedding",
    token_kind=token_and_positions(lambda token: token, lambda rows: rows),
    position_kind=later_positions(lambda rows: rows), mean=CLIP_MEAN, std=CLIP_STD, may_drop=_BESIDE,
  ),
  Family(
    model="SiglipVisionModel", model_type="siglip_vision_model", processor="SiglipImageProcessor",
    defaults=_SIZES | dict(
      image_size=224, patch_size=16, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, vision_use_head=True
    ),
    anchor="embeddings.patch_embedding.weight",
    rows=[
      ("patch_embedding/kernel", "embeddings.patch_embedding.weight", PATCH),
      ("patch_embedding/bias", "embeddings.patch_embedding.bias", SAME),
      *_norm("final_norm", "post_layernorm"),
    ],
    layer=CLIP_LAYER, layer_prefix="encoder.layers.", pool="map", pre_norm=False, patch_bias=True,
    position="embeddings.position_embedding.weight", token=None, token_kind=None, position_kind=SAME,
    mean=HALF, std=HALF, may_drop=_BESIDE,
  ),
)  # fmt: skip

_VIT, _CLIP, _SIGLIP = FAMILIES
CLASSES = {
  "ViTModel": _VIT,
  "ViTForImageClassification": _VIT,
  "CLIPVisionModel": _CLIP,
  "CLIPVisionModelWithProjection": _CLIP,
  "CLIPModel": _CLIP,
  "SiglipVisionModel": _SIGLIP,
  "SiglipModel": _SIGLIP,
}
MODEL_TYPES = {
  "vit": _VIT, "clip": _CLIP, "clip_vision_model": _CLIP, "siglip": _SIGLIP, "siglip_vision_model": _SIGLIP,
}  # fmt: skip


def vit_pairs(family: Family, config: ViTConfig, prefix: str = "") -> list[Pair]:
  """Every parameter of a ViT of ours and its name in transformers, below `prefix` there."""
  pairs = expand(family.rows, "vit/", prefix)
  positions: Row = ("position_embedding", family.position, family.position_kind)
  if family.token is not None and config.pool == "tok":
    positions = (("class_token", "position_embedding"), (family.token, family.position), family.token_kind)
  pairs += expand([positions], "vit/", prefix)
  if config.pool == "map" and family.pool == "map":
    pairs += expand(SIGLIP_HEAD, "vit/", prefix)
  for n in range(config.depth):
    pairs += expand(family.layer, f"vit/layers_{n}/", f"{prefix}{family.layer_prefix}{n}.")
  return pairs


def read_config(
  family: Family, given: Mapping[str, Any], processor: Mapping[str, Any], where: str, pool: str | None
) -> ViTConfig:
  """The ViT of ours that a config.json describes.

  Args:
    family: which tower.
    given: config.json.
    processor: preprocessor_config.json, or empty.
    where: config.json's place, for messages.
    pool: instead of the family's own.

  Raises:
    UsageError: it is of a variant that ours is not.
  """
  values = {
    **family.defaults,
    **given,
    **(given.get("vision_config") or {}),
    **(given.get("vision_config_dict") or {}),
  }
  if not isinstance(values["hidden_act"], str) or values["hidden_act"] not in ACTIVATIONS:
    raise UsageError(
      f"{where}: hidden_act is {shown(repr(values['hidden_act']), 60)}; xmcap has {', '.join(ACTIVATIONS)}"
    )
  if not values.get("qkv_bias", True) or values["num_channels"] != 3:
    raise UsageError(f"{where}: qkv_bias {values.get('qkv_bias')}, num_channels {values['num_channels']}: xmcap's ViT "
                     "has biases and three channels")  # fmt: skip
  for name in ("image_size", "patch_size"):
    if isinstance(values[name], list | dict):
      raise UsageError(
        f"{where}: {name} is {shown(repr(values[name]), 60)}; xmcap's pictures and patches are square: one number"
      )
  own = family.pool if values.get("vision_use_head", True) else "none"
  fields = {ours: values[theirs] for ours, theirs in FIELDS.items()}
  fields |= {
    "pool": pool or own,
    "activation": ACTIVATIONS[values["hidden_act"]],
    "pre_norm": family.pre_norm,
    "patch_bias": family.patch_bias,
    "image_mean": processor.get("image_mean") or family.mean,
    "image_std": processor.get("image_std") or family.std,
  }
  beside = {name: f"{name} (of {PROCESSOR})" for name in ("image_mean", "image_std")}
  return make_config(ViTConfig, where, fields, FIELDS | beside)


def family_of(config: ViTConfig) -> Family | None:
  """Which of transformers' towers a ViT of ours can be written as; None: none of them."""
  if config.pool == "tok":
    return {(True, False): _CLIP, (False, True): _VIT}.get((config.pre_norm, config.patch_bias))
  return _SIGLIP if not config.pre_norm and config.patch_bias else None


def write_config(family: Family, config: ViTConfig, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
  """config.json and preprocessor_config.json of transformers for a ViT of ours."""
  names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
  values = {
    "architectures": [family.model],
    "model_type": family.model_type,
    "hidden_size": config.width,
    "intermediate_size": config.mlp_dim,
    "num_hidden_layers": config.depth,
    "num_attention_heads": config.num_heads,
    "num_channels": 3,
    "image_size": config.image_size,
    "patch_size": config.patch_size,
    "hidden_act": names[config.activation],
    "layer_norm_eps": config.norm_epsilon,
    "torch_dtype": dtype,
  }
  if family is _VIT:
    values["qkv_bias"] = True
  if family is _SIGLIP:
    values["vision_use_head"] = config.pool == "map"
  size = {"height": config.image_size, "width": config.image_size}
  processor = {
    "image_processor_type": family.processor,
    "do_resize": True,
    "size": size,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": list(config.image_mean),
    "image_std": list(config.image_std),
  }
  if family is _CLIP:
    processor |= {"do_center_crop": False}
  return values, processor
