"""Multi-head attention for ViT and T5; its parts are public so that decoding can cache keys and values.

Vaswani et al., "Attention Is All You Need" (2017), section 3.2. T5 does not scale the logits by 1/sqrt(head_dim): the
factor is folded into the initial query kernel (Raffel et al., 2020; Mesh TensorFlow's T5 does the same).
"""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models.layers import NO_LORA, T5_ATTENTION_INIT, Dense, Dropout, Initializer, Lora, constrain
from xmcap.platforms import cuda_installed

IMPLEMENTATIONS = ("auto", "plain", "cudnn", "pallas")
_AMPERE = 8.0
"""The compute capability from which on cuDNN has the kernel."""

MASKED = -1e10
"""Added to the logits of masked positions."""

_AXES = ("batch", "length", "heads", "kv")


def resolve(implementation: str) -> str:
  """`plain`, `cudnn` or `pallas`: of `auto`, the kernel that the devices have.

  Raises:
    UsageError: `cudnn` is asked for, and jax's CUDA plugin is not installed, or `pallas` without libtpu.
  """
  if implementation == "auto":
    backend = jax.default_backend()
    if backend == "tpu":
      return "pallas"
    return "cudnn" if backend == "gpu" and _has_cudnn(jax.local_devices()[0]) else "plain"
  if implementation == "pallas" and importlib.util.find_spec("libtpu") is None:
    raise UsageError("attention = 'pallas': libtpu is not installed: use auto, or install xmcap[tpu]")
  if implementation == "cudnn" and not cuda_installed():
    raise UsageError(
      "attention = 'cudnn': jax's CUDA plugin is not installed: use auto, or install xmcap[cuda]"
    )
  return implementation


def _has_cudnn(device: Any) -> bool:
  # AMD's GPUs have names instead of numbers.
  try:
    return float(device.compute_capability) >= _AMPERE
  except (AttributeError, ValueError):
    return False


def attend(
  query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None, implementation: str = "plain"
) -> jax.Array:
  """Dot-product attention, with the softmax in float32.

  Args:
    query: [rows, queries, heads, kv].
    key, value: [rows, heads, keys, kv].
    bias: added to the logits; broadcastable to [rows, heads, queries, keys].
    implementation: `plain`, or `cudnn` where it can be: cuDNN's kernel keeps no matrix of queries and keys, but has
      neither float32 nor, here, a bias.

  Returns:
    An array of the shape and dtype of `query`.
  """
  if implementation == "cudnn" and bias is None and query.shape[1] > 1 and query.dtype != jnp.float32:
    # Its keys and values have the layout of the queries.
    operands = query, key.swapaxes(1, 2), value.swapaxes(1, 2)
    return jax.nn.dot_product_attention(*operands, scale=1.0, implementation="cudnn")
  logits = jnp.einsum("bqhd,bhkd->bhqk", query, key, preferred_element_type=jnp.float32)
  if bias is not None:
    logits += bias
  weights = jax.nn.softmax(logits, axis=-1).astype(query.dtype)
  return jnp.einsum("bhqk,bhkd->bqhd", weights, value)


