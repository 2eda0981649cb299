"""Text encoders of transformers (XLM-R, BERT, DistilBERT, M2M100): names and sizes, by the shapes of their tensors."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xmcap.convert.pairs import SAME, Kind, Pair, module_pairs, torch_leaf
from xmcap.convert.source import count_layers, make_config, shape_of
from xmcap.errors import UsageError
from xmcap.models.text_tower import TextConfig
from xmcap.tensors.files import Tensor

_HEAD_WIDTH = 64  # of all published models of these kinds


@dataclasses.dataclass(frozen=True)
class Encoder:
  """One of transformers' text encoders.

  Attributes:
    name: of its kind.
    layers: what stands before the number of a layer.
    modules: our modules of the text tower -> theirs, within a layer as `layers_{n}/...` -> what follows the number.
    tokens, positions, types: names of the embeddings; "" where it has none.
    heads: how a configuration calls the number of heads.
    fields: of TextConfig.
    may_drop: {pattern of a name: reason}.
  """

  name: str
  layers: str
  modules: Mapping[str, str]
  tokens: str
  positions: str
  types: str
  heads: str
  fields: Mapping[str, Any]
  may_drop: Mapping[str, str]

  def theirs(self) -> dict[str, str]:
    """Our modules below `text_tower/` -> theirs, `{n}` for the number of a layer."""
    return {
      ours: f"{self.layers}{{n}}.{name}" if ours.startswith("layers_") else name
      for ours, name in self.modules.items()
    }


_BERT_MODULES = {
  "embedding_norm": "embeddings.LayerNorm",
  "layers_{n}/attention/query": "attention.self.query",
  "layers_{n}/attention/key": "attention.self.key",
  "layers_{n}/attention/value": "attention.self.value",
  "layers_{n}/attention/out": "attention.output.dense",
  "layers_{n}/attention_norm": "attention.output.LayerNorm",
  "layers_{n}/mlp/wi": "intermediate.dense",
  "layers_{n}/mlp/wo": "output.dense",
  "layers_{n}/mlp_norm": "output.LayerNorm",
}
_DISTILBERT_MODULES = {
  "embedding_norm": "embeddings.LayerNorm",
  "layers_{n}/attention/query": "attention.q_lin",
  "layers_{n}/attention/key": "attention.k_lin",
  "layers_{n}/attention/value": "attention.v_lin",
  "layers_{n}/attention/out": "attention.out_lin",
  "layers_{n}/attention_norm": "sa_layer_norm",
  "layers_{n}/mlp/wi": "ffn.lin1",
  "layers_{n}/mlp/wo": "ffn.lin2",
  "layers_{n}/mlp_norm": "output_layer_norm",
}
_M2M100_MODULES = {
  "layers_{n}/attention/query": "self_attn.q_proj",
  "layers_{n}/attention/key": "self_attn.k_proj",
  "layers_{n}/attention/value": "self_attn.v_proj",
  "layers_{n}/attention/out": "self_attn.out_proj",
  "layers_{n}/attention_norm": "self_attn_layer_norm",
  "layers_{n}/mlp/wi": "fc1",
  "layers_{n}/mlp/wo": "fc2",
  "layers_{n}/mlp_norm": "final_layer_norm",
  "final_norm": "layer_norm",
}
_POST_NORM = dict(pre_norm=False, embedding_norm=True, final_norm=False, activation="gelu")
_POSITIONS, _TYPES = "embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"
_DROPPED = {
  r"embeddings\.(position_ids|token_type_ids)": "numbers, not weights",
  r"pooler\.dense\.(weight|bias)": "the pooler, which nothing here reads",
}
_BERT = Encoder(
  "BERT", "encoder.layer.", _BERT_MODULES, "embeddings.word_embeddings.weight", _POSITIONS, _TYPES,
  "num_attention_heads", _POST_NORM | dict(norm_epsilon=1e-12), _DROPPED,
)  # fmt: skip
XLM_R = dataclasses.replace(
  _BERT, name="XLM-R", fields=_POST_NORM | dict(norm_epsilon=1e-5, positions="counted", pad_id=1)
)
_DISTILBERT = Encoder(
  "DistilBERT", "transformer.layer.", _DISTILBERT_MODULES, "embeddings.word_embeddings.weight", _POSITIONS, "",
  "n_heads", _POST_NORM | dict(norm_epsilon=1e-12), _DROPPED,
)  # fmt: skip
_M2M100 = Encoder(
  "M2M100", "layers.", _M2M100_MODULES, "embed_tokens.weight", "", "", "encoder_attention_heads",
  dict(activation="relu", norm_epsilon=1e-5, positions="sinusoidal", scale_embedding=True, pad_id=1),
  {r"embed_positions\.weights": "sinusoids, which are computed"},
)  # fmt: skip


def recognise(tensors: Mapping[str, Tensor], prefix: str, where: str) -> Encoder:
  """The kind of the encoder below a prefix; UsageError if it is none of these."""
  if f"{prefix}{_M2M100.tokens}" in tensors and f"{prefix}layers.0.self_attn_layer_norm.weight" in tensors:
    return _M2M100
  if f"{prefix}{_BERT.tokens}" in tensors:
    if f"{prefix}{_TYPES}" not in tensors:
      return _DISTILBERT
    # RoBERTa and XLM-R have a single type of token, BERT has two.
    return XLM_R if tensors[f"{prefix}{_TYPES}"].shape[:1] == (1,) else _BERT
  raise UsageError(
    f"{where}: no text encoder that xmcap has below {prefix!r}: XLM-R, BERT, DistilBERT or M2M100"
  )


def read_config(
  encoder: Encoder,
  tensors: Mapping[str, Tensor],
  prefix: str,
  where: str,
  pool: str,
  max_length: int | None,
  given: Mapping[str, Any],
) -> TextConfig:
  """Our configuration of an encoder, by the shapes of its tensors.

  Args:
    tensors, prefix, where: the encoder's tensors begin with the prefix; `where` is for messages.
    pool: as in TextConfig.
    max_length: pieces of a text; None: as many as the encoder has positions.
    given: a configuration as transformers writes it, or some of its fields: the number of heads. Without it a head is
      64 wide, as in all published models of these kinds.

  Raises:
    UsageError: a tensor is absent or has another rank, or a size is out of its limits.
  """

  def shape(name: str) -> tuple[int, ...]:
    return shape_of(tensors, prefix + name, 2, where, encoder.name)

  vocab_size, width = shape(encoder.tokens)
  mlp = encoder.modules["layers_{n}/mlp/wi"]
  mlp_dim, _ = shape(f"{encoder.layers}0.{mlp}.weight")
  fields = dict(encoder.fields)
  if encoder.positions:
    rows = shape(encoder.positions)[0]
    rows -= fields["pad_id"] + 1 if fields.get("positions") == "counted" else 0
    max_length = min(rows, max_length or rows)
  fields |= dict(
    vocab_size=vocab_size, width=width, depth=count_layers(tensors, prefix + encoder.layers), mlp_dim=mlp_dim,
    pool=pool, max_length=max_length, num_heads=given.get(encoder.heads) or max(1, width // _HEAD_WIDTH),
  )  # fmt: skip
  return make_config(TextConfig, where, fields, {"num_heads": encoder.heads})


def encoder_pairs(
  encoder: Encoder, tensors: Mapping[str, Tensor], prefix: str, paths: Collection[str]
) -> list[Pair]:
  """Every parameter of our text tower and its name below the prefix."""
  paths = [path for path in paths if path.startswith("text_tower/")]
  pairs = [Pair(("text_tower/token_embedding",), (encoder.tokens,), SAME)]
  if encoder.positions:
    rows, _ = tensors[prefix + encoder.positions].shape
    names, types = [encoder.positions], 0
    if encoder.types:
      names.append(encoder.types)
      types = tensors[prefix + encoder.types].shape[0]
    kind = positions_and_type(rows, types)
    pairs.append(Pair(("text_tower/position_embedding",), tuple(names), kind))
  pairs = module_pairs(paths, encoder.theirs(), torch_leaf, "text_tower/", pairs)
  return [Pair(pair.ours, tuple(prefix + name for name in pair.theirs), pair.kind) for pair in pairs]


def may_drop(encoder: Encoder, prefix: str) -> dict[str, str]:
  """{pattern of a whole name: reason} of what the encoder has beside the tower."""
  return {re.escape(prefix) + rule: reason for rule, reason in encoder.may_drop.items()}


def positions_and_type(rows: int, types: int) -> Kind:
  """Our positions are the first of their `rows`, plus the first of their `types`, which all tokens of one text have."""

  def their_shapes(ours):
    width = ours[0][1]
    return [(rows, width), (types, width)] if types else [(rows, width)]

  def to_ours(theirs, shapes):
    positions = theirs[0][: shapes[0][0]]
    return [positions.astype(np.float32) + theirs[1][0].astype(np.float32)] if types else [positions]

  return Kind(their_shapes, to_ours, added=(0,) if types else ())
