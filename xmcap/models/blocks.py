"""What a block of the ViT and of a text tower is made of: attention, norm and MLP, all with biases."""

from typing import Protocol

import jax
from flax import linen as nn

from xmcap.models.attention import MultiHeadAttention
from xmcap.models.layers import (
  ACTIVATIONS,
  VIT_KERNEL_INIT,
  Dense,
  Dropout,
  LayerNorm,
  constrain,
  resolve_dtype,
)  # fmt: skip


class Sizes(Protocol):
  """What the parts of a block ask of a configuration; the names are explained in `ViTConfig`."""

  @property
  def width(self) -> int: ...
  @property
  def mlp_dim(self) -> int: ...
  @property
  def num_heads(self) -> int: ...
  @property
  def dropout_rate(self) -> float: ...
  @property
  def activation(self) -> str: ...
  @property
  def norm_epsilon(self) -> float: ...
  @property
  def dtype(self) -> str: ...


def attention(config: Sizes) -> MultiHeadAttention:
  """Attention whose heads share the width."""
  return MultiHeadAttention(
    config.num_heads, config.width // config.num_heads, config.width, scaled=True, use_bias=True,
    dropout_rate=config.dropout_rate, dtype=resolve_dtype(config.dtype), kernel_init=VIT_KERNEL_INIT,
  )  # fmt: skip


def norm(config: Sizes) -> LayerNorm:
  """A layer norm."""
  return LayerNorm(config.norm_epsilon, resolve_dtype(config.dtype))


class Mlp(nn.Module):
  """Two products with biases and an activation between: [rows, length, width] -> the same."""

  config: Sizes

  def setup(self):
    config = self.config
    dtype = resolve_dtype(config.dtype)
    bias_init = nn.initializers.normal(1e-6)
    self.wi = Dense(config.mlp_dim, ("embed", "mlp"), True, dtype, VIT_KERNEL_INIT, bias_init)
    self.wo = Dense(config.width, ("mlp", "embed"), True, dtype, VIT_KERNEL_INIT, bias_init)
    self.dropout = Dropout(config.dropout_rate)

  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    x = ACTIVATIONS[self.config.activation](self.wi(x))
    x = constrain(x, "batch", "length", "mlp")
    return self.wo(self.dropout(x, deterministic))
