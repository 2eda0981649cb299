"""Key-value caches for decoding."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct


class CrossCache(struct.PyTreeNode):
  """Keys and values of the cross-attention, computed once per row.

  Attributes:
    keys, values: one per layer, each [rows, heads, encoded_length, kv].
    padding: float32 [rows, 1, 1, encoded_length], added to the logits.
    relpos_bias: float32 [1, heads, max_length, max_length], added to the logits of the self-attention.
    prefix: float32 [rows, 1, 1, max_length], added to them too: the padding before a row's prefix; None: there is none.
  """

  keys: tuple[jax.Array, ...]
  values: tuple[jax.Array, ...]
  padding: jax.Array
  relpos_bias: jax.Array
  prefix: jax.Array | None = None

  def take(self, rows: jax.Array) -> "CrossCache":
    """The cache of the given rows; an index past the end takes the last row."""
    return self.of_rows(lambda x: jnp.take(x, rows, axis=0, mode="clip"))

  def of_rows(self, change: Callable[[jax.Array], jax.Array]) -> "CrossCache":
    """The cache with each array of rows changed."""
    rows = (self.keys, self.values, self.padding, self.prefix)
    keys, values, padding, prefix = jax.tree.map(change, rows)
    return CrossCache(keys, values, padding, self.relpos_bias, prefix)

  def astype(self, dtype: jnp.dtype) -> "CrossCache":
    """Casts keys and values; the biases stay float32."""
    keys, values = jax.tree.map(lambda x: x.astype(dtype), (self.keys, self.values))
    return self.replace(keys=keys, values=values)


class SelfCache(struct.PyTreeNode):
  """Keys and values of the positions so far: one per layer, each [rows * beams, heads, max_length, kv]."""

  keys: tuple[jax.Array, ...]
  values: tuple[jax.Array, ...]

  def astype(self, dtype: jnp.dtype) -> "SelfCache":
    """Casts keys and values."""
    return jax.tree.map(lambda x: x.astype(dtype), self)
