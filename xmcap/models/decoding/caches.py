"""Key-value caches for decoding."""

import jax
import jax.numpy as jnp
from flax import struct


class CrossCache(struct.PyTreeNode):
  """Keys and values of the cross-attention, computed once per row.

  Attributes:
    keys, values: one per layer, each [rows, heads, encoded_length, kv].
    padding: float32 [rows, 1, 1, encoded_length], added to the logits.
    relpos_bias: float32 [1, heads, max_length, max_length], added to the logits of the self-attention.
  """

  keys: tuple[jax.Array, ...]
  values: tuple[jax.Array, ...]
  padding: jax.Array
  relpos_bias: jax.Array

  def take(self, rows: jax.Array) -> "CrossCache":
    """The cache of the given rows; an index past the end takes the last row."""
    keys, values, padding = jax.tree.map(
      lambda x: jnp.take(x, rows, axis=0, mode="clip"), (self.keys, self.values, self.padding)
    )
    return CrossCache(keys, values, padding, self.relpos_bias)

  def astype(self, dtype: jnp.dtype) -> "CrossCache":
    """Casts keys and values; the biases stay float32."""
    keys, values = jax.tree.map(lambda x: x.astype(dtype), (self.keys, self.values))
    return CrossCache(keys, values, self.padding, self.relpos_bias)


class SelfCache(struct.PyTreeNode):
  """Keys and values of the positions so far: one per layer, each [rows * beams, heads, max_length, kv]."""

  keys: tuple[jax.Array, ...]
  values: tuple[jax.Array, ...]

  def astype(self, dtype: jnp.dtype) -> "SelfCache":
    """Casts keys and values."""
    return jax.tree.map(lambda x: x.astype(dtype), self)
