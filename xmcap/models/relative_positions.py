"""T5's relative position bias: attention sees the distance of two positions, in buckets (Raffel et al., 2020)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from xmcap.models.layers import parameter


def relative_position_buckets(
  num_queries: int, num_keys: int, bidirectional: bool, num_buckets: int = 32, max_distance: int = 128
) -> np.ndarray:
  """Buckets of key position - query position: exact for the first half, then logarithmic up to max_distance.

  Raffel et al. (2020), section 2.1. Bidirectional stacks use half of the buckets for keys after the query.

  Returns:
    int32 [num_queries, num_keys], each in [0, num_buckets).
  """
  relative = np.arange(num_keys)[None, :] - np.arange(num_queries)[:, None]
  offset = np.zeros_like(relative)
  if bidirectional:
    num_buckets //= 2
    offset = (relative > 0) * num_buckets
    distance = np.abs(relative)
  else:
    distance = np.maximum(-relative, 0)
  exact = num_buckets // 2
  # The small constant keeps exact powers, such as 16 / 8, from being rounded down into the bucket below.
  share = np.log(np.maximum(distance, 1) / exact) / math.log(max_distance / exact)
  large = share * (num_buckets - exact) + 1e-9
  # Clipped at 0 before truncation; values for distances below `exact` are not used.
  large = np.minimum(exact + np.maximum(large, 0).astype(np.int64), num_buckets - 1)
  return (offset + np.where(distance < exact, distance, large)).astype(np.int32)


class RelativePositionBias(nn.Module):
  """A learned bias for each (head, bucket), shared by the layers of a stack."""

  num_heads: int
  num_buckets: int
  max_distance: int
  bidirectional: bool

  @nn.compact
  def __call__(self, num_queries: int, num_keys: int) -> jax.Array:
    """Returns the bias of attention logits, float32 [1, heads, num_queries, num_keys]."""
    init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
    shape = (self.num_heads, self.num_buckets)
    embedding = parameter("rel_embedding", init, shape, ("heads", "relpos_buckets"))
    sizes = self.num_buckets, self.max_distance
    buckets = relative_position_buckets(num_queries, num_keys, self.bidirectional, *sizes)
    # A one-hot product, because the gradient of a gather would be a slow scatter.
    one_hot = jax.nn.one_hot(buckets, self.num_buckets, dtype=jnp.float32)
    return jnp.einsum("hr,qkr->hqk", embedding, one_hot)[None]
