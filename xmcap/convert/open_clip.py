"""Both towers of OpenCLIP's folders: open_clip_config.json beside open_clip_model.safetensors.

The image tower is OpenCLIP's own ViT or timm's ViT of SigLIP, the text tower OpenCLIP's own, or an encoder of
transformers.
"""

import functools
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from xmcap.convert import hf, hf_text, hf_vit
from xmcap.convert.pairs import (
  SAME,
  Pair,
  joined_pairs,
  layer_modules,
  leading_ones,
  module_pairs,
  position_pairs,
)
from xmcap.convert.source import WeightSource, count_layers, make_config, shape_of
from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.families.dual.tokenizer_files import Described, describe
from xmcap.files.tensors import Tensor
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown

CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
_ENCODER = "text.transformer."  # before the names of an encoder of transformers

_CONTEXT = 77  # default number of pieces of a text
_HEADS_OF_WIDTH = {1152: 16, 1536: 16}  # timm's so400m and giantopt; heads of all others are 64 wide
_RESIZES = {
  ("shortest", "bicubic"): "bicubic_crop_even", ("squash", "bicubic"): "bicubic",
  ("shortest", "bilinear"): "bilinear_crop_even", ("squash", "bilinear"): "bilinear_square",
}  # fmt: skip
# By OpenCLIP's clean functions. It also repairs Unicode and joins spaces, which xmcap does not.
_CLEANINGS = {"canonicalize": "canonical", "lower": "lower", "whitespace": "none"}
_POOLERS = {"mean_pooler": "mean", "cls_last_hidden_state_pooler": "first", "cls_pooler": "first"}
_POOLS = {"argmax": "highest", "eos": "end", "last": "last", "first": "first"}
_HF_HEADS = {"mlp": "mlp", "linear": "linear", None: "none"}
# Known fields: those that are read below, that change no number, or that follow from the shapes of the tensors. Others
# are refused if they are set.
_MODEL_FIELDS = {
  "embed_dim", "vision_cfg", "text_cfg", "quick_gelu", "custom_text", "init_logit_bias", "init_logit_scale",
  "nonscalar_logit_scale",
}  # fmt: skip
_SIZE_FIELDS = {"layers", "width", "mlp_ratio", "output_tokens", "act_kwargs", "norm_kwargs"}
_VIT_FIELDS = _SIZE_FIELDS | {"head_width", "patch_size", "image_size", "patch_dropout"}
_TIMM_FIELDS = {
  "image_size", "patch_dropout", "timm_model_name", "timm_model_pretrained", "timm_pool", "timm_proj", "timm_proj_bias",
  "timm_drop", "timm_drop_path", "timm_model_kwargs",
}  # fmt: skip
_TIMM_ARGUMENTS = {"num_heads", "embed_dim", "depth", "mlp_ratio", "patch_size", "img_size"}
_TOKENIZER_FIELDS = {"context_length", "vocab_size", "hf_tokenizer_name", "tokenizer_kwargs"}
_TEXT_FIELDS = _SIZE_FIELDS | _TOKENIZER_FIELDS | {
  "heads", "no_causal_mask", "pool_type", "proj_bias", "proj_type", "pad_id", "eos_id",
}  # fmt: skip
_HF_FIELDS = _TOKENIZER_FIELDS | {
  "hf_model_name", "hf_model_pretrained", "hf_proj_type", "hf_pooler_type", "hf_model_config", "proj", "pooler_type",
  "output_tokens", "width", "layers",
}  # fmt: skip

# Names as `layer_modules` takes them.
_BLOCK = dict(attention_norm="ln_1", out="attn.out_proj", mlp_norm="ln_2", wi="mlp.c_fc", wo="mlp.c_proj")
_TIMM_BLOCK = dict(attention_norm="norm1", out="attn.proj", mlp_norm="norm2", wi="mlp.fc1", wo="mlp.fc2")
_POOLING = dict(query="q", out="proj", mlp_norm="norm", wi="mlp.fc1", wo="mlp.fc2")


def is_folder(path: pathlib.Path) -> bool:
  """Whether a folder looks like one of OpenCLIP."""
  return (path / CONFIG).is_file()


