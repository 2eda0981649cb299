"""Vision towers of transformers (ViTModel, CLIPVisionModel, SiglipVisionModel): names, configuration, both ways."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap.convert.pairs import (
  JOINED,
  LEADING_ONE,
  LEADING_ONES,
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
"""Fields of ViTConfig -> of config.json."""
PROCESSOR = "preprocessor_config.json"
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_HALF = (0.5, 0.5, 0.5)


@dataclasses.dataclass(frozen=True)
class Family:
  """One of transformers' vision towers.

  Attributes:
    model, model_type, processor: its class, the type in its config.json, and the class of its preprocessor_config.json.
    defaults: transformers' values where config.json is silent.
    anchor: a tensor in every file of it; what stands before it is the prefix of all names.
    rows: names of the parameters outside the layers and the attention pooling.
    layer, layers: names in one layer, and the prefix of the layers.
    position, token: names of the positions, and of the class token if there is one; with their kinds.
    pool, pre_norm, patch_bias: as in ViTConfig.
    mean, std: of its pictures, where no preprocessor_config.json says.
    may_drop: {pattern of a name: reason}.
  """

  model: str
  model_type: str
  processor: str
  defaults: Mapping[str, Any]
  anchor: str
  rows: list[Row]
  layer: list[Row]
  layers: str
  position: str
  position_kind: Kind
  token: str | None
  token_kind: Kind | None
  pool: str
  pre_norm: bool
  patch_bias: bool
  mean: tuple[float, ...]
  std: tuple[float, ...]
  may_drop: Mapping[str, str]


def _dense(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED), (f"{ours}/bias", f"{theirs}.bias", SAME)]


def _norm(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/scale", f"{theirs}.weight", SAME), (f"{ours}/bias", f"{theirs}.bias", SAME)]


def _layer(norms: tuple[str, str], attention: Sequence[str], mlp: tuple[str, str]) -> list[Row]:
  rows = [*_norm("attention_norm", norms[0]), *_norm("mlp_norm", norms[1])]
  for ours, theirs in zip(("query", "key", "value", "out"), attention, strict=True):
    rows += _dense(f"attention/{ours}", theirs)
  return [*rows, *_dense("mlp/wi", mlp[0]), *_dense("mlp/wo", mlp[1])]


_QKV = ("query", "key", "value")
_VIT_LAYER = _layer(
  ("layernorm_before", "layernorm_after"),
  [*(f"attention.attention.{name}" for name in _QKV), "attention.output.dense"],
  ("intermediate.dense", "output.dense"),
)
_CLIP_LAYER = _layer(
  ("layer_norm1", "layer_norm2"),
  [f"self_attn.{name}_proj" for name in ("q", "k", "v", "out")],
  ("mlp.fc1", "mlp.fc2"),
)
_SIGLIP_HEAD = [
  ("map_head/probe", "head.probe", LEADING_ONE),
  (tuple(f"map_head/attention/{name}/kernel" for name in _QKV), "head.attention.in_proj_weight", JOINED),
  (tuple(f"map_head/attention/{name}/bias" for name in _QKV), "head.attention.in_proj_bias", JOINED),
  *_dense("map_head/attention/out", "head.attention.out_proj"),
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
  hidden_size=768,
  intermediate_size=3072,
  num_hidden_layers=12,
  num_attention_heads=12,
  num_channels=3,
  image_size=224,
)

_VIT = Family(
  "ViTModel", "vit", "ViTImageProcessor",
  defaults=_SIZES | dict(patch_size=16, hidden_act="gelu", layer_norm_eps=1e-12, qkv_bias=True),
  anchor="embeddings.patch_embeddings.projection.weight",
  rows=[
    ("patch_embedding/kernel", "embeddings.patch_embeddings.projection.weight", PATCH),
    ("patch_embedding/bias", "embeddings.patch_embeddings.projection.bias", SAME),
    *_norm("final_norm", "layernorm"),
  ],
  layer=_VIT_LAYER, layers="encoder.layer.",
  position="embeddings.position_embeddings", position_kind=LEADING_ONE,
  token="embeddings.cls_token", token_kind=LEADING_ONES,
  pool="tok", pre_norm=False, patch_bias=True, mean=_HALF, std=_HALF,
  may_drop={
    r"(.*\.)?pooler\.dense\.(weight|bias)": "the pooler: xmcap takes the class token as it is",
    r"classifier\.(weight|bias)": "the classifier",
  },
)  # fmt: skip
_CLIP = Family(
  "CLIPVisionModel", "clip_vision_model", "CLIPImageProcessor",
  defaults=_SIZES | dict(patch_size=32, hidden_act="quick_gelu", layer_norm_eps=1e-5),
  anchor="embeddings.patch_embedding.weight",
  rows=[
    ("patch_embedding/kernel", "embeddings.patch_embedding.weight", PATCH),
    *_norm("pre_norm", "pre_layrnorm"),  # transformers spells it so
    *_norm("final_norm", "post_layernorm"),
  ],
  layer=_CLIP_LAYER, layers="encoder.layers.",
  position="embeddings.position_embedding.weight", position_kind=SAME,
  token="embeddings.class_embedding", token_kind=SAME,
  pool="tok", pre_norm=True, patch_bias=False, mean=CLIP_MEAN, std=CLIP_STD, may_drop=_BESIDE,
)  # fmt: skip
_SIGLIP = Family(
  "SiglipVisionModel", "siglip_vision_model", "SiglipImageProcessor",
  defaults=_SIZES | dict(patch_size=16, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, vision_use_head=True),
  anchor="embeddings.patch_embedding.weight",
  rows=[
    ("patch_embedding/kernel", "embeddings.patch_embedding.weight", PATCH),
    ("patch_embedding/bias", "embeddings.patch_embedding.bias", SAME),
    *_norm("final_norm", "post_layernorm"),
  ],
  layer=_CLIP_LAYER, layers="encoder.layers.",
  position="embeddings.position_embedding.weight", position_kind=SAME, token=None, token_kind=None,
  pool="map", pre_norm=False, patch_bias=True, mean=_HALF, std=_HALF, may_drop=_BESIDE,
)  # fmt: skip
FAMILIES = (_VIT, _CLIP, _SIGLIP)
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
  """Every parameter of our ViT and its name in transformers, below `prefix` there."""
  positions: Row = ("position_embedding", family.position, family.position_kind)
  if family.token is not None and config.pool == "tok":
    kind = token_and_positions(family.token_kind, family.position_kind)
    positions = (("class_token", "position_embedding"), (family.token, family.position), kind)
  elif family.token is not None:
    positions = (*positions[:2], later_positions(family.position_kind))
  head = _SIGLIP_HEAD if config.pool == "map" and family.pool == "map" else []
  pairs = expand([*family.rows, positions, *head], "vit/", prefix)
  for n in range(config.depth):
    pairs += expand(family.layer, f"vit/layers_{n}/", f"{prefix}{family.layers}{n}.")
  return pairs


def read_config(
  family: Family, given: Mapping[str, Any], processor: Mapping[str, Any], where: str, pool: str | None
) -> ViTConfig:
  """Our configuration of the ViT that a config.json describes.

  Args:
    family: the tower.
    given: config.json.
    processor: preprocessor_config.json, or empty.
    where: the path of config.json, for messages.
    pool: instead of the family's own.

  Raises:
    UsageError: it is a variant that ours is not.
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
    raise UsageError(
      f"{where}: qkv_bias {values.get('qkv_bias')}, num_channels {values['num_channels']}: xmcap's ViT has biases and "
      "three channels"
    )
  for name in ("image_size", "patch_size"):
    if isinstance(values[name], list | dict):
      raise UsageError(
        f"{where}: {name} is {shown(repr(values[name]), 60)}; xmcap's pictures and patches are square: one number"
      )
  own = family.pool if values.get("vision_use_head", True) else "none"
  fields = {
    **{ours: values[theirs] for ours, theirs in FIELDS.items()},
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
  """The tower of transformers that our ViT can be written as, if any."""
  if config.pool == "tok":
    return {(True, False): _CLIP, (False, True): _VIT}.get((config.pre_norm, config.patch_bias))
  return _SIGLIP if not config.pre_norm and config.patch_bias else None


def write_config(family: Family, config: ViTConfig, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
  """config.json and preprocessor_config.json of transformers for a ViT of ours."""
  activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
  values = {
    "architectures": [family.model],
    "model_type": family.model_type,
    **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
    "num_channels": 3,
    "hidden_act": activations[config.activation],
    "torch_dtype": dtype,
  }
  processor = {
    "image_processor_type": family.processor,
    "do_resize": True,
    "size": {"height": config.image_size, "width": config.image_size},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": list(config.image_mean),
    "image_std": list(config.image_std),
  }
  if family is _VIT:
    values["qkv_bias"] = True
  elif family is _SIGLIP:
    values["vision_use_head"] = config.pool == "map"
  else:
    processor["do_center_crop"] = False
  return values, processor
