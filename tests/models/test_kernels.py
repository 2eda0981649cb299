"""The attention kernel for TPUs: plain attention's values and gradients in Pallas's interpreter; compiled for v4."""

import base64
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import NamedSharding, PartitionSpec

from tests import drawn_params
from tests.make.command import forked
from xmcap.models import kernels
from xmcap.models.attention import MultiHeadAttention, attend
from xmcap.models.vit import ViT, ViTConfig
from xmcap.planning import hlo, topologies
from xmcap.training import sharding
from xmcap.training.compilation_cache import CompilationCache

KV = 64


@pytest.fixture(autouse=True)
def _compiler():
  """Several workers may load libtpu at once."""
  topologies.prepare_host()


@pytest.fixture
def interpreter():
  """Memory that was not written is NaN there."""
  with pltpu.force_tpu_interpret_mode():
    yield


def _inputs(rows: int, tokens: int, heads: int, dtype=jnp.float32):
  """Query, key, value and the output's gradient; biases."""
  *keys, last = jax.random.split(jax.random.key(0), 5)
  arrays = [jax.random.normal(key, (rows, tokens, heads * KV), dtype) for key in keys]
  return arrays, jax.random.normal(last, (3, heads * KV), dtype)


def _plain(query, key, value, biases):
  """`kernels.attention` by `attend`."""
  rows, tokens, width = query.shape
  query, key, value = (
    (x + bias).reshape(rows, tokens, width // KV, KV)
    for x, bias in zip((query, key, value), biases, strict=True)
  )
  return attend(query / KV**0.5, key.swapaxes(1, 2), value.swapaxes(1, 2), None).reshape(rows, tokens, width)


def _with_gradients(attention, arrays, biases):
  *operands, gradient = arrays
  output, backward = jax.vjp(attention, *operands, biases)
  return output, *backward(gradient)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("rows", "tokens", "heads"), [(2, 16, 2), (3, 50, 6), (1, 197, 2), (2, 129, 4)])
def test_attention_kernel_equals_plain_attention_in_float32(rows, tokens, heads):
  inputs = _inputs(rows, tokens, heads)
  of_kernel, of_plain = (_with_gradients(attention, *inputs) for attention in (kernels.attention, _plain))
  for ours, theirs in zip(of_kernel, of_plain, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=5e-5 * _error(theirs, 0))


@pytest.mark.usefixtures("interpreter")
def test_attention_kernel_of_large_logits_equals_plain_attention():
  (query, key, *others), biases = _inputs(2, 40, 2)
  inputs = [30 * query, 30 * key, *others], biases
  of_kernel, of_plain = (_with_gradients(attention, *inputs) for attention in (kernels.attention, _plain))
  for ours, theirs in zip(of_kernel, of_plain, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=5e-3 * _error(theirs, 0))


def _error(outputs, target):
  """Root mean square difference."""
  return np.sqrt(np.mean(np.square(np.asarray(outputs, np.float32) - np.asarray(target, np.float32))))


@pytest.mark.usefixtures("interpreter")
def test_attention_kernel_in_bfloat16_is_within_rounding():
  inputs = _inputs(2, 50, 4, jnp.bfloat16)
  outputs = _with_gradients(kernels.attention, *inputs)
  exact = _with_gradients(_plain, *jax.tree.map(lambda x: x.astype(jnp.float32), inputs))
  for output, target in zip(outputs, exact, strict=True):
    assert output.shape == target.shape and output.dtype == jnp.bfloat16
    assert _error(output, target) < 0.02 * _error(0, target)


def _on_meshes(file):
  """Writes the kernel's output and gradients on each mesh, in one row."""
  jax.config.update("jax_num_cpu_devices", 4)
  rows = []
  for sizes in ((1, 1, 1), (2, 1, 2), (1, 4, 1)):
    partitioning = sharding.Partitioning(*sizes)
    mesh = partitioning.mesh(jax.devices()[: math.prod(sizes)])
    with pltpu.force_tpu_interpret_mode(), sharding.use(mesh, partitioning.logical_rules()):
      outputs = jax.jit(functools.partial(_with_gradients, kernels.attention))(*_inputs(4, 20, 4))
    rows.append(np.concatenate([np.asarray(output).ravel() for output in outputs]))
  np.save(file, rows)


def test_attention_kernel_is_the_same_on_every_mesh(tmp_path):
  file = tmp_path / "outputs.npy"
  forked(_on_meshes, file, environment={"NPROC": "64"}).succeeded()
  single, *others = np.load(file)
  for other in others:
    np.testing.assert_allclose(other, single, atol=1e-5)


def _vit(**options) -> ViT:
  return ViT(ViTConfig(128, 2, 64, 2, 4, 16, **options))


def _gradients(vit, params, images):
  def loss(params):
    return jnp.mean(jnp.square(vit.apply({"params": params}, images).astype(jnp.float32)))

  return jax.grad(loss)(params)


@pytest.mark.usefixtures("interpreter")
def test_vit_with_attention_kernel_has_gradients_of_plain_vit(monkeypatch):
  images = jax.random.uniform(jax.random.key(0), (2, 16, 16, 3), maxval=255.0)
  calls, attention = [], kernels.attention
  monkeypatch.setattr(kernels, "attention", lambda *inputs: calls.append(1) or attention(*inputs))
  params = drawn_params.of(_vit().init, images, scale=0.1)

  def gradients(**options):
    return jax.tree.leaves(jax.jit(functools.partial(_gradients, _vit(**options)))(params, images))

  plain, exact = gradients(dtype="bfloat16", attention="plain"), gradients(dtype="float32")
  assert not calls
  ours = gradients(dtype="bfloat16", attention="pallas")
  for mine, other, target in zip(ours, plain, exact, strict=True):
    assert _error(mine, target) < 2 * _error(other, target) + 0.01 * _error(0, target)
  assert len(calls) == 2


