"""The loss of tokens in parts: the same loss and gradients as of all at once, in less memory."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.test_objectives import caption_batch, captioning, loss_and_grad, params_of
from xmcap.models.layers import accurate_product
from xmcap.training import token_loss
from xmcap.training.objectives import CaptionObjective


@pytest.mark.parametrize(
  ("positions", "gibibytes", "parts"),
  [
    (32, 0.95, 1),
    (32, 2.0, 1),
    (32, 2.1, 2),
    (32, 15.3, 8),
    (24, 5.0, 3),
    (29, 2.1, 29),
    (1, 9.0, 1),
    (6, 900.0, 6),
  ],
)
def test_token_loss_parts_fit_into_memory(positions, gibibytes, parts):
  assert token_loss.parts_of(positions, gibibytes * 2**30) == parts


@pytest.mark.parametrize(
  "label_smoothing, bytes_at_once",
  [
    pytest.param(0.1, 2_400, id="3 parts"),
    pytest.param(0.0, 100, id="every position", marks=pytest.mark.full),
  ],
)
def test_token_loss_in_parts_equals_the_whole(monkeypatch, label_smoothing, bytes_at_once):
  batch, params = caption_batch(), params_of(captioning())
  whole = loss_and_grad(captioning(label_smoothing=label_smoothing), params, batch)
  monkeypatch.setattr(token_loss, "MOST_BYTES", bytes_at_once)
  objective = CaptionObjective(
    captioning().module.vit, captioning().module.t5, label_smoothing=label_smoothing
  )
  (loss, metrics), gradients = loss_and_grad(objective, params, batch)
  (expected, expected_metrics), expected_gradients = whole
  assert float(loss) == pytest.approx(float(expected), rel=1e-6)
  assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
    {name: float(value) for name, value in expected_metrics.items()}, rel=1e-6
  )
  for mine, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-7)


def test_token_loss_in_parts_does_not_keep_logits():
  hidden, kernel = jnp.ones((4, 2, 16, 8)), jnp.ones((8, 4_096))

  def sums(kernel, hidden, weights):
    loss = jnp.sum(jax.nn.logsumexp(hidden @ kernel, -1) * weights)
    return loss, {"loss": loss}

  def temporaries(parts):
    def loss(kernel, hidden):
      return token_loss.summed(sums, parts, kernel, hidden, (jnp.ones(hidden.shape[:3]),))[0]

    gradient = jax.jit(jax.grad(loss, (0, 1)))
    return gradient.lower(kernel, hidden).compile().memory_analysis().temp_size_in_bytes

  logits = 4 * math.prod(hidden.shape[:3]) * kernel.shape[1]
  assert temporaries(8) < logits / 2 < logits <= temporaries(1)


@pytest.mark.parametrize(("platform", "products"), [("cuda", "bf16"), ("tpu", "f32"), ("cpu", "f32")])
def test_accurate_product_dtypes_of_the_backward_pass(platform, products):
  x, kernel = jnp.ones((3, 4), jnp.bfloat16), jnp.ones((4, 5), jnp.bfloat16)

  def loss(x, kernel):
    product = accurate_product(x, kernel)
    assert product.dtype == jnp.float32
    return jnp.sum(jnp.sin(product))

  lowered = jax.jit(jax.grad(loss, (0, 1))).trace(x, kernel).lower(lowering_platforms=(platform,)).as_text()
  forward, *backward = [line for line in lowered.splitlines() if "dot_general" in line]
  assert "xbf16>) -> tensor<3x5xf32>" in forward
  assert len(backward) == 2 and all(f"x{products}>) -> " in line for line in backward)


def test_accurate_product_gradients_equal_jnp_dot():
  x, kernel = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(3, 4), (4, 5)]))

  def loss(product, *factors):
    return jnp.sum(jnp.sin(product(*factors)))

  mine, other = (
    jax.grad(functools.partial(loss, product), (0, 1))(x, kernel) for product in (accurate_product, jnp.dot)
  )
  for a, b in zip(mine, other, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5)
