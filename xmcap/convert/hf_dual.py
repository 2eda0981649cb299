"""Both towers of transformers' CLIPModel, MetaClip2Model, SiglipModel and AltCLIPModel: names and configuration."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xmcap.convert import hf_image_processors, hf_text, hf_vit
from xmcap.convert.pairs import SAME, Pair, WeightKind, leading_ones, module_pairs
from xmcap.convert.source import make_config
from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.families.dual.tokenizer_files import Described
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown

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
_ENDS = {"end_id": "text_config.eos_token_id", "pad_id": "text_config.pad_token_id"}


@dataclasses.dataclass(frozen=True)
class Towers:
  """One of transformers' models with two towers.

  Attributes:
    vision: its vision tower.
    defaults: transformers' values for fields that text_config lacks.
    modules: our modules of the text tower and of the heads -> theirs.
    tokens, positions: names of the two embeddings.
    text: constant fields of TextConfig.
    text_head, image_head: as in DualConfig.
    width: transformers' value for a missing `projection_dim`.
    may_drop: as in `pairs.make_outputs`.
  """

  vision: hf_vit.Family
  defaults: Mapping[str, Any]
  modules: Mapping[str, str]
  tokens: str
  positions: str
  text: Mapping[str, Any]
  text_head: str = "linear"
  image_head: str = "linear"
  width: int = 512
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
  dict(pool="end", causal=True, mask_padding=False), may_drop=_IDS,
)  # fmt: skip
# Its end is the first end token, even with id 2 (transformers' modular_metaclip_2.py).
_METACLIP_2 = dataclasses.replace(_CLIP, vision=hf_vit.CLASSES["MetaClip2Model"])
_SIGLIP = Towers(
  hf_vit.FAMILIES[2],
  dict(vocab_size=32000, hidden_size=768, num_hidden_layers=12, intermediate_size=3072, num_attention_heads=12,
       max_position_embeddings=64, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, pad_token_id=1),
  _MODULES | {"text_head": "text_model.head"},
  f"{_EMBEDDINGS}.token_embedding.weight", f"{_EMBEDDINGS}.position_embedding.weight",
  dict(pool="last", mask_padding=False), "linear_bias", "none", may_drop=_IDS,
)  # fmt: skip
_ALTCLIP = Towers(
  hf_vit.FAMILIES[1],
  dict(vocab_size=250002, hidden_size=1024, num_hidden_layers=24, intermediate_size=4096, num_attention_heads=16,
       max_position_embeddings=514, hidden_act="gelu", layer_norm_eps=1e-5, pad_token_id=1, project_dim=768),
  _ROBERTA_MODULES | {"image_head": "visual_projection"},
  "text_model.roberta.embeddings.word_embeddings.weight", "text_model.roberta.embeddings.position_embeddings.weight",
  dict(pool="first", pre_norm=False, embedding_norm=True, positions="counted"), "linear_bias",
  width=768, may_drop=_IDS | {r"text_model\.roberta\.pooler\..*": "the pooler: AltCLIP does without"},
)  # fmt: skip
MODELS = {
  "CLIPModel": _CLIP, "SiglipModel": _SIGLIP, "AltCLIPModel": _ALTCLIP, "MetaClip2Model": _METACLIP_2
}  # fmt: skip
MODEL_TYPES = {
  "clip": "CLIPModel", "siglip": "SiglipModel", "altclip": "AltCLIPModel", "metaclip_2": "MetaClip2Model"
}  # fmt: skip


def read_config(
  towers: Towers,
  settings: Mapping[str, Any],
  processor: Mapping[str, Any],
  tokenizer: Described,
  where: str,
  processor_where: str,
) -> DualTower:
  """Returns our dual tower for a config.json and, unless empty, the fields of an image processor and a tokenizer.

  UsageError if our towers do not support the variant.
  """
  vit = hf_vit.read_config(towers.vision, settings, processor, where, processor_where, None)
  values = text_values(towers, settings)
  fields = {ours: values[theirs] for ours, theirs in _FIELDS.items()} | dict(towers.text)
  fields["activation"] = hf_vit.activation(values, f"{where}: text_config")
  fields["max_length"] = values["max_position_embeddings"]
  if towers in (_CLIP, _METACLIP_2):
    # The end that is no end: transformers then reads at the highest id.
    highest = towers is _CLIP and values["eos_token_id"] == _OLD_END
    fields |= {"pool": "highest"} if highest else {"end_id": values["eos_token_id"]}
  if towers is _ALTCLIP:
    fields["pad_id"] = values["pad_token_id"]
    fields["max_length"] -= fields["pad_id"] + 1
  elif tokenizer.most is not None and isinstance(fields["max_length"], int):
    fields["max_length"] = min(fields["max_length"], tokenizer.most)
  fields |= _of_tokenizer(towers, values, tokenizer, where)
  text = make_config(TextConfig, where, fields, _FIELDS | _ENDS | {"max_length": "max_position_embeddings"})
  width = settings.get("projection_dim", towers.width)
  if towers is _SIGLIP:
    width = values.get("projection_size") or text.width
    if width != vit.width:
      raise UsageError(
        f"{where}: text_config.projection_size is {width}, and the vision tower gives {vit.width}"
      )
  resize = hf_image_processors.resize(processor, vit.image_size, towers.vision.resize, processor_where)
  dual = make_config(
    DualConfig, where,
    {"embed_dim": width, "image_head": towers.image_head, "text_head": towers.text_head, "resize": resize},
    {"embed_dim": "projection_dim"},
  )  # fmt: skip
  return DualTower(vit, text, dual)


def _of_tokenizer(
  towers: Towers, values: Mapping[str, Any], tokenizer: Described, where: str
) -> dict[str, Any]:
  """Returns how texts are cleaned, padded and ended, by the files of the tokenizer."""
  siglip, cleaning = towers is _SIGLIP, "none"
  plain = tokenizer.kind == "SiglipTokenizer" or (siglip and not tokenizer.kind)
  if siglip and tokenizer.has_gemmas_pieces(values["vocab_size"]):
    cleaning = "lower"
  elif plain:
    if not tokenizer.lower:
      raise UsageError(f"{where}: its tokenizer has do_lower_case false: xmcap's SigLIP reads lower case")
    cleaning = "plain"
  fields: dict[str, Any] = {"cleaning": cleaning}
  if not siglip:
    return fields
  if tokenizer.left:
    raise UsageError(
      f"{where}: its tokenizer has padding_side left: SigLIP's texts are read at their end, and xmcap pads"
      " at the right"
    )
  pad_id, end_id = tokenizer.siglip_ids(values["vocab_size"])
  asked = values["pad_token_id"]
  # transformers writes its default, 1, whatever the tokenizer.
  if asked not in (None, towers.defaults["pad_token_id"], pad_id):
    if tokenizer.pad_id is not None:
      raise UsageError(
        f"{where}: text_config.pad_token_id is {shown(repr(asked), 40)}, and its tokenizer pads with id {pad_id}:"
        " fetch both again"
      )
    pad_id = asked
  return fields | {"pad_id": pad_id, "end_id": end_id}


def text_values(towers: Towers, config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the text_config of a config.json, completed with transformers' defaults."""
  return {**towers.defaults, **(config.get("text_config") or {}), **(config.get("text_config_dict") or {})}


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
    kind = hf_text.positions_and_type(values["max_position_embeddings"])
    pairs.append(Pair((positions,), (towers.positions,), kind))
  return module_pairs(paths, towers.modules, others=pairs)


def _two_products(between: int) -> WeightKind:
  """Our head is the product of their two linear layers, the first of which has a bias and `between` outputs."""

  def to_ours(theirs, shapes):
    del shapes
    first, bias, second = (part.astype(np.float32) for part in theirs)
    return [(second @ first).T, second @ bias]

  def their_shapes(ours):
    width, embed = ours[0]
    return [(between, width), (between,), (embed, between)]

  return WeightKind(their_shapes, to_ours, added=(0, 1))
