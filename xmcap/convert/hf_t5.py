"""mT5 in transformers: names of parameters, and configuration in both directions."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xmcap.convert.pairs import SAME, TIED, Pair, WeightKind, module_pairs
from xmcap.convert.source import make_config
from xmcap.errors import UsageError
from xmcap.files.tensors import Tensor
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

_ACTIVATIONS = {
  "gated-gelu": ("gelu_tanh", True), "gated-silu": ("silu", True), "gated-relu": ("relu", True),
  "relu": ("relu", False), "silu": ("silu", False), "gelu_new": ("gelu_tanh", False), "gelu": ("gelu", False),
}  # fmt: skip
"""`feed_forward_proj` -> activation and gated of T5Config; transformers reads `gated-gelu` as tanh."""
_NAMES = {"gelu_tanh": "gelu_new", "silu": "silu", "relu": "relu", "gelu": "gelu"}
EMBEDDINGS = ("shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
"""Names of the one embedding; published files have one of them at least (madlad400 only the decoder's)."""
HEAD = "lm_head.weight"

GENERATION_CONFIG = {"decoder_start_token_id": PAD_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID}
MAY_DROP = {
  r"shared\.weight|(encoder|decoder)\.embed_tokens\.weight": "the shared embedding once more",
  r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight": "never used by transformers",
}


def _attention(ours: str, theirs: str) -> dict[str, str]:
  names = {"query": "q", "key": "k", "value": "v", "out": "o"}
  return {f"{ours}/{mine}": f"{theirs}.{other}" for mine, other in names.items()}


def _mlp(ours: str, theirs: str) -> dict[str, str]:
  return {f"{ours}/{name}": f"{theirs}.DenseReluDense.{name}" for name in ("wi", "wi_0", "wi_1", "wo")}


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


def is_scaled(settings: Mapping[str, Any], where: str) -> bool:
  """Whether transformers multiplies the decoder's output by d_model**-0.5 before the logits.

  The first T5 does. transformers 4 decides by `tie_word_embeddings`, which defaults to true for T5 and to false for
  mT5. transformers 5 always ties, has a field of its own for T5, and never scales mT5.

  Raises:
    UsageError: the two versions of transformers give this mT5 other logits.
  """
  if settings["model_type"] == "t5":
    scaled = settings.get("scale_decoder_outputs")
    return settings.get("tie_word_embeddings") is not False if scaled is None else bool(scaled)
  version = str(settings.get("transformers_version", "5"))
  if settings.get("tie_word_embeddings") and not version.startswith("5"):
    raise UsageError(
      f"{where}: tie_word_embeddings true of transformers {shown(version, 20)}, which scales an mT5's logits by"
      " d_model**-0.5, as transformers 5 does not: set it to false, or remove transformers_version, for no scale"
    )
  return False


def embedding_of(tensors: Mapping[str, Tensor], where: str) -> str:
  """Returns the name of the embedding; UsageError if its copies differ, since our stacks share one."""
  names = [name for name in EMBEDDINGS if name in tensors]
  for copy in names[1:]:
    if not np.array_equal(tensors[copy].read(), tensors[names[0]].read()):
      raise UsageError(
        f"{tensors[copy].where}: {copy} differs from {names[0]}: xmcap's stacks share one embedding"
      )
  return names[0] if names else EMBEDDINGS[0]


def t5_pairs(
  paths: Iterable[str], embedding: str = EMBEDDINGS[0], tied: bool = False, scaled: bool = False
) -> list[Pair]:
  """Returns the pairs of our T5, whose embedding has the name `embedding`.

  Args:
    tied: their embedding is also our logits kernel.
    scaled: their logits are multiplied by d_model**-0.5, which becomes part of our kernel.
  """
  kernel, ours = "decoder/logits_dense/kernel", "token_embedder/embedding"
  if tied:
    return module_pairs(
      paths, MODULES, others=[Pair((ours, kernel), (embedding,), _SCALED_TIED if scaled else TIED)]
    )
  others = [Pair((ours,), (embedding,), SAME)]
  if scaled:
    others.append(Pair((kernel,), (HEAD,), _SCALED))
  return module_pairs(paths, MODULES, others=others)


def _scaled(embedding: np.ndarray) -> np.ndarray:
  kernel = embedding.astype(np.float32).T
  return kernel * np.float32(len(kernel) ** -0.5)


_SCALED_TIED = WeightKind(
  lambda ours: [ours[0]], lambda theirs, _: [theirs[0], _scaled(theirs[0])], added=(1,)
)
_SCALED = WeightKind(lambda ours: [ours[0][::-1]], lambda theirs, _: [_scaled(theirs[0])], added=(0,))


def read_config(settings: Mapping[str, Any], where: str) -> T5Config:
  """Returns our configuration of the T5 in a config.json; UsageError if our T5 does not support the variant."""
  values = {**DEFAULTS[settings["model_type"]], **settings}
  mlp = values["feed_forward_proj"]
  if not isinstance(mlp, str) or mlp not in _ACTIVATIONS:
    raise UsageError(
      f"{where}: feed_forward_proj is {shown(repr(mlp), 60)}; xmcap has {', '.join(_ACTIVATIONS)}"
    )
  activation, gated = _ACTIVATIONS[mlp]
  # transformers lets fields of later releases overrule feed_forward_proj.
  said = settings.get("dense_act_fn"), settings.get("is_gated_act")
  if said[0] not in (None, _NAMES[activation]) or said[1] not in (None, gated):
    raise UsageError(
      f"{where}: dense_act_fn {shown(repr(said[0]), 40)}, is_gated_act {shown(repr(said[1]), 40)}: not those of"
      f" feed_forward_proj {mlp!r}"
    )
  epsilon = values["layer_norm_epsilon"]
  # `not <=`, because every comparison with NaN is false.
  if not isinstance(epsilon, int | float) or not abs(epsilon - 1e-6) <= 1e-12:
    raise UsageError(f"{where}: layer_norm_epsilon is {shown(repr(epsilon), 60)}; xmcap's T5 has 1e-6")
  if values["num_decoder_layers"] is None:
    values["num_decoder_layers"] = values["num_layers"]
  fields = {ours: values[theirs] for ours, theirs in FIELDS.items()}
  return make_config(T5Config, where, {**fields, "activation": activation, "gated": gated}, FIELDS)


def write_config(config: T5Config, dtype: str) -> dict[str, Any]:
  """Returns the config.json of a T5 of ours."""
  kind = config.activation, config.gated
  mlp = next((theirs for theirs, ours in _ACTIVATIONS.items() if ours == kind), None)
  if mlp is None:
    raise UsageError(
      f"T5Config: activation {config.activation!r}, gated {config.gated}: transformers has no such T5"
    )
  return {
    "architectures": ["MT5ForConditionalGeneration"],
    "model_type": "mt5",
    **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
    "dropout_rate": config.dropout_rate,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": mlp,
    "is_encoder_decoder": True,
    "tie_word_embeddings": False,
    "use_cache": True,
    **GENERATION_CONFIG,
    "torch_dtype": dtype,
  }
