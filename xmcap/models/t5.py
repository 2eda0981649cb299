"""The T5.1.1 encoder and decoder, as in mT5, with t5x's parameter names and logical axes.

Raffel et al., "Exploring the Limits of Transfer Learning" (2020); Shazeer, "GLU Variants Improve Transformer"
(2020); Xue et al., "mT5" (2021): gated GELU, RMS norm, relative position buckets shared by the layers of a stack, no
biases, logits not tied to the embedding. Deviation from t5x: tokens are looked up by a gather.
"""

import dataclasses
from typing import Annotated, Any

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax
from msgspec import Meta

from xmcap.errors import UsageError
from xmcap.models import blocks, limits, stacking
from xmcap.models.attention import MASKED, MultiHeadAttention
from xmcap.models.caches import CrossCache, SelfCache
from xmcap.models.layers import (
  ACTIVATIONS,
  NO_LORA,
  Dense,
  Dropout,
  Lora,
  RMSNorm,
  check_dtype,
  constrain,
  parameter,
  resolve_dtype,
)  # fmt: skip
from xmcap.models.relative_positions import RelativePositionBias

ADAPTERS = ("none", "bottleneck", "lora")
PAD_ID = 0  # also the decoder's start token
EOS_ID = 1


@gin.configurable
@dataclasses.dataclass(frozen=True)
class T5Config:
  """Sizes of a T5.

  Attributes:
    vocab_size: rows of the embedding and the logits (mT5: 250,112).
    emb_dim, num_heads, head_dim, mlp_dim: sizes of both stacks; num_heads * head_dim need not be emb_dim.
    num_encoder_layers, num_decoder_layers: layers of each stack.
    dropout_rate: dropout of embeddings, attention, MLP and residual branches, with one mask for all positions of a row.
    relpos_buckets, relpos_max_distance: of the relative position bias.
    activation: of the MLP: `gelu_tanh` (T5.1.1, mT5), or another of `ACTIVATIONS`.
    gated: whether the activation gates a second projection (T5.1.1, mT5; the first T5 has one projection and `relu`).
    adapter: language adapter in each encoder layer: `none`; `bottleneck`, two small dense layers after the MLP
      (Pfeiffer et al., 2021); or `lora`, low-rank updates of queries and values (Hu et al., 2022).
    adapter_dim: width of the bottleneck, or the rank.
    adapter_alpha: of `lora`: its update is times adapter_alpha / adapter_dim; 0: times 1.
    remat: what the backward pass recomputes instead of storing it: `no`, `dots` or `full` (see `stacking.REMAT`).
    scan: compile one layer for a whole stack (see `stacking`).
    dtype: dtype of the activations: `auto`, `float32`, `bfloat16`; logits are float32.

  Raises:
    UsageError: a field has the wrong type or is out of its limits, or the dtype is unknown.
  """

  vocab_size: limits.Vocabulary
  emb_dim: limits.Width
  num_heads: limits.Heads
  head_dim: limits.Heads
  num_encoder_layers: Annotated[int, Meta(ge=0, le=1024)]
  num_decoder_layers: limits.Layers
  mlp_dim: limits.MlpWidth
  dropout_rate: limits.Rate = 0.0
  # The encoder halves them twice: for keys before and after, and for exact and logarithmic distances.
  relpos_buckets: Annotated[int, Meta(ge=4, le=2**16)] = 32
  relpos_max_distance: Annotated[int, Meta(ge=3, le=2**24)] = 128
  activation: str = "gelu_tanh"
  gated: bool = True
  adapter: str = "none"
  adapter_dim: limits.Width = 48
  adapter_alpha: limits.Alpha = 0.0
  remat: str = "no"
  scan: bool = False
  dtype: str = "auto"

  def __post_init__(self):
    limits.check(self)
    limits.check_names(self, adapter=ADAPTERS, activation=ACTIVATIONS, remat=stacking.REMAT)
    if self.relpos_max_distance <= self.relpos_buckets // 2:
      raise UsageError(
        f"T5Config.relpos_max_distance is {self.relpos_max_distance}: give more than the"
        f" {self.relpos_buckets // 2} distances with exact buckets (relpos_buckets)"
      )
    attention = 4 * self.emb_dim * self.num_heads * self.head_dim
    mlp = (2 + self.gated) * self.emb_dim * self.mlp_dim
    limits.check_parameters(
      self,
      2 * self.vocab_size * self.emb_dim
      + self.num_encoder_layers * (attention + mlp)
      + self.num_decoder_layers * (2 * attention + mlp),
    )
    check_dtype(self.dtype)