class MultiHeadAttention(nn.Module):
  """Attention with separate two-dimensional query, key, value and out kernels.

  Attributes:
    num_heads, head_dim: the kernels are [embed, num_heads * head_dim].
    out_features: width of the output.
    scaled: divide the queries by sqrt(head_dim); if False (T5), the initial query kernel is divided by it instead.
    use_bias: whether the four projections have biases.
    dropout_rate: dropout of the attention weights, with one mask for all queries.
    dtype: dtype of the activations.
    lora: the LoRA update of the query and value kernels.
    implementation: of the attention, one of `IMPLEMENTATIONS`.
  """

  num_heads: int
  head_dim: int
  out_features: int
  scaled: bool = False
  use_bias: bool = False
  dropout_rate: float = 0.0
  dtype: Any = jnp.float32
  kernel_init: Initializer = T5_ATTENTION_INIT
  lora: Lora = NO_LORA
  implementation: str = "plain"

  def setup(self):
    def query_init(*args):
      kernel = self.kernel_init(*args)
      return kernel if self.scaled else kernel / self.head_dim**0.5

    def project(features, axes, init, lora=NO_LORA, heads=0):
      return Dense(features, axes, self.use_bias, self.dtype, init, lora=lora, heads=heads)

    joined, heads = self.num_heads * self.head_dim, self.num_heads
    self.query = project(joined, ("embed", "joined_kv"), query_init, self.lora, heads)
    self.key = project(joined, ("embed", "joined_kv"), self.kernel_init, NO_LORA, heads)
    self.value = project(joined, ("embed", "joined_kv"), self.kernel_init, self.lora, heads)
    self.out = project(self.out_features, ("joined_kv", "embed"), self.kernel_init)
    self.dropout = Dropout(self.dropout_rate)

  def project_query(self, inputs: jax.Array) -> jax.Array:
    """[rows, queries, embed] -> [rows, queries, heads, kv]."""
    query = constrain(self.query(inputs), *_AXES)
    return query / jnp.asarray(self.head_dim**0.5, query.dtype) if self.scaled else query

  def project_key_value(self, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[rows, keys, embed] -> keys and values, each [rows, heads, keys, kv].

    A cache of them has the layout of attention's matrix products: XLA's CPU backend would copy any other at each step.
    """
    key, value = (constrain(project(inputs), *_AXES) for project in (self.key, self.value))
    return key.swapaxes(1, 2), value.swapaxes(1, 2)

  def combine(
    self, query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None,
    deterministic: bool = True,
  ) -> jax.Array:  # fmt: skip
    """Attends with projected queries, keys and values; returns [rows, queries, out_features]."""
    context = attend(query, key, self._dropped(value, deterministic), bias, resolve(self.implementation))
    return self.out(context.reshape(*context.shape[:-2], -1))

  def _dropped(self, value: jax.Array, deterministic: bool) -> jax.Array:
    """Dropout of the attention weights. All queries share the mask, so it is applied to the smaller values instead."""
    if deterministic or not self.dropout_rate:
      return value
    scale = self.dropout(jnp.ones((*value.shape[:2], 1, value.shape[2])), deterministic)
    return (value * scale.swapaxes(2, 3)).astype(value.dtype)

  def __call__(
    self, inputs_q: jax.Array, inputs_kv: jax.Array, bias: jax.Array | None = None, deterministic: bool = True
  ) -> jax.Array:
    """Attends from inputs_q [rows, queries, embed] to inputs_kv [rows, keys, embed].

    `bias` is broadcastable to [rows, heads, queries, keys]. Returns [rows, queries, out_features].
    """
    if inputs_q is inputs_kv and bias is None and self._fits_kernel(inputs_q, deterministic):
      return self._combine_in_kernel(inputs_q)
    query = self.project_query(inputs_q)
    key, value = self.project_key_value(inputs_kv)
    return self.combine(query, key, value, bias, deterministic)

  def _fits_kernel(self, inputs: jax.Array, deterministic: bool) -> bool:
    """Whether `kernels` can attend from all inputs to all, and is asked to."""
    if resolve(self.implementation) != "pallas" or self.dtype == jnp.float32:
      return False
    from xmcap.models import kernels  # as importing Pallas takes a while

    rows, tokens, _ = inputs.shape
    drops = self.dropout_rate and not deterministic
    return (
      self.scaled
      and self.use_bias
      and not drops
      and kernels.fits(rows, tokens, self.num_heads, self.head_dim)
    )

  def _combine_in_kernel(self, inputs: jax.Array) -> jax.Array:
    """Attends from all inputs to all, without biases and layouts of XLA's between the products."""
    from xmcap.models import kernels

    projected = [dense.project(inputs) for dense in (self.query, self.key, self.value)]
    query, key, value = (product for product, _ in projected)
    return self.out(
      kernels.attention(query, key, value, jnp.stack([bias for _, bias in projected if bias is not None]))
    )
