"""The parts of a ViT or text tower block: attention, norm and MLP, all with biases."""

from typing import Any, Protocol

import jax
from flax import linen as nn

from xmcap.models.attention import MultiHeadAttention
from xmcap.models.layers import (
  ACTIVATIONS,
  NO_LORA,
  VIT_KERNEL_INIT,
  Dense,
  Dropout,
  LayerNorm,
  Lora,
  constrain,
  resolve_dtype,
)  # fmt: skip


class Sizes(Protocol):
  """The fields of a configuration that the parts of a block use; see `ViTConfig`."""

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


def attention(config: Sizes, implementation: str = "plain", lora: Lora = NO_LORA) -> MultiHeadAttention:
  """Self-attention or pooling attention, with heads of width / num_heads."""
  return MultiHeadAttention(
    config.num_heads, config.width // config.num_heads, config.width, scaled=True, use_bias=True,
    dropout_rate=config.dropout_rate, dtype=resolve_dtype(config.dtype), kernel_init=VIT_KERNEL_INIT,
    lora=lora, implementation=implementation,
  )  # fmt: skip


def norm(config: Sizes) -> LayerNorm:
  """A layer norm."""
  return LayerNorm(config.norm_epsilon, resolve_dtype(config.dtype))


class Mlp(nn.Module):
  """Two dense layers with an activation between them: [rows, length, width] -> the same."""

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


class Adapter(nn.Module):
  """The bottleneck of a language adapter (Pfeiffer et al., 2021), relu(x W + b) W' + b': [..., width] -> the same."""

  width: int
  inner: int
  dtype: Any

  def setup(self):
    # As in AdapterHub: small but not 0, because two zero kernels would have zero gradients.
    self.down = Dense(self.inner, ("embed", "mlp"), True, self.dtype, nn.initializers.normal(0.02))
    self.up = Dense(self.width, ("mlp", "embed"), True, self.dtype, nn.initializers.normal(0.02))

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.up(jax.nn.relu(self.down(x)))
