"""mT5 as transformers keeps it: names, configuration, both ways."""

from collections.abc import Collection, Mapping
from typing import Any

from xmcap.convert.pairs import SAME, TIED, TRANSPOSED, Pair, expand
from xmcap.convert.source import make_config
from xmcap.errors import UsageError
from xmcap.models.t5 import EOS_ID, PAD_ID, T5Config
from xmcap.terminal import shown

CLASSES = ("MT5ForConditionalGeneration", "T5ForConditionalGeneration")

_BOTH = dict(
  d_model=512, d_kv=64, num_decoder_layers=None, relative_attention_num_buckets=32, relative_attention_max_distance=128,
  layer_norm_epsilon=1e-6,
)  # fmt: skip
DEFAULTS = {
  "mt5": _BOTH
  | dict(vocab_size=250112, d_ff=1024, num_layers=8, num_heads=6, feed_forward_proj="gated-gelu"),
  "t5": _BOTH | dict(vocab_size=32128, d_ff=2048, num_layers=6, num_heads=8, feed_forward_proj="relu"),
}
"""Of transformers, where config.json is silent: older releases write only the fields that differ."""

FIELDS = {
  "vocab_size": "vocab_size",
  "emb_dim": "d_model",
  "num_heads": "num_heads",
  "head_dim": "d_kv",
  "num_encoder_layers": "num_layers",
  "num_decoder_layers": "num_decoder_layers",
  "mlp_dim": "d_ff",
  "relpos_buckets": "relative_attention_num_buckets",
  "relpos_max_distance": "relative_attention_max_distance",
}
"""Fields of T5Config -> of config.json."""

GENERATION_CONFIG = {"decoder_start_token_id": PAD_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID}
MAY_DROP = {
  r"(encoder|decoder)\.embed_tokens\.weight": "the shared embedding once more",
  r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight": "never used by transformers",
}


def _attention(ours: str, theirs: str):
  names = {"query": "q", "key": "k", "value": "v", "out": "o"}
  return [(f"{ours}/{mine}/kernel", f"{theirs}.{other}.weight", TRANSPOSED) for mine, other in names.items()]


def _mlp(theirs: str):
  return [
    (f"mlp/{name}/kernel", f"{theirs}.DenseReluDense.{name}.weight", TRANSPOSED)
    for name in ("wi_0", "wi_1", "wo")
  ]


_ENCODER_LAYER = [
  ("pre_attention_layer_norm/scale", "0.layer_norm.weight", SAME),
  *_attention("attention", "0.SelfAttention"),
  ("pre_mlp_layer_norm/scale", "1.layer_norm.weight", SAME),
  *_mlp("1"),
]
_DECODER_LAYER = [
  ("pre_self_attention_layer_norm/scale", "0.layer_norm.weight", SAME),
  *_attention("self_attention", "0.SelfAttention"),
  ("pre_cross_attention_layer_norm/scale", "1.layer_norm.weight", SAME),
  *_attention("encoder_decoder_attention", "1.EncDecAttention"),
  ("pre_mlp_layer_norm/scale", "2.layer_norm.weight", SAME),
  *_mlp("2"),
]
_BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def t5_pairs(config: T5Config) -> list[Pair]:
  """Every parameter of our T5 and its name in transformers."""
  pairs = expand([
    ("token_embedder/embedding", "shared.weight", SAME),
    ("decoder/logits_dense/kernel", "lm_head.weight", TRANSPOSED),
  ])  # fmt: skip
  for stack, layer, count in (
    ("encoder", _ENCODER_LAYER, config.num_encoder_layers),
    ("decoder", _DECODER_LAYER, config.num_decoder_layers),
  ):
    rows = [
      ("relpos_bias/rel_embedding", _BIAS, TRANSPOSED),
      (f"{stack}_norm/scale", "final_layer_norm.weight", SAME),
    ]
    pairs += expand(rows, f"{stack}/", f"{stack}.")
    for n in range(count):
      pairs += expand(layer, f"{stack}/layers_{n}/", f"{stack}.block.{n}.layer.")
  return pairs


def read_config(given: Mapping[str, Any], where: str) -> T5Config:
  """Our configuration of the T5 that a config.json describes.

  Raises:
    UsageError: it is a variant that ours is not.
  """
  values = {**DEFAULTS[given["model_type"]], **given}
  if values["feed_forward_proj"] != "gated-gelu":
    raise UsageError(
      f"{where}: feed_forward_proj is {values['feed_forward_proj']!r}; xmcap's T5 is T5.1.1 and mT5 ('gated-gelu')"
    )
  epsilon = values["layer_norm_epsilon"]
  # `not <=`, as every comparison with a NaN is false.
  if not isinstance(epsilon, int | float) or not abs(epsilon - 1e-6) <= 1e-12:
    raise UsageError(f"{where}: layer_norm_epsilon is {shown(repr(epsilon), 60)}; xmcap's T5 has 1e-6")
  if values["num_decoder_layers"] is None:
    values["num_decoder_layers"] = values["num_layers"]
  return make_config(T5Config, where, {ours: values[theirs] for ours, theirs in FIELDS.items()}, FIELDS)


def pairs_of_file(
  given: Mapping[str, Any], names: Collection[str], pairs: list[Pair], where: str
) -> tuple[list[Pair], list[str]]:
  """The pairs for what a file holds, and notes for the user: logits that share the embedding are not in it.

  Raises:
    UsageError: the logits of a T5 are missing.
  """
  if "lm_head.weight" in names or "shared.weight" not in names:
    return pairs, []
  if given["model_type"] == "t5":
    raise UsageError(
      f"{where}: no tensor lm_head.weight: the logits of T5.1.1 and mT5 are not tied to the embedding"
    )
  both = Pair(("token_embedder/embedding", "decoder/logits_dense/kernel"), ("shared.weight",), TIED)
  rest = [pair for pair in pairs if pair.theirs not in (("shared.weight",), ("lm_head.weight",))]
  note = "no lm_head.weight: as in transformers the logits begin as the embedding, and are trained apart"
  return [both, *rest], [note]


def write_config(config: T5Config, dtype: str) -> dict[str, Any]:
  """The config.json of transformers for a T5 of ours."""
  return {
    "architectures": ["MT5ForConditionalGeneration"],
    "model_type": "mt5",
    **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
    "dropout_rate": config.dropout_rate,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "tie_word_embeddings": False,
    "use_cache": True,
    **GENERATION_CONFIG,
    "torch_dtype": dtype,
  }
