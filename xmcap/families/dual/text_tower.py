"""The text tower of published dual towers: CLIP's, SigLIP's, BERT, XLM-R, and the encoder of M2M100 (NLLB).

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021), section 2.4; Zhai et
al., "Sigmoid Loss for Language Image Pre-Training" (2023); Devlin et al., "BERT" (2019); Conneau et al., "Unsupervised
Cross-lingual Representation Learning at Scale" (2020); Fan et al., "Beyond English-Centric Multilingual Machine
Translation" (2021). xmcap's own dual towers read with an mT5 encoder instead.
"""

import dataclasses
import math

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models import blocks, limits, stacking
from xmcap.models.attention import MASKED
from xmcap.models.layers import ACTIVATIONS, Dropout, Lora, check_dtype, constrain, parameter, resolve_dtype

POOLS = ("mean", "first", "last", "end", "highest")
CLEANINGS = ("none", "lower", "lower_ascii", "plain", "canonical")
ADAPTERS = ("none", "bottleneck", "lora")
POSITIONS = ("learned", "counted", "sinusoidal")
_EMBEDDING_INIT = nn.initializers.normal(0.02)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class TextConfig:
  """Sizes and variants of a text tower.

  Attributes:
    vocab_size: rows of the embedding.
    width, depth, mlp_dim, num_heads: of the transformer; width is divisible by num_heads.
    max_length: largest number of tokens of a text, including those that its tokenizer adds.
    pad_id: the padding token.
    end_id: the token that ends a text, for pool `end`.
    pool: the output that represents the text: the `mean` over its tokens, the `first`, the `last` of max_length (texts
      are then always padded), or the one at the first `end_id`.
    pre_norm: norms before attention and MLP (CLIP) instead of after the residual (BERT, XLM-R).
    embedding_norm: a norm before the first block.
    final_norm: a norm after the last block.
    causal: a token does not attend to later ones.
    mask_padding: no token attends to padding.
    positions: `learned`; `counted`: learned, but tokens are counted from pad_id + 1 on, and padding is at position
      pad_id (XLM-R); `sinusoidal`: counted the same way, and not learned (M2M100).
    scale_embedding: multiply token embeddings by sqrt(width) (M2M100).
    cleaning: what the tokenizer does with a text first: `none`; `lower` case (SigLIP 2 in transformers); `lower_ascii`,
      of the letters A to Z alone (SigLIP 2 in big_vision, by `tf.strings.lower`); `plain`, lower case without ASCII
      punctuation (SigLIP); `canonical`, the same with spaces for underscores (OpenCLIP).
    adapter: language adapter in each layer: `none`; `bottleneck`, two small dense layers after the MLP. With
      post-norm they are AdapterHub's (Pfeiffer et al., 2021): r being the input of the MLP and h its output,
      norm(r + h + adapter(norm(r + h))), the same norm twice. Or `lora`, low-rank updates of queries and values (Hu et
      al., 2022).
    adapter_dim: width of the bottleneck, or the rank.
    adapter_alpha: of `lora`: its update is times adapter_alpha / adapter_dim; 0: times 1.
    activation, norm_epsilon, dropout_rate, remat, scan, dtype: as in `ViTConfig`.

  Raises:
    UsageError: a field has the wrong type or is out of its limits, sizes do not divide, or a name is unknown.
  """

  vocab_size: limits.Vocabulary
  width: limits.Width
  depth: limits.Layers
  mlp_dim: limits.MlpWidth
  num_heads: limits.Heads
  max_length: limits.Length
  pad_id: limits.TokenId = 0
  end_id: limits.TokenId = 1
  pool: str = "mean"
  pre_norm: bool = True
  embedding_norm: bool = False
  final_norm: bool = True
  causal: bool = False
  mask_padding: bool = True
  positions: str = "learned"
  scale_embedding: bool = False
  cleaning: str = "none"
  adapter: str = "none"
  adapter_dim: limits.Width = 48
  adapter_alpha: limits.Alpha = 0.0
  activation: str = "gelu"
  norm_epsilon: limits.Epsilon = 1e-5
  dropout_rate: limits.Rate = 0.0
  remat: str = "no"
  scan: bool = False
  dtype: str = "auto"

  def __post_init__(self):
    limits.check(self)
    limits.check_names(
      self,
      pool=POOLS,
      positions=POSITIONS,
      activation=ACTIVATIONS,
      cleaning=CLEANINGS,
      adapter=ADAPTERS,
      remat=stacking.REMAT,
    )
    if self.width % self.num_heads:
      raise UsageError(f"TextConfig.width {self.width} is not divisible by num_heads {self.num_heads}")
    if self.positions == "sinusoidal" and (self.width % 2 or self.width < 4):
      raise UsageError(f"TextConfig.width {self.width}: sinusoidal positions need an even width of 4 or more")
    layers = self.depth * (4 * self.width**2 + 2 * self.width * self.mlp_dim)
    limits.check_parameters(self, layers + (self.vocab_size + self.num_positions) * self.width)
    check_dtype(self.dtype)

  @property
  def num_positions(self) -> int:
    """Rows of the position embedding."""
    return self.max_length + (0 if self.positions == "learned" else self.pad_id + 1)


