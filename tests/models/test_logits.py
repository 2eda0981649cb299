"""The product with the vocabulary, derived in the way of each platform, against plain differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmcap.models.logits import LogitsDense

TARGETS = jnp.array([0, 36, 5, 5, 5, 1])


def _plainly(kernel, hidden):
  logits = hidden @ kernel
  return logits, jnp.take_along_axis(logits, TARGETS[:, None], -1)[:, 0]


def _ours(kernel, hidden):
  return LogitsDense(37).apply({"params": {"kernel": kernel}}, hidden, TARGETS)


@pytest.mark.parametrize("platform", ["default", "tpu"])
def test_the_targets_logits_and_their_gradients_are_those_of_the_product(platform, monkeypatch):
  chosen = []

  def choose(*arguments, **ways):
    chosen.append(platform)
    return ways[platform](*arguments)

  monkeypatch.setattr(jax.lax, "platform_dependent", choose)
  kernel = jax.random.normal(jax.random.key(1), (16, 37))
  hidden = jax.random.normal(jax.random.key(2), (6, 16))
  for mine, other in zip(_ours(kernel, hidden), _plainly(kernel, hidden), strict=True):
    np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)

  def gradients(of):
    def loss(kernel, hidden):
      logits, of_targets = of(kernel, hidden)
      return jnp.sum(jnp.sin(logits)) + jnp.sum(jnp.cos(of_targets))

    return jax.grad(loss, argnums=(0, 1))(kernel, hidden)

  for mine, other in zip(gradients(_ours), gradients(_plainly), strict=True):
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
  assert chosen
