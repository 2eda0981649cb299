"""Text encoders of transformers (XLM-R, BERT, DistilBERT, M2M100), recognised and measured by their tensors."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xmcap.convert.pairs import SAME, Pair, WeightKind, below, layer_modules, module_pairs
from xmcap.convert.source import count_layers, make_config, shape_of
from xmcap.errors import UsageError
from xmcap.families.dual.text_tower import TextConfig
from xmcap.files.tensors import Tensor

_HEAD_WIDTH = 64  # in all published models of these kinds


@dataclasses.dataclass(frozen=True)
class HfTextEncoder:
  """One of transformers' text encoders.

  Attributes:
    name: for messages.
    modules: our modules of the text tower -> theirs; `{n}` is the number of a layer.
    tokens, positions, types: names of the embeddings; "" if there is none.
    heads: name of the number of heads in config.json.
    fields: constant fields of TextConfig.
    may_drop: as in `pairs.make_outputs`.
  """

  name: str
  modules: Mapping[str, str]
  tokens: str
  positions: str
  types: str
  heads: str
  fields: Mapping[str, Any]
  may_drop: Mapping[str, str]


_BERT_MODULES = {"embedding_norm": "embeddings.LayerNorm"} | layer_modules(
  "encoder.layer.{n}.",
  query="attention.self.query", key="attention.self.key", value="attention.self.value", out="attention.output.dense",
  attention_norm="attention.output.LayerNorm", wi="intermediate.dense", wo="output.dense", mlp_norm="output.LayerNorm",
)  # fmt: skip
_DISTILBERT_MODULES = {"embedding_norm": "embeddings.LayerNorm"} | layer_modules(
  "transformer.layer.{n}.",
  query="attention.q_lin", key="attention.k_lin", value="attention.v_lin", out="attention.out_lin",
  attention_norm="sa_layer_norm", wi="ffn.lin1", wo="ffn.lin2", mlp_norm="output_layer_norm",
)  # fmt: skip
_M2M100_MODULES = {"final_norm": "layer_norm"} | layer_modules(
  "layers.{n}.",
  query="self_attn.q_proj", key="self_attn.k_proj", value="self_attn.v_proj", out="self_attn.out_proj",
  attention_norm="self_attn_layer_norm", wi="fc1", wo="fc2", mlp_norm="final_layer_norm",
)  # fmt: skip
_POST_NORM = dict(pre_norm=False, embedding_norm=True, final_norm=False, activation="gelu")
_TOKENS, _POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"
_DROPPED = {
  r"embeddings\.(position_ids|token_type_ids)": "numbers, not weights",
  r"pooler\.dense\.(weight|bias)": "the pooler, which nothing here reads",
}
_BERT = HfTextEncoder(
  "BERT", _BERT_MODULES, _TOKENS, _POSITIONS, _TYPES, "num_attention_heads", _POST_NORM | dict(norm_epsilon=1e-12),
  _DROPPED,
)  # fmt: skip
XLM_R = dataclasses.replace(
  _BERT, name="XLM-R", fields=_POST_NORM | dict(norm_epsilon=1e-5, positions="counted", pad_id=1)
)
_DISTILBERT = HfTextEncoder(
  "DistilBERT", _DISTILBERT_MODULES, _TOKENS, _POSITIONS, "", "n_heads", _POST_NORM | dict(norm_epsilon=1e-12),
  _DROPPED,
)  # fmt: skip
_M2M100 = HfTextEncoder(
  "M2M100", _M2M100_MODULES, "embed_tokens.weight", "", "", "encoder_attention_heads",
  dict(activation="relu", norm_epsilon=1e-5, positions="sinusoidal", scale_embedding=True, pad_id=1),
  {r"embed_positions\.weights": "sinusoids, which are computed"},
)  # fmt: skip


def recognise(tensors: Mapping[str, Tensor], prefix: str, where: str) -> HfTextEncoder:
  """Returns the kind of the encoder below a prefix; UsageError if it is none of these."""
  if f"{prefix}{_M2M100.tokens}" in tensors and f"{prefix}layers.0.self_attn_layer_norm.weight" in tensors:
    return _M2M100
  if f"{prefix}{_TOKENS}" in tensors:
    if f"{prefix}{_TYPES}" not in tensors:
      return _DISTILBERT
    types, _ = shape_of(tensors, f"{prefix}{_TYPES}", 2, where, "text encoder")
    if types:
      # RoBERTa and XLM-R have one type of token, BERT has two.
      return XLM_R if types == 1 else _BERT
  raise UsageError(
    f"{where}: no text encoder that xmcap has below {prefix!r}: XLM-R, BERT, DistilBERT or M2M100"
  )


def read_config(
  encoder: HfTextEncoder,
  tensors: Mapping[str, Tensor],
  prefix: str,
  where: str,
  pool: str,
  max_length: int | None,
  settings: Mapping[str, Any],
) -> TextConfig:
  """Returns our configuration of the encoder below `prefix`, from the shapes of its tensors.

  Args:
    pool: as in TextConfig.
    max_length: largest number of pieces of a text; None: the number of positions.
    settings: the fields of config.json, for the number of heads; if it is missing, heads are 64 wide.

  Raises:
    UsageError: a tensor is missing or has another rank, or a size is out of its limits.
  """

  def shape(name: str) -> tuple[int, ...]:
    return shape_of(tensors, prefix + name, 2, where, encoder.name)

  vocab_size, width = shape(encoder.tokens)
  layers, mlp = encoder.modules["layers_{n}/mlp/wi"].split("{n}")
  mlp_dim, _ = shape(f"{layers}0{mlp}.weight")
  fields = dict(encoder.fields)
  if encoder.positions:
    rows = shape(encoder.positions)[0]
    rows -= fields["pad_id"] + 1 if fields.get("positions") == "counted" else 0
    max_length = min(rows, max_length or rows)
  fields |= dict(
    vocab_size=vocab_size, width=width, depth=count_layers(tensors, prefix + layers), mlp_dim=mlp_dim, pool=pool,
    max_length=max_length, num_heads=settings.get(encoder.heads) or max(1, width // _HEAD_WIDTH),
  )  # fmt: skip
  return make_config(TextConfig, where, fields, {"num_heads": encoder.heads})


def encoder_pairs(
  encoder: HfTextEncoder, tensors: Mapping[str, Tensor], prefix: str, paths: Collection[str]
) -> list[Pair]:
  """Returns the pairs of our text tower and the encoder below a prefix."""
  pairs = [Pair(("text_tower/token_embedding",), (encoder.tokens,), SAME)]
  if encoder.positions:
    names = tuple(name for name in (encoder.positions, encoder.types) if name)
    kind = positions_and_type(*(tensors[prefix + name].shape[0] for name in names))
    pairs.append(Pair(("text_tower/position_embedding",), names, kind))
  return below(prefix, module_pairs(paths, encoder.modules, "text_tower/", pairs))


def may_drop(encoder: HfTextEncoder, prefix: str) -> dict[str, str]:
  """Returns `encoder.may_drop` for names below a prefix."""
  return {re.escape(prefix) + rule: reason for rule, reason in encoder.may_drop.items()}


def positions_and_type(rows: int, types: int = 0) -> WeightKind:
  """Our positions are the first of their `rows`, plus the first of their `types`, the type of all tokens of a text."""

  def their_shapes(ours):
    width = ours[0][1]
    return [(rows, width), (types, width)] if types else [(rows, width)]

  def to_ours(theirs, shapes):
    positions = theirs[0][: shapes[0][0]]
    return [positions.astype(np.float32) + theirs[1][0].astype(np.float32)] if types else [positions]

  return WeightKind(their_shapes, to_ours, added=(0,) if types else ())
