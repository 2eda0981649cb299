"""mT5 in transformers: names of parameters, and configuration in both directions."""

from collections.abc import Iterable, Mapping
from typing import Any

from xmcap.convert.pairs import TIED, Pair, module_pairs
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
"""Defaults of transformers, whose older releases wrote only other values into config.json."""

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
"""Field of T5Config -> field of config.json."""

GENERATION_CONFIG = {"decoder_start_token_id": PAD_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID}
MAY_DROP = {
  r"(encoder|decoder)\.embed_tokens\.weight": "the shared embedding once more",
  r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight": "never used by transformers",
}


def _attention(ours: str, theirs: str) -> dict[str, str]:
  names = {"query": "q", "key": "k", "value": "v", "out": "o"}
  return {f"{ours}/{mine}": f"{theirs}.{other}" for mine, other in names.items()}


def _mlp(ours: str, theirs: str) -> dict[str, str]:
  return {f"{ours}/{name}": f"{theirs}.DenseReluDense.{name}" for name in ("wi_0", "wi_1", "wo")}


_ENCODER, _THEIR_ENCODER = "encoder/layers_{n}", "encoder.block.{n}.layer"
_DECODER, _THEIR_DECODER = "decoder/layers_{n}", "decoder.block.{n}.layer"
MODULES = {
  "token_embedder": "shared",
  "encoder/relpos_bias": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
  f"{_ENCODER}/pre_attention_layer_norm": f"{_THEIR_ENCODER}.0.layer_norm",
  **_attention(f"{_ENCODER}/attention", f"{_THEIR_ENCODER}.0.SelfAttention"),
  f"{_ENCODER}/pre_mlp_layer_norm": f"{_THEIR_ENCODER}.1.layer_norm",
  **_mlp(f"{_ENCODER}/mlp", f"{_THEIR_ENCODER}.1"),
  "encoder/encoder_norm": "encoder.final_layer_norm",
  "decoder/relpos_bias": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
  f"{_DECODER}/pre_self_attention_layer_norm": f"{_THEIR_DECODER}.0.layer_norm",
  **_attention(f"{_DECODER}/self_attention", f"{_THEIR_DECODER}.0.SelfAttention"),
  f"{_DECODER}/pre_cross_attention_layer_norm": f"{_THEIR_DECODER}.1.layer_norm",
  **_attention(f"{_DECODER}/encoder_decoder_attention", f"{_THEIR_DECODER}.1.EncDecAttention"),
  f"{_DECODER}/pre_mlp_layer_norm": f"{_THEIR_DECODER}.2.layer_norm",
  **_mlp(f"{_DECODER}/mlp", f"{_THEIR_DECODER}.2"),
  "decoder/decoder_norm": "decoder.final_layer_norm",
  "decoder/logits_dense": "lm_head",
}
"""Our module -> theirs."""


def t5_pairs(paths: Iterable[str], tied: bool = False) -> list[Pair]:
  """Returns the pairs of our T5; with `tied`, their embedding is also our logits kernel."""
  both = Pair(("token_embedder/embedding", "decoder/logits_dense/kernel"), ("shared.weight",), TIED)
  return module_pairs(paths, MODULES, others=[both] if tied else [])


def read_config(given: Mapping[str, Any], where: str) -> T5Config:
  """Returns our configuration of the T5 in a config.json; UsageError if our T5 does not support the variant."""
  values = {**DEFAULTS[given["model_type"]], **given}
  if values["feed_forward_proj"] != "gated-gelu":
    raise UsageError(
      f"{where}: feed_forward_proj is {values['feed_forward_proj']!r}; xmcap supports T5.1.1 and mT5 ('gated-gelu')"
    )
  epsilon = values["layer_norm_epsilon"]
  # `not <=`, because every comparison with NaN is false.
  if not isinstance(epsilon, int | float) or not abs(epsilon - 1e-6) <= 1e-12:
    raise UsageError(f"{where}: layer_norm_epsilon is {shown(repr(epsilon), 60)}; xmcap's T5 has 1e-6")
  if values["num_decoder_layers"] is None:
    values["num_decoder_layers"] = values["num_layers"]
  return make_config(T5Config, where, {ours: values[theirs] for ours, theirs in FIELDS.items()}, FIELDS)


def write_config(config: T5Config, dtype: str) -> dict[str, Any]:
  """Returns the config.json of a T5 of ours."""
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