def _relpos_bias(config: T5Config, bidirectional: bool) -> RelativePositionBias:
  sizes = config.num_heads, config.relpos_buckets, config.relpos_max_distance
  return RelativePositionBias(*sizes, bidirectional)


class TokenEmbedder(nn.Module):
  """The embedding shared by encoder and decoder: int32 [...] -> [..., embed]."""

  config: T5Config

  @nn.compact
  def __call__(self, tokens: jax.Array) -> jax.Array:
    shape = (self.config.vocab_size, self.config.emb_dim)
    embedding = parameter("embedding", nn.initializers.normal(1.0), shape, ("vocab", "embed"))
    return jnp.take(embedding, tokens, axis=0).astype(resolve_dtype(self.config.dtype))


class Mlp(nn.Module):
  """wo(gelu(wi_0 x) * wi_1 x) or, if not gated, wo(gelu(wi x)): [rows, length, embed] -> the same."""

  config: T5Config

  def setup(self):
    config = self.config
    dtype = resolve_dtype(config.dtype)
    if config.gated:
      self.wi_0 = Dense(config.mlp_dim, ("embed", "mlp"), dtype=dtype)
      self.wi_1 = Dense(config.mlp_dim, ("embed", "mlp"), dtype=dtype)
    else:
      self.wi = Dense(config.mlp_dim, ("embed", "mlp"), dtype=dtype)
    self.wo = Dense(config.emb_dim, ("mlp", "embed"), dtype=dtype)
    self.dropout = Dropout(config.dropout_rate)

  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    activation = ACTIVATIONS[self.config.activation]
    x = activation(self.wi_0(x)) * self.wi_1(x) if self.config.gated else activation(self.wi(x))
    x = constrain(x, "batch", "length", "mlp")
    return self.wo(self.dropout(x, deterministic))


def _attention(config: T5Config, lora: Lora = NO_LORA) -> MultiHeadAttention:
  return MultiHeadAttention(
    config.num_heads, config.head_dim, config.emb_dim,
    dropout_rate=config.dropout_rate, dtype=resolve_dtype(config.dtype), lora=lora,
  )  # fmt: skip


def _norm(config: T5Config) -> RMSNorm:
  return RMSNorm(dtype=resolve_dtype(config.dtype))


class EncoderLayer(nn.Module):
  """Pre-norm self-attention and MLP with residuals, and optionally an adapter: [rows, length, embed] -> the same."""

  config: T5Config

  def setup(self):
    self.pre_attention_layer_norm = _norm(self.config)
    config = self.config
    self.attention = _attention(config, Lora.of(config.adapter, config.adapter_dim, config.adapter_alpha))
    if self.config.adapter == "bottleneck":
      self.adapter = blocks.Adapter(
        self.config.emb_dim, self.config.adapter_dim, resolve_dtype(self.config.dtype)
      )
    self.pre_mlp_layer_norm = _norm(self.config)
    self.mlp = Mlp(self.config)
    self.dropout = Dropout(self.config.dropout_rate)

  def __call__(self, x: jax.Array, bias: jax.Array, deterministic: bool) -> jax.Array:
    y = self.pre_attention_layer_norm(x)
    x = x + self.dropout(self.attention(y, y, bias, deterministic), deterministic)
    x = x + self.dropout(self.mlp(self.pre_mlp_layer_norm(x), deterministic), deterministic)
    if self.config.adapter == "bottleneck":
      x = x + self.adapter(x)
    return constrain(x, "batch", "length", "embed")


class Encoder(nn.Module):
  """The encoder. It takes embedded tokens, so that image tokens can be among them."""

  config: T5Config

  def setup(self):
    self.relpos_bias = _relpos_bias(self.config, bidirectional=True)
    self.layers = stacking.make(EncoderLayer, self.config, self.config.num_encoder_layers)
    self.encoder_norm = _norm(self.config)
    self.dropout = Dropout(self.config.dropout_rate)

  def __call__(self, embedded: jax.Array, mask: jax.Array, deterministic: bool = True) -> jax.Array:
    """[rows, length, embed] -> the same; `mask`, bool [rows, length], is False for padding."""
    length = embedded.shape[1]
    bias = self.relpos_bias(length, length) + padding_bias(mask)
    x = self.dropout(embedded, deterministic)
    x, _ = self.layers(x, bias, deterministic)
    return self.dropout(self.encoder_norm(x), deterministic)


