"""Layer norm and dense layers: values and gradients of flax's own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import drawn_params
from xmcap.models.layers import Dense, LayerNorm


@pytest.mark.parametrize(("mean", "fast"), [(0.0, False), (3.0, False), (30.0, True)])
def test_layer_norms_gradients_equal_flaxs(mean, fast):
  x = mean + jax.random.normal(jax.random.key(0), (3, 5, 16))
  norm, other = LayerNorm(1e-6), nn.LayerNorm(1e-6, use_fast_variance=fast)
  params = drawn_params.of(norm.init, x)

  def of(module):
    return jax.jit(jax.value_and_grad(lambda p, x: jnp.sum(jnp.sin(module.apply({"params": p}, x))), (0, 1)))

  mine, flaxs = of(norm)(params, x), of(other)(params, x)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5), mine, flaxs)


def test_heads_are_the_features_of_flaxs_dense_split():
  x = jax.random.normal(jax.random.key(0), (3, 5, 6))
  dense = Dense(8, ("embed", "joined_kv"), use_bias=True, heads=2)
  params = drawn_params.of(dense.init, x)
  assert jax.tree.map(jnp.shape, params) == {"kernel": (6, 8), "bias": (8,)}
  expected = nn.Dense(8).apply({"params": params}, x)
  np.testing.assert_allclose(
    dense.apply({"params": params}, x), expected.reshape(3, 5, 2, 4), rtol=1e-5, atol=1e-6
  )
