import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.make.command import forked
from tests.training.test_objectives import T5, VIT
from xmcap.training import sharding, token_logits
from xmcap.training.objectives import CaptionObjective

SETTINGS = {"label_smoothing": 0.1, "z_loss": 1e-2}


def tokens(dtype, scale):
  """Hidden vectors, targets and weights of 4 pictures with 2 captions, and a kernel; logits deviate by `scale`."""
  rng = np.random.default_rng(0)
  hidden = jnp.asarray(rng.normal(size=(4, 2, 3, T5.emb_dim)), dtype)
  kernel = jnp.asarray(rng.normal(size=(T5.emb_dim, T5.vocab_size)) * scale / T5.emb_dim**0.5, jnp.float32)
  targets = jnp.asarray(rng.integers(3, T5.vocab_size, (4, 2, 3)), jnp.int32)
  # Some are right, so that accuracy is not 0.
  targets = targets.at[:, 0].set(jnp.argmax(hidden[:, 0].astype(jnp.float32) @ kernel, -1))
  return kernel, hidden, targets, jnp.asarray(rng.integers(0, 3, (4, 2, 3)), jnp.float32)


def with_gradients(one_pass, dtype, scale=3.0, settings=SETTINGS):
  """The sums of a loss and its metrics, and the gradients of the logits' kernel and of their input."""
  t5 = dataclasses.replace(T5, dtype=dtype)
  objective = CaptionObjective(VIT, t5, one_pass=one_pass, **settings)

  def sums(kernel, *rest):
    return objective.sums({"decoder": {"logits_dense": {"kernel": kernel}}}, *rest)

  return jax.jit(jax.value_and_grad(sums, (0, 1), has_aux=True))(*tokens(dtype, scale))


def assert_forms_agree(dtype, settings=SETTINGS):
  (loss, metrics), gradients = with_gradients(True, dtype, settings=settings)
  (expected, expected_metrics), expected_gradients = with_gradients(False, dtype, settings=settings)
  np.testing.assert_allclose(loss, expected, rtol=1e-6)
  np.testing.assert_allclose(metrics["cross_entropy"], expected_metrics["cross_entropy"], rtol=1e-6)
  assert metrics["accuracy"] == expected_metrics["accuracy"] > 0
  most = {"float32": 1e-6, "bfloat16": 2**-8}[dtype]
  for mine, other in zip(gradients, expected_gradients, strict=True):
    assert mine.dtype == other.dtype
    mine, other = (np.asarray(array, np.float32) for array in (mine, other))
    assert np.linalg.norm(mine - other) < most * np.linalg.norm(other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("settings", [SETTINGS, {"z_loss": 0.0}], ids=["smoothing and z-loss", "neither"])
def test_one_pass_equals_the_plain_form(dtype, settings):
  assert_forms_agree(dtype, settings)


@pytest.mark.slow
def test_one_pass_equals_the_plain_form_on_a_mesh():
  forked(agree_on_a_mesh, devices=8).succeeded()


def agree_on_a_mesh():
  partitioning = sharding.Partitioning(data=2, fsdp=2, model=2)
  with sharding.use(partitioning.mesh(), partitioning.logical_rules()):
    for dtype in ("float32", "bfloat16"):
      assert_forms_agree(dtype)


def test_one_pass_gradient_of_a_target_that_is_nearly_certain():
  """In bfloat16 its probability would round to 1, and its gradient to 0."""
  logits, targets = jnp.array([[0.0, 7.0, 0.0]]), jnp.array([1])
  bound = jnp.mean(logits, -1) + jnp.log(3.0)

  def cross_entropy(logits):
    values = token_logits.reduced_in_one_pass(logits, targets, bound, jnp.bfloat16)
    return jnp.sum(values.log_z - values.of_targets)

  expected = jax.nn.softmax(logits) - jnp.array([[0.0, 1.0, 0.0]])
  np.testing.assert_allclose(jax.grad(cross_entropy)(logits)[0, 1], expected[0, 1], rtol=1e-3)


@pytest.mark.parametrize(("above", "finite"), [(-1.0, True), (1.0, False)])
def test_one_pass_log_z_far_above_its_bound_is_exact_or_infinite(above, finite):
  logits = jnp.array([[0.0, 118.5 + above, -300.0]])
  values = token_logits.reduced_in_one_pass(logits, jnp.array([0]), jnp.zeros(1), jnp.float32)
  expected = token_logits.reduced(logits, jnp.array([0])).log_z if finite else jnp.inf
  np.testing.assert_allclose(values.log_z, expected, rtol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_lower_bound_of_log_z_is_the_mean_logit_and_log_v(bias):
  kernel, hidden, *_ = tokens("float32", 3.0)
  dense = {"kernel": kernel} | ({"bias": jnp.arange(T5.vocab_size, dtype=jnp.float32)} if bias else {})
  logits = hidden @ kernel + dense.get("bias", 0.0)
  bound = token_logits.lower_bound(dense, hidden)
  np.testing.assert_allclose(bound, jnp.mean(logits, -1) + np.log(T5.vocab_size), rtol=1e-4)
  assert (bound <= jax.nn.logsumexp(logits, -1)).all()