def open_folder(path: pathlib.Path) -> WeightSource:
  """Opens both towers in a folder; UsageError for an unsupported variant or damaged files."""
  where = str(path / CONFIG)
  config = hf.read_json(path / CONFIG)
  tensors = hf.read_tensors(path, WEIGHTS)
  tokenizer = describe(path)
  with hf.reading_fields(path / CONFIG):
    model = config["model_cfg"]
    vision, text = model["vision_cfg"], model["text_cfg"]
    _check_fields(model, _MODEL_FIELDS, f"{where}: model_cfg")
    vit, image_head = _read_vit(model, config.get("preprocess_cfg") or {}, tensors, where)
    if text.get("hf_model_name"):
      tower, text_head = _read_encoder(text, tensors, where)
    else:
      tower, text_head = _read_text(model, tensors, where, tokenizer)
    resize = _resize(config.get("preprocess_cfg") or {}, where)
    fields = dict(embed_dim=model["embed_dim"], image_head=image_head, text_head=text_head, resize=resize)
    dual = make_config(DualConfig, where, fields)
    timm = bool(vision.get("timm_model_name"))
  for width, head in ((vit.width, image_head), (tower.width, text_head)):
    if head == "none" and width != dual.embed_dim:
      raise UsageError(
        f"{where}: embed_dim {dual.embed_dim} is not the width of a tower without a projection"
      )
  module = DualTower(vit, tower, dual)
  return WeightSource(
    "OpenCLIP",
    str(path),
    tensors,
    module,
    functools.partial(_pairs, module, tensors, timm, str(path)),
    f"{CONFIG} asks",
    hf_text.may_drop(hf_text.XLM_R, _ENCODER)
    | {
      r"(text\.)?attn_mask": "the causal mask",
      r"text\.transformer\.embed_positions\.weights": "computed sinusoids",
    },
    absent=() if "logit_bias" in tensors else ("logit_bias",),
    beside=tokenizer.files,
  )


def _check_fields(cfg: Mapping[str, Any], supported: Collection[str], where: str) -> None:
  for name, value in cfg.items():
    if name not in supported and value:
      raise UsageError(
        f"{where}: {shown(name, 60)} {shown(repr(value), 60)}: a variant that xmcap does not have"
      )


def _activation(cfg: Mapping[str, Any], quick: bool, where: str) -> str:
  arguments = cfg.get("act_kwargs") or {}
  if quick and not arguments:
    return "quick_gelu"
  if arguments not in ({}, {"approximate": "tanh"}, {"approximate": "none"}):
    raise UsageError(f"{where}: act_kwargs {shown(repr(arguments), 60)}: xmcap has GELU, exact or by tanh")
  return "gelu_tanh" if arguments.get("approximate") == "tanh" else "gelu"


def _epsilon(cfg: Mapping[str, Any]) -> float:
  return (cfg.get("norm_kwargs") or {}).get("eps", 1e-5)


def _resize(preprocess: Mapping[str, Any], where: str) -> str:
  mode = preprocess.get("resize_mode") or "shortest"
  filter_name = preprocess.get("interpolation") or "bicubic"
  if (mode, filter_name) not in _RESIZES:
    raise UsageError(
      f"{where}: preprocess_cfg: resize_mode {shown(repr(mode), 40)}, interpolation {shown(repr(filter_name), 40)}: "
      "xmcap has shortest and squash, bicubic and bilinear"
    )
  return _RESIZES[mode, filter_name]


def _cleaning(cfg: Mapping[str, Any], where: str) -> str:
  """Returns `cleaning` of TextConfig, of a text_cfg with a tokenizer of transformers."""
  arguments = cfg.get("tokenizer_kwargs") or {}
  _check_fields({**arguments, "clean": ""}, set(), f"{where}: text_cfg.tokenizer_kwargs")
  clean = arguments.get("clean", "whitespace")
  if clean not in _CLEANINGS:
    raise UsageError(
      f"{where}: text_cfg.tokenizer_kwargs: clean {shown(repr(clean), 40)}: xmcap has {', '.join(_CLEANINGS)}"
    )
  return _CLEANINGS[clean]