def padding_bias(mask: jax.Array) -> jax.Array:
  """Bool [rows, keys] -> float32 [rows, 1, 1, keys]: 0 where True, MASKED where False."""
  return jnp.where(mask, 0.0, MASKED)[:, None, None, :]


class DecoderLayer(nn.Module):
  """Pre-norm self-attention, cross-attention and MLP, with residuals."""

  config: T5Config

  def setup(self):
    self.pre_self_attention_layer_norm = _norm(self.config)
    self.self_attention = _attention(self.config)
    self.pre_cross_attention_layer_norm = _norm(self.config)
    self.encoder_decoder_attention = _attention(self.config)
    self.pre_mlp_layer_norm = _norm(self.config)
    self.mlp = Mlp(self.config)
    self.dropout = Dropout(self.config.dropout_rate)

  def __call__(
    self, x: jax.Array, encoded: jax.Array, bias: jax.Array, cross_bias: jax.Array, deterministic: bool
  ) -> jax.Array:
    """All positions at once: x [rows, length, embed] -> the same.

    `encoded` is [rows, encoded_length, embed]. `bias`, [1, heads, length, length], is added to the logits of the
    self-attention, and `cross_bias`, [rows, 1, 1, encoded_length], to those of the cross-attention.
    """
    y = self.pre_self_attention_layer_norm(x)
    x = x + self.dropout(self.self_attention(y, y, bias, deterministic), deterministic)
    y = self.pre_cross_attention_layer_norm(x)
    y = self.encoder_decoder_attention(y, encoded, cross_bias, deterministic)
    x = x + self.dropout(y, deterministic)
    x = x + self.dropout(self.mlp(self.pre_mlp_layer_norm(x), deterministic), deterministic)
    return constrain(x, "batch", "length", "embed")

  def cross_key_value(self, encoded: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[rows, encoded_length, embed] -> keys and values of the cross-attention."""
    return self.encoder_decoder_attention.project_key_value(encoded)

  def step(
    self, x: jax.Array, position: jax.Array, bias: jax.Array, padding: jax.Array,
    self_key_value: tuple[jax.Array, jax.Array], cross_key_value: tuple[jax.Array, jax.Array],
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:  # fmt: skip
    """One position of every beam: x [rows, beams, embed] -> the same, and the updated keys and values."""
    rows, beams, width = x.shape
    y = self.pre_self_attention_layer_norm(x).reshape(rows * beams, 1, width)
    new = self.self_attention.project_key_value(y)
    keys, values = (
      lax.dynamic_update_slice_in_dim(cache, entry.astype(cache.dtype), position, axis=2)
      for cache, entry in zip(self_key_value, new, strict=True)
    )
    y = self.self_attention.combine(self.self_attention.project_query(y), keys, values, bias)
    x = x + y.reshape(rows, beams, width)
    # The beams of a row are its queries, so they share the row's keys and values without a copy.
    query = self.encoder_decoder_attention.project_query(self.pre_cross_attention_layer_norm(x))
    x = x + self.encoder_decoder_attention.combine(query, *cross_key_value, padding)
    return x + self.mlp(self.pre_mlp_layer_norm(x), True), (keys, values)

  def prefix(
    self, x: jax.Array, bias: jax.Array, padding: jax.Array, cross_key_value: tuple[jax.Array, jax.Array]
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The first positions of every row at once: x [rows, length, embed] -> the same, and their keys and values."""
    y = self.pre_self_attention_layer_norm(x)
    keys, values = self.self_attention.project_key_value(y)
    x = x + self.self_attention.combine(self.self_attention.project_query(y), keys, values, bias)
    query = self.encoder_decoder_attention.project_query(self.pre_cross_attention_layer_norm(x))
    x = x + self.encoder_decoder_attention.combine(query, *cross_key_value, padding)
    return x + self.mlp(self.pre_mlp_layer_norm(x), True), (keys, values)


class Decoder(nn.Module):
  """The decoder: all positions at once for training, or one at a time with a cache for decoding.

  Attributes:
    config: sizes.
    stepwise: make the layers separately, for `start` and `step`; their parameters are those of `stacking.unstack`.
  """

  config: T5Config
  stepwise: bool = False

  def setup(self):
    self.relpos_bias = _relpos_bias(self.config, bidirectional=False)
    count = self.config.num_decoder_layers
    self.layers: Any
    if self.stepwise:
      self.layers = [DecoderLayer(self.config) for _ in range(count)]
    else:
      self.layers = stacking.make(DecoderLayer, self.config, count)
    self.decoder_norm = _norm(self.config)
    dtype = resolve_dtype(self.config.dtype)
    axes = ("head_embed", "head_vocab")
    self.logits_dense = Dense(self.config.vocab_size, axes, dtype=dtype, accurate=True)
    self.dropout = Dropout(self.config.dropout_rate)

  def _causal_bias(self, length: int) -> jax.Array:
    visible = np.tril(np.ones((length, length), bool))
    return self.relpos_bias(length, length) + np.where(visible, 0.0, MASKED).astype(np.float32)

  def __call__(
    self, embedded: jax.Array, encoded: jax.Array, encoded_mask: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """Decodes all positions at once.

    Args:
      embedded: the embedded targets, shifted right, [rows, length, embed].
      encoded: the encoder's output, [rows, encoded_length, embed].
      encoded_mask: bool [rows, encoded_length].
      deterministic: no dropout.

    Returns:
      The input of `logits`, [rows, length, embed].
    """
    bias, cross_bias = self._causal_bias(embedded.shape[1]), padding_bias(encoded_mask)
    x = constrain(self.dropout(embedded, deterministic), "batch", "length", "embed")
    x, _ = self.layers(x, encoded, bias, cross_bias, deterministic)
    return self.dropout(self.decoder_norm(x), deterministic)

  def logits(self, hidden: jax.Array) -> jax.Array:
    """[rows, ..., embed] -> float32 [rows, ..., vocab]; the vocabulary may be shared out instead of the rows."""
    # One row per token: for the kernel's gradient, XLA's CPU backend would make a transposed copy of a 3-D array.
    tokens = constrain(hidden.reshape(-1, hidden.shape[-1]), "batch", "embed")
    logits = constrain(self.logits_dense(tokens), "batch", "logits")
    return logits.reshape(*hidden.shape[:-1], -1)

  def start(
    self, encoded: jax.Array, encoded_mask: jax.Array, max_length: int, beams: int
  ) -> tuple[CrossCache, SelfCache]:
    """Makes the caches for a search; shapes as in `__call__`."""
    keys, values = zip(*(layer.cross_key_value(encoded) for layer in self.layers), strict=True)
    config = self.config
    shape = (encoded.shape[0] * beams, config.num_heads, max_length, config.head_dim)
    empty = tuple(jnp.zeros(shape, resolve_dtype(config.dtype)) for _ in self.layers)
    cross = CrossCache(keys, values, padding_bias(encoded_mask), self._causal_bias(max_length))
    return cross, SelfCache(empty, empty)

  def step(
    self, embedded: jax.Array, position: jax.Array, cross: CrossCache, cache: SelfCache
  ) -> tuple[jax.Array, SelfCache]:
    """Decodes one position.

    Args:
      embedded: the embedded tokens of the previous position, [rows, beams, embed].
      position: int32 scalar below the caches' max_length, the same for every row.
      cross, cache: from `start`; `cache` from the previous step.

    Returns:
      The output of `__call__` for this position, [rows, beams, embed], and the updated cache.
    """
    bias = lax.dynamic_slice_in_dim(cross.relpos_bias, position, 1, axis=2)
    if cross.prefix is not None:
      bias += jnp.repeat(cross.prefix, embedded.shape[1], axis=0)
    x, keys, values = embedded, [], []
    for i, layer in enumerate(self.layers):
      x, (key, value) = layer.step(
        x, position, bias, cross.padding,
        (cache.keys[i], cache.values[i]), (cross.keys[i], cross.values[i]),
      )  # fmt: skip
      keys.append(key)
      values.append(value)
    return self.decoder_norm(x), SelfCache(tuple(keys), tuple(values))

  def prefix(self, embedded: jax.Array, mask: jax.Array, cross: CrossCache) -> SelfCache:
    """The keys and values of given tokens, to go on from.

    Args:
      embedded: the embedded inputs, from the start token on, at the right of [rows, max_length, embed].
      mask: bool [rows, max_length], False for the padding at their left.
      cross: from `start`.
    """
    bias = cross.relpos_bias + padding_bias(mask)
    x, keys, values = embedded, [], []
    for i, layer in enumerate(self.layers):
      x, (key, value) = layer.prefix(x, bias, cross.padding, (cross.keys[i], cross.values[i]))
      keys.append(key)
      values.append(value)
    return SelfCache(tuple(keys), tuple(values))
