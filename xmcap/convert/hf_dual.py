"""Both towers of transformers' CLIPModel, SiglipModel and AltCLIPModel: names and configuration."""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xmcap.convert import hf_text, hf_vit
from xmcap.convert.pairs import SAME, Kind, Pair, leading_ones, module_pairs
from xmcap.convert.source import make_config
from xmcap.data import text_input
from xmcap.errors import UsageError
from xmcap.models.dual import DualConfig, DualTower
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig

_FIELDS = {
  "vocab_size": "vocab_size",
  "width": "hidden_size",
  "depth": "num_hidden_layers",
  "mlp_dim": "intermediate_size",
  "num_heads": "num_attention_heads",
  "norm_epsilon": "layer_norm_eps",
}
"""Field of TextConfig -> field of text_config in config.json."""
_OLD_END = 2
"""The wrong eos_token_id of CLIP's first config.json, which means the highest id."""


@dataclasses.dataclass(frozen=True)
class Towers:
  """One of transformers' models with two towers.

  Attributes:
    vision: its vision tower.
    defaults: transformers' values for fields that text_config lacks.
    modules: our modules of the text tower and of the heads -> theirs.
    tokens, positions: names of the two embeddings.
    text: constant fields of TextConfig.
    resize, text_head, image_head: as in DualConfig.
    may_drop: as in `pairs.make_outputs`.
  """

  vision: hf_vit.Family
  defaults: Mapping[str, Any]
  modules: Mapping[str, str]
  tokens: str
  positions: str
  text: Mapping[str, Any]
  resize: str
  text_head: str = "linear"
  image_head: str = "linear"
  may_drop: Mapping[str, str] = dataclasses.field(default_factory=dict)


_EMBEDDINGS = "text_model.embeddings"
_MODULES = {
  **{f"text_tower/{ours}": f"text_model.{theirs}" for ours, theirs in hf_vit.CLIP_LAYER_MODULES.items()},
  "text_tower/final_norm": "text_model.final_layer_norm",
}
_ROBERTA_MODULES = {
  **{f"text_tower/{ours}": f"text_model.roberta.{theirs}" for ours, theirs in hf_text.XLM_R.modules.items()},
  "text_tower/final_norm": "text_model.pre_LN",
}
_IDS = {r"(.*\.)?embeddings\.(position_ids|token_type_ids)": "numbers, not weights"}
_CLIP = Towers(
  hf_vit.FAMILIES[1],
  dict(vocab_size=49408, hidden_size=512, num_hidden_layers=12, intermediate_size=2048, num_attention_heads=8,
       max_position_embeddings=77, hidden_act="quick_gelu", layer_norm_eps=1e-5, eos_token_id=49407),
  _MODULES | {"image_head": "visual_projection", "text_head": "text_projection"},
  f"{_EMBEDDINGS}.token_embedding.weight", f"{_EMBEDDINGS}.position_embedding.weight",
  dict(pool="end", causal=True, mask_padding=False), "bicubic_crop", may_drop=_IDS,
)  # fmt: skip
_SIGLIP = Towers(
  hf_vit.FAMILIES[2],
  dict(vocab_size=32000, hidden_size=768, num_hidden_layers=12, intermediate_size=3072, num_attention_heads=12,
       max_position_embeddings=64, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6),
  _MODULES | {"text_head": "text_model.head"},
  f"{_EMBEDDINGS}.token_embedding.weight", f"{_EMBEDDINGS}.position_embedding.weight",
  dict(pool="last", mask_padding=False, pad_id=1), "bicubic", "linear_bias", "none", _IDS,
)  # fmt: skip
_ALTCLIP = Towers(
  hf_vit.FAMILIES[1],
  dict(vocab_size=250002, hidden_size=1024, num_hidden_layers=24, intermediate_size=4096, num_attention_heads=16,
       max_position_embeddings=514, hidden_act="gelu", layer_norm_eps=1e-5, pad_token_id=1, project_dim=768),
  _ROBERTA_MODULES | {"image_head": "visual_projection"},
  "text_model.roberta.embeddings.word_embeddings.weight", "text_model.roberta.embeddings.position_embeddings.weight",
  dict(pool="first", pre_norm=False, embedding_norm=True, positions="counted"), "bicubic_crop", "linear_bias",
  may_drop=_IDS | {r"text_model\.roberta\.pooler\..*": "the pooler: AltCLIP does without"},
)  # fmt: skip
MODELS = {"CLIPModel": _CLIP, "SiglipModel": _SIGLIP, "AltCLIPModel": _ALTCLIP}
MODEL_TYPES = {"clip": "CLIPModel", "siglip": "SiglipModel", "altclip": "AltCLIPModel"}


