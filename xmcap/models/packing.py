"""Rows side by side in one longer row of attention, none seeing another's positions.

A TPU computes attention in tiles of 128 keys: a row of 32 tokens fills a quarter of one, four side by side fill it.
"""

import jax
import jax.numpy as jnp
import numpy as np

from xmcap.models.attention import MASKED
from xmcap.models.layers import parts


def how_many(rows: int, length: int, pack_length: int) -> int:
  """How many of the decoder's rows stand side by side: as many as fit, and leave each device its own."""
  own = rows // parts(rows, "batch")
  return next((packed for packed in range(pack_length // length, 1, -1) if own % packed == 0), 1)


def bias_of(bias: jax.Array, packed: int) -> jax.Array:
  """The bias of one row [1, heads, length, length] for rows side by side: [1, heads, packed * length, the same]."""
  length = bias.shape[-1]
  own = np.kron(np.eye(packed, dtype=bool), np.ones((length, length), bool))
  return jnp.where(own, jnp.tile(bias, (1, 1, packed, packed)), MASKED)


def padding_bias_of(mask: jax.Array, length: int) -> jax.Array:
  """What positions of rows side by side see of the encoder: only what their own row does.

  bool [rows, packed, keys] -> float32 [rows, 1, packed * length, packed * keys], 0 or MASKED.
  """
  rows, packed, keys = mask.shape
  own = np.kron(np.eye(packed, dtype=bool), np.ones((length, keys), bool))
  return jnp.where(mask.reshape(rows, 1, 1, packed * keys) & own, 0.0, MASKED)


def side_by_side(x: jax.Array) -> jax.Array:
  """[rows, packed, length, ...] -> [rows, packed * length, ...]."""
  return x.reshape(x.shape[0], -1, *x.shape[3:])