@pytest.mark.parametrize(("remat", "count"), [("no", 2), ("dots", 3), ("full", 3)])
def test_vit_with_attention_kernel_is_scanned_and_rematerialized(remat, count):
  vit = _vit(dtype="bfloat16", attention="pallas", scan=True, remat=remat)
  place = NamedSharding(jax.sharding.Mesh(topologies.parse("v4-8").devices()[:1], "one"), PartitionSpec())
  images = jax.ShapeDtypeStruct((2, 16, 16, 3), jnp.float32, sharding=place)
  params = jax.eval_shape(_vit().init, jax.random.key(0), images)["params"]
  lowered = jax.jit(functools.partial(_gradients, vit)).lower(params, images)
  # Forward, forward again if it is rematerialized, and backward.
  assert lowered.as_text().count("@tpu_custom_call") == count


@pytest.mark.parametrize(
  ("options", "dtype", "with_bias"),
  [({}, jnp.float32, False), ({}, jnp.bfloat16, True), ({"scaled": False}, jnp.bfloat16, False),
   ({"use_bias": False}, jnp.bfloat16, False), ({"head_dim": 32}, jnp.bfloat16, False),
   ({"dropout_rate": 0.1}, jnp.bfloat16, False)],
)  # fmt: skip
def test_attention_falls_back_to_plain_where_the_kernel_cannot(monkeypatch, options, dtype, with_bias):
  monkeypatch.delattr(kernels, "attention")
  sizes = {
    "num_heads": 2,
    "head_dim": KV,
    "out_features": 16,
    "scaled": True,
    "use_bias": True,
    "dtype": dtype,
  }
  inputs, bias = jnp.zeros((2, 8, 16), dtype), jnp.zeros((1, 2, 8, 8)) if with_bias else None
  module = MultiHeadAttention(**{**sizes, **options}, implementation="pallas")
  rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
  assert module.init_with_output(rngs, inputs, inputs, bias, False)[0].shape == inputs.shape


# jax keeps the program of another run, and cannot read it back for chips that are not attached.
@pytest.mark.filterwarnings("ignore:Error reading persistent compilation cache")
def test_attention_kernel_compiles_for_a_mesh_of_chips():
  partitioning = sharding.Partitioning(fsdp=2, model=2)
  mesh, rules = partitioning.mesh(topologies.parse("v4-8").devices()), partitioning.logical_rules()
  specs = [PartitionSpec("fsdp", None, "model")] * 4, PartitionSpec(None, "model")
  operands = jax.tree.map(
    lambda x, spec: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec)),
    _inputs(4, 50, 8, jnp.bfloat16), specs,
  )  # fmt: skip
  with sharding.use(mesh, rules):
    lowered = jax.jit(functools.partial(_with_gradients, kernels.attention)).lower(*operands)
    text = str(lowered.compile().as_text())
  assert text.count('custom_call_target="tpu_custom_call"') == 2
  module = hlo.Module(text, cores=2)
  # The biases' gradients alone are summed over chips.
  assert module.exchanges()["all-reduce"]["bytes"] <= 3 * 4 * KV * 4 and len(module.exchanges()) == 1
  # Of a chip's own 2 rows and 4 heads, each of 56 x 128 weights.
  assert module.cycles() > 2 * 4 * 7 * (9 + 13.7) / 2


@pytest.mark.parametrize(
  ("tokens", "heads", "kv", "fits"),
  [(196, 12, 64, True), (256, 16, 64, True), (197, 12, 64, True), (1, 12, 64, False), (257, 12, 64, False),
   (256, 16, 88, False), (196, 3, 64, False), (256, 34, 64, False)],
)  # fmt: skip
def test_attention_kernel_fits_pairs_of_heads_of_64(tokens, heads, kv, fits):
  assert kernels.fits(2, tokens, heads, kv) == fits


def test_attention_kernel_needs_a_mesh_on_several_devices(monkeypatch):
  sizes = (4, 196, 12, 64)
  monkeypatch.setattr(jax, "device_count", lambda: 4)
  mesh = sharding.Partitioning(data=1).mesh(jax.devices()[:1])
  assert not kernels.fits(*sizes)
  with sharding.use(mesh, sharding.Partitioning().logical_rules()):
    assert kernels.fits(*sizes)


def test_attention_kernel_has_one_key_in_the_compilation_cache_wherever_it_is_installed(tmp_path):
  cache, mesh = (
    CompilationCache(str(tmp_path)),
    jax.sharding.Mesh(topologies.parse("v4-8").devices()[:1], "one"),
  )
  place = NamedSharding(mesh, PartitionSpec())
  operands = [
    jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place) for x in _inputs(2, 20, 2, jnp.bfloat16)[0][:3]
  ]
  biases = jax.ShapeDtypeStruct((3, 2 * KV), jnp.bfloat16, sharding=place)
  cache.open("", lambda line: None)
  try:
    lowered = jax.jit(kernels.attention).lower(*operands, biases)
  finally:
    cache.close()
  body = re.search(r"\\22body\\22: \\22([^\\]*)", lowered.as_text())
  assert body
  assert set(re.findall(rb"[\w./-]+\.py", base64.b64decode(body[1] + "=="))) == {b"models/kernels.py"}
