"""Each kernel agrees with its plain form: values and gradients, in float32 and bfloat16."""

import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmcap.models import kernels


def _sums(head, hidden, targets, weights):
  logits = jnp.dot(hidden, head["kernel"], preferred_element_type=jnp.float32)
  losses = jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, targets[:, None], -1)[:, 0]
  return {
    "loss": jnp.sum(losses * weights),
    "largest": jax.lax.stop_gradient(jnp.sum(logits.max(-1) * weights)),
  }


@pytest.fixture(autouse=True)
def _no_bindings():
  yield
  gin.clear_config()


@pytest.fixture
def inputs(request):
  rng = np.random.default_rng(0)
  head = {"kernel": rng.normal(size=(8, 40)).astype(request.param)}
  hidden = rng.normal(size=(32, 8)).astype(request.param)
  return jax.tree.map(jnp.asarray, (head, hidden, rng.integers(0, 40, 32)))


def _value_and_grad(capacity, head, hidden, targets, weights):
  def loss(head, hidden):
    sums = kernels.summed_over_tokens(_sums, capacity, head, hidden, targets, weights)
    return 0.5 * sums["loss"], sums

  (_, sums), grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(head, hidden)
  return jax.tree.map(lambda x: np.asarray(x, np.float32), (sums, grads))


@pytest.mark.parametrize("real", [0, 5, 12, 20], ids=lambda real: f"{real} real rows")
@pytest.mark.parametrize("inputs, tolerance", [(np.float32, 1e-5), (jnp.bfloat16, 2e-2)], indirect=["inputs"])
def test_sums_within_a_capacity_of_12_rows_equal_the_sums_of_all(inputs, tolerance, real):
  head, hidden, targets = inputs
  weights = jnp.asarray(np.random.default_rng(1).permutation(32) < real, jnp.float32) * 0.7
  tuned = _value_and_grad(12, head, hidden, targets, weights)
  gin.parse_config("Kernels.plain = True")
  plain = _value_and_grad(12, head, hidden, targets, weights)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), tuned, plain)


@pytest.mark.parametrize("inputs", [np.float32], indirect=True)
def test_the_switch_takes_the_plain_form(inputs):
  head, hidden, targets = inputs
  program = lambda: str(jax.make_jaxpr(lambda: kernels.summed_over_tokens(  # noqa: E731
    _sums, 12, head, hidden, targets, jnp.ones(32)))())  # fmt: skip
  assert "cond" in program()
  gin.parse_config("Kernels.plain = True")
  assert "cond" not in program()
