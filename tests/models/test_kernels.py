"""The attention kernel for TPUs: plain attention's values and gradients in Pallas's interpreter; compiled for v4."""

import base64
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import NamedSharding, PartitionSpec

from xmcap.models import kernels
from xmcap.models.attention import attend
from xmcap.planning import hlo, topologies
from xmcap.training import sharding
from xmcap.training.compilation_cache import CompilationCache


@pytest.fixture
def interpreter():
  """Memory that was not written is NaN there."""
  with pltpu.force_tpu_interpret_mode():
    yield


def _inputs(rows: int, tokens: int, heads: int, kv: int, dtype=jnp.float32):
  """Query, key, value, and the output's gradient."""
  keys = jax.random.split(jax.random.key(0), 4)
  shapes = [(rows, tokens, heads, kv), *[(rows, heads, tokens, kv)] * 2, (rows, tokens, heads, kv)]
  return [jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True)]


def _with_gradients(attention, query, key, value, gradient):
  output, backward = jax.vjp(attention, query, key, value)
  return output, *backward(gradient)


_plain = functools.partial(attend, bias=None)
_pallas = functools.partial(attend, bias=None, implementation="pallas")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("tokens", "heads", "kv"), [(16, 2, 16), (20, 14, 8), (130, 1, 24)])
def test_attention_kernel_equals_plain_attention_in_float32(tokens, heads, kv):
  inputs = _inputs(2, tokens, heads, kv)
  of_kernel, of_plain = (_with_gradients(attention, *inputs) for attention in (kernels.attention, _plain))
  for ours, theirs in zip(of_kernel, of_plain, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=5e-5)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("on_mesh", [False, True])
def test_attention_kernel_is_near_plain_attention_in_bfloat16(on_mesh):
  inputs = _inputs(2, 50, 2, 16, jnp.bfloat16)
  expected = _with_gradients(_plain, *inputs)
  partitioning = sharding.Partitioning()
  if on_mesh:
    with sharding.use(partitioning.mesh(jax.devices()[:1]), partitioning.logical_rules()):
      outputs = jax.jit(functools.partial(_with_gradients, _pallas))(*inputs)
  else:
    outputs = _with_gradients(_pallas, *inputs)
  for ours, theirs in zip(outputs, expected, strict=True):
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(ours.astype(jnp.float32), theirs.astype(jnp.float32), rtol=0.05, atol=0.05)


# jax keeps the program of another run, and cannot read it back for chips that are not attached.
@pytest.mark.filterwarnings("ignore:Error reading persistent compilation cache")
def test_attention_kernel_compiles_for_a_mesh_of_chips():
  partitioning = sharding.Partitioning(fsdp=2, model=2)
  mesh, rules = partitioning.mesh(topologies.parse("v4-8").devices()), partitioning.logical_rules()
  specs = PartitionSpec("fsdp", None, "model"), *[PartitionSpec("fsdp", "model")] * 2
  operands = [
    jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))
    for x, spec in zip(_inputs(4, 50, 8, 16, jnp.bfloat16), (*specs, specs[0]), strict=True)
  ]
  with sharding.use(mesh, rules):
    text = str(jax.jit(functools.partial(_with_gradients, _pallas)).lower(*operands).compile().as_text())
  assert text.count('custom_call_target="tpu_custom_call"') == 2
  module = hlo.Module(text, cores=2)
  # Of a chip's own 2 rows and 4 heads, each of 64 x 128 weights.
  assert not module.exchanges() and module.cycles() > 2 * 4 * 8 * (8.8 + 15) / 2


@pytest.mark.parametrize(
  ("queries", "keys", "kv", "fits"),
  [(196, 196, 8, True), (1, 196, 8, False), (5, 196, 8, False), (513, 513, 8, False), (16, 16, 257, False)],
)
def test_attention_kernel_fits_all_tokens_to_all(queries, keys, kv, fits):
  query, key = jnp.zeros((2, queries, 4, kv)), jnp.zeros((2, 4, keys, kv))
  assert kernels.fits(query, key) == fits


def test_attention_kernel_has_one_key_in_the_compilation_cache_wherever_it_is_installed(tmp_path):
  cache, mesh = (
    CompilationCache(str(tmp_path)),
    jax.sharding.Mesh(topologies.parse("v4-8").devices()[:1], "one"),
  )
  operand = jax.ShapeDtypeStruct((2, 20, 2, 16), jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec()))
  cache.open("", lambda line: None)
  try:
    lowered = jax.jit(lambda x: kernels.attention(x, x.swapaxes(1, 2), x.swapaxes(1, 2))).lower(operand)
  finally:
    cache.close()
  body = re.search(r"\\22body\\22: \\22([^\\]*)", lowered.as_text())
  assert body
  assert set(re.findall(rb"[\w./-]+\.py", base64.b64decode(body[1] + "=="))) == {b"models/kernels.py"}