def _read_vit(
  model: Mapping[str, Any], preprocess: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str
) -> tuple[ViTConfig, str]:
  """Returns the configuration of the image tower, and its head."""
  cfg, kind = model["vision_cfg"], "ViT of OpenCLIP"
  fields: dict[str, Any] = dict(
    image_mean=preprocess.get("mean") or hf_vit.CLIP_MEAN, image_std=preprocess.get("std") or hf_vit.CLIP_STD
  )
  timm = cfg.get("timm_model_name")
  if timm:
    _check_fields(cfg, _TIMM_FIELDS, f"{where}: vision_cfg")
    arguments = cfg.get("timm_model_kwargs") or {}
    _check_fields(arguments, _TIMM_ARGUMENTS, f"{where}: vision_cfg.timm_model_kwargs")
    if "siglip" not in timm or cfg.get("timm_pool") != "map" or cfg.get("timm_proj") != "none":
      raise UsageError(
        f"{where}: of timm's towers xmcap has SigLIP's alone, with timm_pool 'map' and timm_proj 'none'"
      )
    patch, blocks, inner = "visual.trunk.patch_embed.proj.weight", "visual.trunk.blocks.", "mlp.fc1.weight"
    width = shape_of(tensors, patch, 4, where, kind)[0]
    heads = arguments.get("num_heads") or _HEADS_OF_WIDTH.get(width, max(1, width // 64))
    activation = "gelu_tanh" if "giantopt" in timm else "gelu"
    fields |= dict(pool="map", norm_epsilon=1e-6, num_heads=heads, activation=activation)
  else:
    _check_fields({**cfg, "pool_type": ""}, _VIT_FIELDS, f"{where}: vision_cfg")
    if isinstance(cfg.get("layers"), list) or cfg.get("pool_type", "tok") != "tok":
      raise UsageError(
        f"{where}: vision_cfg: a ResNet, or a pool_type other than tok, which xmcap does not have"
      )
    patch, blocks, inner = "visual.conv1.weight", "visual.transformer.resblocks.", "mlp.c_fc.weight"
    width = shape_of(tensors, patch, 4, where, kind)[0]
    activation = _activation(cfg, bool(model.get("quick_gelu")), f"{where}: vision_cfg")
    fields |= dict(
      pool="tok", pre_norm=True, patch_bias=False, norm_epsilon=_epsilon(cfg), activation=activation,
      num_heads=width // (cfg.get("head_width") or 64),
    )  # fmt: skip
  fields |= dict(
    width=width, depth=count_layers(tensors, blocks), patch_size=shape_of(tensors, patch, 4, where, kind)[-1],
    mlp_dim=shape_of(tensors, f"{blocks}0.{inner}", 2, where, kind)[0], image_size=cfg.get("image_size", 224),
  )  # fmt: skip
  return make_config(ViTConfig, where, fields), "none" if timm else "linear"


def _read_text(
  model: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str, tokenizer: Described
) -> tuple[TextConfig, str]:
  """Returns the configuration of OpenCLIP's own text tower, and its head."""
  cfg, kind = model["text_cfg"], "text tower of OpenCLIP"
  _check_fields({**cfg, "text_arch": ""}, _TEXT_FIELDS, f"{where}: text_cfg")
  pool = cfg.get("pool_type", "argmax")
  if cfg.get("text_arch", "clip") != "clip" or pool not in _POOLS:
    raise UsageError(f"{where}: text_cfg: xmcap has text_arch clip and pool_type {', '.join(_POOLS)}")
  prefix = _text_prefix(tensors)
  vocab_size, width = shape_of(tensors, f"{prefix}token_embedding.weight", 2, where, kind)
  blocks = f"{prefix}transformer.resblocks."
  fields = dict(
    vocab_size=vocab_size, width=width, depth=count_layers(tensors, blocks),
    mlp_dim=shape_of(tensors, f"{blocks}0.mlp.c_fc.weight", 2, where, kind)[0], num_heads=cfg.get("heads", 8),
    max_length=shape_of(tensors, f"{prefix}positional_embedding", 2, where, kind)[0], pool=_POOLS[pool],
    causal=not cfg.get("no_causal_mask"), mask_padding=False, norm_epsilon=_epsilon(cfg),
    activation=_activation(cfg, bool(model.get("quick_gelu")), f"{where}: text_cfg"),
    cleaning=_cleaning(cfg, where),
  )  # fmt: skip
  if pool == "eos":
    fields["end_id"] = cfg["eos_id"]
  if pool == "last":  # SigLIP attends to its padding
    pad_id, end_id = tokenizer.siglip_ids(vocab_size)
    fields |= dict(pad_id=cfg.get("pad_id", pad_id), end_id=end_id)
  head = "none" if cfg.get("proj_type") == "none" else "linear_bias" if cfg.get("proj_bias") else "linear"
  return make_config(TextConfig, where, fields, {"num_heads": "text_cfg.heads"}), head


def _read_encoder(
  cfg: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str
) -> tuple[TextConfig, str]:
  """Returns the configuration of a text tower of transformers, and its head."""
  _check_fields(cfg, _HF_FIELDS, f"{where}: text_cfg")
  encoder = hf_text.recognise(tensors, _ENCODER, where)
  pooler = cfg.get("hf_pooler_type", "mean_pooler")
  # In BERT and XLM-R this pooler reads another layer above the first token.
  layer_above = pooler == "cls_pooler" and encoder.types
  head = cfg.get("hf_proj_type", "mlp")
  if pooler not in _POOLERS or layer_above or head not in _HF_HEADS:
    raise UsageError(
      f"{where}: text_cfg: hf_pooler_type {shown(repr(pooler), 40)}, hf_proj_type {shown(repr(head), 40)} with "
      f"{encoder.name}: xmcap has mean_pooler and cls_last_hidden_state_pooler (M2M100: cls_pooler), mlp and linear"
    )
  length, heads = cfg.get("context_length", _CONTEXT), cfg.get("hf_model_config") or {}
  config = hf_text.read_config(encoder, tensors, _ENCODER, where, _POOLERS[pooler], length, heads)
  return config, _HF_HEADS[head]


def _text_prefix(tensors: Mapping[str, Tensor]) -> str:
  return "text." if any(name.startswith("text.") for name in tensors) else ""


def _pairs(
  module: DualTower, tensors: Mapping[str, Tensor], timm: bool, where: str, paths: Collection[str]
) -> list[Pair]:
  """Returns the pairs of our dual tower."""
  prefix, heads = _text_prefix(tensors), dict[str, str]()
  pairs = _timm_pairs(paths) if timm else _vit_pairs(paths)
  if f"{prefix}token_embedding.weight" in tensors:
    pairs += _text_pairs(paths, prefix)
    if module.dual.text_head == "linear":
      pairs.append(Pair(("text_head/kernel",), (f"{prefix}text_projection",), SAME))
    heads["text_head"] = f"{prefix}text_projection"
  else:
    encoder = hf_text.recognise(tensors, _ENCODER, where)
    pairs += hf_text.encoder_pairs(encoder, tensors, _ENCODER, paths)
    heads |= {"text_head": "text.proj", "text_head/wi": "text.proj.0", "text_head/wo": "text.proj.2"}
  for name in ("logit_scale", "logit_bias"):
    if name in paths:
      axes = len(tensors[name].shape) if name in tensors else 0
      pairs.append(Pair((name,), (name,), leading_ones(axes)))
  return module_pairs(paths, heads, others=pairs)


def _vit_pairs(paths: Collection[str]) -> list[Pair]:
  block = "visual.transformer.resblocks.{n}."
  modules = {"patch_embedding": "visual.conv1", "pre_norm": "visual.ln_pre", "final_norm": "visual.ln_post"}
  modules |= layer_modules(block, **_BLOCK)
  token = ("visual.class_embedding", 0)
  pairs = position_pairs("tok", ("visual.positional_embedding", 0), token, token_has_position=True)
  pairs += joined_pairs(paths, {"vit/layers_{n}/attention": f"{block}attn.in_proj_"})
  pairs.append(Pair(("image_head/kernel",), ("visual.proj",), SAME))
  return module_pairs(paths, modules, "vit/", pairs)


def _timm_pairs(paths: Collection[str]) -> list[Pair]:
  block, pool = "visual.trunk.blocks.{n}.", "visual.trunk.attn_pool."
  modules = {"patch_embedding": "visual.trunk.patch_embed.proj", "final_norm": "visual.trunk.norm"}
  modules |= layer_modules(block, **_TIMM_BLOCK) | layer_modules(pool, "map_head", **_POOLING)
  pairs = position_pairs("map", ("visual.trunk.pos_embed", 1), None, token_has_position=False)
  pairs.append(Pair(("vit/map_head/probe",), (f"{pool}latent",), leading_ones(1)))
  pairs += joined_pairs(paths, {"vit/layers_{n}/attention": f"{block}attn.qkv."})
  pairs += joined_pairs(paths, {"vit/map_head/attention": f"{pool}kv."}, ("key", "value"))
  return module_pairs(paths, modules, "vit/", pairs)


def _text_pairs(paths: Collection[str], prefix: str) -> list[Pair]:
  block = f"{prefix}transformer.resblocks.{{n}}."
  modules = layer_modules(block, **_BLOCK) | {"final_norm": f"{prefix}ln_final"}
  pairs = [
    Pair(("text_tower/token_embedding",), (f"{prefix}token_embedding.weight",), SAME),
    Pair(("text_tower/position_embedding",), (f"{prefix}positional_embedding",), SAME),
    *joined_pairs(paths, {"text_tower/layers_{n}/attention": f"{block}attn.in_proj_"}),
  ]
  return module_pairs(paths, modules, "text_tower/", pairs)