def read_config(
  towers: Towers, given: Mapping[str, Any], processor: Mapping[str, Any], where: str
) -> DualTower:
  """Returns our dual tower for a config.json and, unless empty, a preprocessor_config.json.

  UsageError if our towers do not support the variant.
  """
  vit = hf_vit.read_config(towers.vision, given, processor, where, None)
  values = text_values(towers, given)
  fields = {ours: values[theirs] for ours, theirs in _FIELDS.items()} | dict(towers.text)
  fields["activation"] = hf_vit.activation(values, f"{where}: text_config")
  fields["max_length"] = values["max_position_embeddings"]
  if towers is _CLIP:
    end = values["eos_token_id"]
    fields["end_id"] = values["vocab_size"] - 1 if end == _OLD_END else end
  if towers is _ALTCLIP:
    fields["pad_id"] = values["pad_token_id"]
    fields["max_length"] -= fields["pad_id"] + 1
  text = make_config(TextConfig, where, fields, _FIELDS | {"max_length": "max_position_embeddings"})
  width = given.get("projection_dim", 512)
  if towers is _SIGLIP:
    width = values.get("projection_size") or text.width
    if width != vit.width:
      raise UsageError(
        f"{where}: text_config.projection_size is {width}, and the vision tower gives {vit.width}"
      )
  dual = make_config(
    DualConfig, where,
    {"embed_dim": width, "image_head": towers.image_head, "text_head": towers.text_head, "resize": towers.resize},
    {"embed_dim": "projection_dim"},
  )  # fmt: skip
  return DualTower(vit, text, dual, log_scale=0.0, bias=0.0, max_log_scale=0.0)


def text_values(towers: Towers, given: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the text_config of a config.json, completed with transformers' defaults."""
  return {**towers.defaults, **(given.get("text_config") or {}), **(given.get("text_config_dict") or {})}


def dual_pairs(
  towers: Towers, vit: ViTConfig, values: Mapping[str, Any], paths: Collection[str]
) -> list[Pair]:
  """Returns the pairs of our dual tower; `values` are those of text_config."""
  pairs = [
    *hf_vit.vit_pairs(towers.vision, vit, paths, "vision_model."),
    Pair(("text_tower/token_embedding",), (towers.tokens,), SAME),
  ]
  scalars = ("logit_scale", "logit_bias") if towers is _SIGLIP else ("logit_scale",)
  pairs += [Pair((name,), (name,), leading_ones(1) if towers is _SIGLIP else SAME) for name in scalars]
  positions = "text_tower/position_embedding"
  if towers is _ALTCLIP:
    types = "text_model.roberta.embeddings.token_type_embeddings.weight"
    kind = hf_text.positions_and_type(values["max_position_embeddings"], types=1)
    pairs.append(Pair((positions,), (towers.positions, types), kind))
    first = "text_model.transformation"
    names = (f"{first}.weight", f"{first}.bias", "text_projection.weight")
    kind = _two_products(values["project_dim"])
    pairs.append(Pair(("text_head/kernel", "text_head/bias"), names, kind))
  else:
    pairs.append(Pair((positions,), (towers.positions,), SAME))
  return module_pairs(paths, towers.modules, others=pairs)


def tokenizer_files(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the tokenizer files in a folder that xmcap reads."""
  return [folder / name for name in (text_input.TOKENIZER, text_input.SIGLIP) if (folder / name).is_file()]


def _two_products(between: int) -> Kind:
  """Our head is the product of their two linear layers, the first of which has a bias and `between` outputs."""

  def to_ours(theirs, shapes):
    del shapes
    first, bias, second = (part.astype(np.float32) for part in theirs)
    return [(second @ first).T, second @ bias]

  def their_shapes(ours):
    width, embed = ours[0]
    return [(between, width), (between,), (embed, between)]

  return Kind(their_shapes, to_ours, added=(0, 1))