class TextLayer(nn.Module):
  """A transformer block: [rows, length, width] -> the same; `bias` is added to the logits of its attention."""

  config: TextConfig

  def setup(self):
    self.attention_norm = blocks.norm(self.config)
    lora = Lora.of(self.config.adapter, self.config.adapter_dim, self.config.adapter_alpha)
    self.attention = blocks.attention(self.config, lora=lora)
    self.mlp_norm = blocks.norm(self.config)
    self.mlp = blocks.Mlp(self.config)
    if self.config.adapter == "bottleneck":
      dtype = resolve_dtype(self.config.dtype)
      self.adapter = blocks.Adapter(self.config.width, self.config.adapter_dim, dtype)
    self.dropout = Dropout(self.config.dropout_rate)

  def __call__(self, x: jax.Array, bias: jax.Array, deterministic: bool) -> jax.Array:
    adapts = self.config.adapter == "bottleneck"
    if self.config.pre_norm:
      y = self.attention_norm(x)
      x = x + self.dropout(self.attention(y, y, bias, deterministic), deterministic)
      x = x + self.dropout(self.mlp(self.mlp_norm(x), deterministic), deterministic)
      x = x + self.adapter(x) if adapts else x
    else:
      y = self.attention(x, x, bias, deterministic)
      x = self.attention_norm(x + self.dropout(y, deterministic))
      y = x + self.dropout(self.mlp(x, deterministic), deterministic)
      x = self.mlp_norm(y)
      x = self.mlp_norm(y + self.adapter(x)) if adapts else x
    return constrain(x, "batch", "length", "embed")


class TextTower(nn.Module):
  """Texts to vectors.

  Parameters: `token_embedding` [vocab_size, width], `position_embedding` [num_positions, width] (if learned),
  `embedding_norm` and `final_norm` (if asked for), `layers` (see `stacking`).
  """

  config: TextConfig

  def setup(self):
    config = self.config
    if config.embedding_norm:
      self.embedding_norm = blocks.norm(config)
    self.dropout = Dropout(config.dropout_rate)
    self.layers = stacking.make(TextLayer, config, config.depth)
    if config.final_norm:
      self.final_norm = blocks.norm(config)

  @nn.compact
  def __call__(self, tokens: jax.Array, deterministic: bool = True) -> jax.Array:
    """Texts, int32 [rows, length], padded with pad_id -> float32 [rows, width].

    Raises:
      UsageError: texts are longer than max_length, or shorter with pool `last`.
    """
    config, length = self.config, tokens.shape[1]
    if length > config.max_length or (config.pool == "last" and length < config.max_length):
      raise UsageError(f"texts of {length} tokens do not fit a text tower of max_length {config.max_length}")
    dtype = resolve_dtype(config.dtype)
    present = tokens != config.pad_id
    table = parameter(
      "token_embedding", _EMBEDDING_INIT, (config.vocab_size, config.width), ("vocab", "embed"), dtype
    )
    x = table[tokens] * (math.sqrt(config.width) if config.scale_embedding else 1)
    if config.positions == "sinusoidal":
      positions = jnp.asarray(sinusoids(config.num_positions, config.width, config.pad_id), dtype)
    else:
      shape = (config.num_positions, config.width)
      positions = parameter("position_embedding", _EMBEDDING_INIT, shape, ("position", "embed"), dtype)
    if config.positions == "learned":
      x += positions[:length]
    else:
      x += positions[config.pad_id + jnp.cumsum(present, axis=1) * present]
    if config.embedding_norm:
      x = self.embedding_norm(x)
    x = constrain(self.dropout(x, deterministic), "batch", "length", "embed")
    x, _ = self.layers(x, self._bias(present), deterministic)
    if config.final_norm:
      x = self.final_norm(x)
    return self._pooled(x.astype(jnp.float32), tokens, present)

  def _bias(self, present: jax.Array) -> jax.Array:
    """MASKED where a token must not attend to another, else 0: float32, broadcasts to [rows, heads, length, length]."""
    length = present.shape[1]
    visible = jnp.ones((1, 1, length, length), bool)
    if self.config.causal:
      visible &= np.tril(np.ones((length, length), bool))
    if self.config.mask_padding:
      visible &= present[:, None, None, :]
    return jnp.where(visible, 0.0, MASKED)

  def _pooled(self, x: jax.Array, tokens: jax.Array, present: jax.Array) -> jax.Array:
    if self.config.pool == "mean":
      return jnp.sum(x * present[..., None], axis=1) / jnp.maximum(jnp.sum(present, axis=1, keepdims=True), 1)
    if self.config.pool in ("end", "highest"):
      marks = tokens == self.config.end_id if self.config.pool == "end" else tokens
      place = jnp.argmax(marks, axis=1)
      return jnp.take_along_axis(x, place[:, None, None], axis=1)[:, 0]
    return x[:, 0] if self.config.pool == "first" else x[:, -1]


def sinusoids(positions: int, width: int, pad_id: int) -> np.ndarray:
  """The positions of Vaswani et al. (2017) as in M2M100, float32 [positions, width]: all sines, then all cosines.

  The wavelengths go from 2 pi to 10,000 * 2 pi, both ends included, and the row of padding is 0.
  """
  half = width // 2
  angles = np.arange(positions)[:, None] * np.exp(np.arange(half) * (-math.log(10_000) / (half - 1)))
  table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  table[pad_id] = 0
  return table.astype(np.float32)
