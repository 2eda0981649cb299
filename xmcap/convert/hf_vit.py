"""Vision towers of transformers (ViTModel, CLIPVisionModel, SiglipVisionModel): names and configuration, both ways."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from xmcap.convert.hf_image_processors import PROCESSOR, normalization
from xmcap.convert.pairs import (
  Pair,
  below,
  joined_pairs,
  layer_modules,
  leading_ones,
  module_pairs,
  position_pairs,
)
from xmcap.convert.source import make_config
from xmcap.errors import UsageError
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown

# gelu_new, gelu_pytorch_tanh and gelu_fast are the same function.
_ACTIVATIONS = {
  "gelu": "gelu",
  "gelu_pytorch_tanh": "gelu_tanh",
  "gelu_new": "gelu_tanh",
  "gelu_fast": "gelu_tanh",
  "quick_gelu": "quick_gelu",
  "relu": "relu",
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
"""Field of ViTConfig -> field of config.json."""
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_BILINEAR = 2  # Pillow's number; the default of SigLIP's and CLIP's processors is bicubic
_HALF = (0.5, 0.5, 0.5)


@dataclasses.dataclass(frozen=True)
class Family:
  """One of transformers' vision towers.

  Attributes:
    model, model_type, processor: its class, `model_type` in config.json, and the class in preprocessor_config.json.
    defaults: transformers' values for fields that config.json lacks.
    modules: our modules -> theirs.
    positions, token: names of the position embedding and of the class token, if any, each with its number of leading
      axes of size 1.
    pool, pre_norm, patch_bias: as in ViTConfig.
    resize: what its processor does, as in DualConfig.
    mean, std: `image_mean` and `image_std` without a preprocessor_config.json.
    may_drop: as in `pairs.make_outputs`.
  """

  model: str
  model_type: str
  processor: str
  defaults: Mapping[str, Any]
  modules: Mapping[str, str]
  positions: tuple[str, int]
  token: tuple[str, int] | None
  pool: str
  pre_norm: bool
  patch_bias: bool
  resize: str
  mean: tuple[float, ...]
  std: tuple[float, ...]
  may_drop: Mapping[str, str]

  @property
  def anchor(self) -> str:
    """A tensor of every such model, which shows the prefix of all names."""
    return f"{self.modules['patch_embedding']}.weight"


_VIT_MODULES = layer_modules(
  "encoder.layer.{n}.",
  attention_norm="layernorm_before", query="attention.attention.query", key="attention.attention.key",
  value="attention.attention.value", out="attention.output.dense", mlp_norm="layernorm_after",
  wi="intermediate.dense", wo="output.dense",
) | {"patch_embedding": "embeddings.patch_embeddings.projection", "final_norm": "layernorm"}  # fmt: skip
CLIP_LAYER_MODULES = layer_modules(
  "encoder.layers.{n}.",
  attention_norm="layer_norm1", query="self_attn.q_proj", key="self_attn.k_proj", value="self_attn.v_proj",
  out="self_attn.out_proj", mlp_norm="layer_norm2", wi="mlp.fc1", wo="mlp.fc2",
)  # fmt: skip
"""Also those of CLIP's and SigLIP's text towers."""
_CLIP_MODULES = CLIP_LAYER_MODULES | {
  "patch_embedding": "embeddings.patch_embedding",
  "pre_norm": "pre_layrnorm",  # transformers spells it so
  "final_norm": "post_layernorm",
}
_SIGLIP_MODULES = _CLIP_MODULES | layer_modules(
  "head.", "map_head", out="attention.out_proj", mlp_norm="layernorm", wi="mlp.fc1", wo="mlp.fc2"
)
_BESIDE = {
  r"(.*\.)?embeddings\.position_ids": "numbers, not weights",
  r"text_model\..*": "the text tower",
  r"text_projection\..*": "the text tower's projection",
  r"visual_projection\..*": "the projection to the space shared with texts",
  r"logit_scale|logit_bias": "of the contrastive loss",
  r"classifier\.(weight|bias)": "the classifier, which reads the mean of the patches",
}
_SIZES = dict(
  hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_channels=3,
  image_size=224,
)  # fmt: skip

_VIT = Family(
  "ViTModel", "vit", "ViTImageProcessor",
  defaults=_SIZES | dict(patch_size=16, hidden_act="gelu", layer_norm_eps=1e-12, qkv_bias=True),
  modules=_VIT_MODULES,
  positions=("embeddings.position_embeddings", 1), token=("embeddings.cls_token", 2),
  pool="tok", pre_norm=False, patch_bias=True, resize="bilinear_square", mean=_HALF, std=_HALF,
  may_drop={
    r"(.*\.)?pooler\.dense\.(weight|bias)": "the pooler: xmcap takes the class token as it is",
    r"classifier\.(weight|bias)": "the classifier",
  },
)  # fmt: skip
_CLIP = Family(
  "CLIPVisionModel", "clip_vision_model", "CLIPImageProcessor",
  defaults=_SIZES | dict(patch_size=32, hidden_act="quick_gelu", layer_norm_eps=1e-5),
  modules=_CLIP_MODULES,
  positions=("embeddings.position_embedding.weight", 0), token=("embeddings.class_embedding", 0),
  pool="tok", pre_norm=True, patch_bias=False, resize="bicubic_crop", mean=CLIP_MEAN, std=CLIP_STD,
  may_drop=_BESIDE,
)  # fmt: skip
_SIGLIP = Family(
  "SiglipVisionModel", "siglip_vision_model", "SiglipImageProcessor",
  defaults=_SIZES | dict(patch_size=16, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, vision_use_head=True),
  modules=_SIGLIP_MODULES,
  positions=("embeddings.position_embedding.weight", 0), token=None,
  pool="map", pre_norm=False, patch_bias=True, resize="bicubic", mean=_HALF, std=_HALF, may_drop=_BESIDE,
)  # fmt: skip
_METACLIP_2 = dataclasses.replace(_CLIP, model="MetaClip2VisionModel", model_type="metaclip_2_vision_model")
FAMILIES = (_VIT, _CLIP, _SIGLIP)
CLASSES = {
  "ViTModel": _VIT,
  "ViTForImageClassification": _VIT,
  "CLIPVisionModel": _CLIP,
  "CLIPVisionModelWithProjection": _CLIP,
  "CLIPModel": _CLIP,
  "CLIPForImageClassification": _CLIP,
  "MetaClip2VisionModel": _METACLIP_2,
  "MetaClip2VisionModelWithProjection": _METACLIP_2,
  "MetaClip2Model": _METACLIP_2,
  "SiglipVisionModel": _SIGLIP,
  "SiglipModel": _SIGLIP,
  "SiglipForImageClassification": _SIGLIP,
}
MODEL_TYPES = {
  "vit": _VIT, "clip": _CLIP, "clip_vision_model": _CLIP, "siglip": _SIGLIP, "siglip_vision_model": _SIGLIP,
  "metaclip_2": _METACLIP_2, "metaclip_2_vision_model": _METACLIP_2,
}  # fmt: skip


def vit_pairs(family: Family, config: ViTConfig, paths: Collection[str], prefix: str = "") -> list[Pair]:
  """Returns the pairs of our ViT and the tower below a prefix."""
  pairs = position_pairs(config.pool, family.positions, family.token, token_has_position=bool(family.token))
  if "vit/map_head/probe" in paths:
    pairs.append(Pair(("vit/map_head/probe",), ("head.probe",), leading_ones(1)))
    pairs += joined_pairs(paths, {"vit/map_head/attention": "head.attention.in_proj_"})
  return below(prefix, module_pairs(paths, family.modules, "vit/", pairs))


def read_config(
  family: Family,
  settings: Mapping[str, Any],
  processor: Mapping[str, Any],
  where: str,
  processor_where: str,
  pool: str | None,
) -> ViTConfig:
  """Returns our configuration of the ViT in a config.json and, unless empty, a preprocessor_config.json.

  `where` and `processor_where` are their paths. `pool` replaces the tower's own pooling. UsageError if our ViT does not
  support the variant.
  """
  values = {
    **family.defaults,
    **settings,
    **(settings.get("vision_config") or {}),
    **(settings.get("vision_config_dict") or {}),
  }
  if not values.get("qkv_bias", True) or values["num_channels"] != 3:
    raise UsageError(
      f"{where}: qkv_bias {values.get('qkv_bias')}, num_channels {values['num_channels']}: xmcap's ViT has biases and "
      "three channels"
    )
  for name in ("image_size", "patch_size"):
    values[name] = _one_side(values[name], f"{where}: {name}")
  mean, std = normalization(processor, family.processor, family.mean, family.std, processor_where)
  own = family.pool if values.get("vision_use_head", True) else "none"
  fields = {
    **{ours: values[theirs] for ours, theirs in FIELDS.items()},
    "pool": pool or own,
    "activation": activation(values, where),
    "pre_norm": family.pre_norm,
    "patch_bias": family.patch_bias,
    "image_mean": mean,
    "image_std": std,
  }
  beside = {name: f"{name} (of {PROCESSOR})" for name in ("image_mean", "image_std")}
  return make_config(ViTConfig, where, fields, FIELDS | beside)


def _one_side(value: Any, name: str) -> Any:
  """Returns the side of a square that is given as one number or as a pair."""
  sides = list(value.values()) if isinstance(value, dict) else value
  if not isinstance(sides, list):
    return value
  if len(sides) == 2 and sides[0] == sides[1]:
    return sides[0]
  raise UsageError(
    f"{name} is {shown(repr(value), 60)}; xmcap's pictures and patches are square: one number, or twice the same"
  )


def activation(values: Mapping[str, Any], where: str) -> str:
  """Returns our name of the activation `hidden_act` of a config.json; UsageError if we do not have it."""
  name = values["hidden_act"]
  if not isinstance(name, str) or name not in _ACTIVATIONS:
    raise UsageError(f"{where}: hidden_act is {shown(repr(name), 60)}; xmcap has {', '.join(_ACTIVATIONS)}")
  return _ACTIVATIONS[name]


def family_of(config: ViTConfig) -> Family | None:
  """Returns the tower of transformers that computes the same as our ViT, if any."""
  if config.pool == "tok":
    return {(True, False): _CLIP, (False, True): _VIT}.get((config.pre_norm, config.patch_bias))
  return _SIGLIP if not config.pre_norm and config.patch_bias else None


def write_config(family: Family, config: ViTConfig, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns the config.json and preprocessor_config.json of a ViT of ours."""
  activations = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
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
    "resample": _BILINEAR,
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
