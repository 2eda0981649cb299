"""Attention: values and gradients of jax's own, cuDNN's kernel where it can be, dropout of weights on the values."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import drawn_params
from xmcap.errors import UsageError
from xmcap.models import attention as attention_lib
from xmcap.models.attention import MASKED, MultiHeadAttention, attend

ROWS, QUERIES, KEYS, HEADS, KV = 3, 5, 7, 2, 4


def _inputs():
  keys = jax.random.split(jax.random.key(0), 3)
  shapes = [(ROWS, QUERIES, HEADS, KV), (ROWS, HEADS, KEYS, KV), (ROWS, HEADS, KEYS, KV)]
  return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


def _jaxs(query, key, value, bias=None):
  """jax's own attention, which takes keys and values as [rows, keys, heads, kv]."""
  return jax.nn.dot_product_attention(query, key.swapaxes(1, 2), value.swapaxes(1, 2), bias, scale=1.0)


@pytest.mark.parametrize(
  "shape",
  [
    (1, HEADS, QUERIES, KEYS),
    (ROWS, 1, 1, KEYS),
    (ROWS, 1, QUERIES, KEYS),
    (ROWS, HEADS, QUERIES, KEYS),
    None,
  ],
)
def test_attention_values_and_gradients_equal_jax(shape):
  query, key, value = _inputs()
  bias = None if shape is None else 2 * jax.random.normal(jax.random.key(1), shape)
  arguments = (query, key, value) if bias is None else (query, key, value, bias)

  def ours(query, key, value, bias=None):
    return attend(query, key, value, bias)

  @functools.partial(jax.jit, static_argnums=0)
  def of(attention, *arguments):
    grads = jax.grad(lambda *a: jnp.sum(jnp.sin(attention(*a))), range(len(arguments)))
    return attention(*arguments), grads(*arguments)

  (mine, my_grads), (other, other_grads) = of(ours, *arguments), of(_jaxs, *arguments)
  np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
  for mine, other in zip(my_grads, other_grads, strict=True):
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


def test_attention_ignores_masked_keys():
  query, key, value = _inputs()
  bias = jnp.zeros((ROWS, 1, 1, KEYS)).at[..., -1].set(MASKED)
  other = value.at[:, :, -1].set(100.0)
  np.testing.assert_array_equal(attend(query, key, value, bias), attend(query, key, other, bias))


def test_attention_in_bfloat16_is_within_rounding():
  low = [x.astype(jnp.bfloat16) for x in _inputs()]
  bias = jax.random.normal(jax.random.key(1), (1, HEADS, QUERIES, KEYS))
  exact = _jaxs(*(x.astype(jnp.float32) for x in low), bias)
  result = attend(*low, bias)
  assert result.dtype == "bfloat16"
  np.testing.assert_allclose(result.astype(jnp.float32), exact, atol=0.02)


def test_attention_dropout_drops_keys_for_all_queries_and_rescales():
  module = MultiHeadAttention(1, KEYS, KEYS, dropout_rate=0.4)
  # Values that are the unit vectors: what comes out is the weights.
  query, key, _ = _inputs()
  query, key = (jnp.tile(x, (1, 1, 1, 2))[..., :KEYS] for x in (query[:, :, :1], key[:, :1]))
  value = jnp.broadcast_to(jnp.eye(KEYS)[None, None], (ROWS, 1, KEYS, KEYS))
  bias = jnp.zeros((1, 1, 1, KEYS))
  drawn = drawn_params.of(module.init, jnp.zeros((ROWS, QUERIES, KEYS)), jnp.zeros((ROWS, KEYS, KEYS)))
  params = {**drawn, "out": {"kernel": jnp.eye(KEYS)}}

  def run(deterministic):
    arguments = (query, key, value, bias, deterministic)
    rngs = {"dropout": jax.random.key(3)}
    return np.asarray(module.apply({"params": params}, *arguments, method="combine", rngs=rngs))

  weights, dropped = run(True), run(False)
  np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
  kept = dropped != 0
  assert (kept == kept[:, :1]).all()
  assert 0 < kept[:, 0].sum() < ROWS * KEYS
  np.testing.assert_allclose(dropped[kept], weights[kept] / 0.6, rtol=1e-5)


# ---- cuDNN's kernel -------------------------------------------------------------------------------


@pytest.fixture
def cudnn(monkeypatch):
  """XLA's attention in the place of cuDNN's, which is for GPUs alone; how often it was asked for."""
  asked, theirs = [], jax.nn.dot_product_attention

  def other(*arguments, implementation, **options):
    asked.append(implementation)
    return theirs(*arguments, implementation="xla", **options)

  monkeypatch.setattr(jax.nn, "dot_product_attention", other)
  return asked


def test_cudnn_attention_equals_plain_attention(cudnn):
  given = [x.astype(jnp.bfloat16) for x in _inputs()]

  @functools.partial(jax.jit, static_argnums=0)
  def of(implementation, *given):
    def loss(*given):
      return jnp.sum(jnp.sin(attend(*given, None, implementation).astype(jnp.float32)))

    return attend(*given, None, implementation), *jax.grad(loss, range(3))(*given)

  for kernel, plain in zip(of("cudnn", *given), of("plain", *given), strict=True):
    assert kernel.shape == plain.shape and kernel.dtype == plain.dtype
    np.testing.assert_allclose(kernel.astype(jnp.float32), plain.astype(jnp.float32), rtol=0.05, atol=0.03)
  assert cudnn == ["cudnn", "cudnn"]


@pytest.mark.parametrize(
  ("dtype", "queries", "bias"), [(jnp.float32, 5, False), (jnp.bfloat16, 1, False), (jnp.bfloat16, 5, True)]
)
def test_attention_falls_back_to_plain_where_cudnn_cannot(cudnn, dtype, queries, bias):
  query, key, value = (x.astype(dtype) for x in _inputs())
  given = query[:, :queries], key, value, jnp.zeros((1, 1, 1, KEYS)) if bias else None
  np.testing.assert_array_equal(attend(*given, "cudnn"), attend(*given))
  assert not cudnn


@pytest.mark.parametrize(
  ("backend", "capability", "chosen"),
  [("gpu", "9.0", "cudnn"), ("gpu", "8.0", "cudnn"), ("gpu", "7.5", "plain"), ("gpu", "gfx942", "plain"),
   ("gpu", None, "plain"), ("tpu", None, "pallas"), ("cpu", None, "plain")],
)  # fmt: skip
def test_attention_auto_resolves_by_device(monkeypatch, backend, capability, chosen):
  device = types.SimpleNamespace(**({} if capability is None else {"compute_capability": capability}))
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  monkeypatch.setattr(jax, "local_devices", lambda: [device])
  assert attention_lib.resolve("auto") == chosen
  assert attention_lib.resolve("plain") == "plain"


def test_cudnn_without_cuda_is_refused(monkeypatch):
  monkeypatch.setattr(attention_lib, "cuda_installed", lambda: False)
  with pytest.raises(UsageError, match="CUDA plugin is not installed"):
    attention_lib.resolve("cudnn")


def test_pallas_without_libtpu_is_refused(monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(UsageError, match="libtpu is not installed"):
    attention_lib.resolve("pallas")
