"""Attention as a kernel for TPUs, in Pallas: no matrix of queries and keys leaves the chip's vector memory.

The softmax is that of Dao et al., "FlashAttention" (2022), with all keys in one block: the forward pass stores the
logarithm of each query's sum, and the backward pass computes the weights again from it. Arrays lie as XLA keeps them
around attention, [rows, heads, kv, tokens], and the weights as [keys, queries]: tokens fill the lanes of a register,
sums over keys add registers, and no head is padded to 128. While the vector unit works on the weights of one head, the
matrix unit makes the logits of the next, which is why heads go in pairs through two sets of buffers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from xmcap.models.layers import partition_spec

_LANES, _SUBLANES = 128, 16  # of a tile of bfloat16
_MOST_TOKENS, _MOST_KV = 512, 256  # of which the buffers fit into the 16 MiB of vector memory
_MOST_BYTES = 7 * 2**20  # of the blocks of a step in it
_BLOCKS = 2 * 7  # of operands and results of the backward pass, as those of the next step are there too
_MASKED = -1e30
_AXES = ("batch", "heads", "kv", "length")

# Cycles of a TensorCore for 1,024 weights: the bundles that the compiler schedules for v4 (--xla_jf_dump_llo_text), of
# 12 heads of 64 and 196 tokens 8.1 and 14.2, of 16 heads of 88 and 256 tokens 8.8 and 15.0.
_FORWARD_CYCLES, _BACKWARD_CYCLES = 8.8, 15.0


def fits(query: jax.Array, key: jax.Array) -> bool:
  """Whether the kernel can attend from query [rows, queries, heads, kv] to key [rows, heads, keys, kv]."""
  rows, tokens, heads, kv = query.shape
  spec = partition_spec((rows, heads, kv, tokens), *_AXES)
  whole = spec is None or spec[2] is spec[3] is None
  return whole and 1 < tokens == key.shape[2] <= _MOST_TOKENS and kv <= _MOST_KV


def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
  """`attention.attend` without a bias, of arrays that `fits` accepts; the same shapes. Its products are of bfloat16.

  On a mesh each device attends for its own rows and heads.
  """
  operands = query.transpose(0, 2, 3, 1), key.swapaxes(2, 3), value.swapaxes(2, 3)
  attend: Callable[..., jax.Array] = _attention
  if spec := partition_spec(operands[0].shape, *_AXES):
    attend = jax.shard_map(attend, in_specs=(spec,) * 3, out_specs=spec, check_vma=False)
  return attend(*operands).transpose(0, 3, 1, 2)


@jax.custom_vjp
def _attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
  """All [rows, heads, kv, tokens]."""
  return _forward(query, key, value)[0]


def _forward(query: jax.Array, key: jax.Array, value: jax.Array):
  rows, heads, _, tokens = query.shape
  sums = jax.ShapeDtypeStruct((rows, heads, 1, tokens), jnp.float32)
  sizes = _Sizes(query)
  buffers = (*[sizes.operand] * 3, *[sizes.weights] * 2)
  output, sums = _call(_forward_kernel, (query, key, value), (query, sums), buffers, 2, _FORWARD_CYCLES)
  return output, (query, key, value, sums)


def _backward(stored: tuple[jax.Array, ...], gradient: jax.Array) -> tuple[jax.Array, ...]:
  query, key, value, sums = stored
  sizes = _Sizes(query)
  buffers = (*[sizes.operand] * 7, *[sizes.weights] * 4, *[sizes.rounded] * 2)
  operands = query, key, value, gradient, sums
  return tuple(_call(_backward_kernel, operands, (query,) * 3, buffers, 5, _BACKWARD_CYCLES))


_attention.defvjp(_forward, _backward)


class _Sizes:
  """Buffers for one head: an `operand` padded with zeros, its `weights` in float32, and `rounded` ones for products."""

  def __init__(self, query: jax.Array):
    kv, tokens = query.shape[2:]
    self.lanes = _up(tokens, _LANES)
    self.operand = pltpu.VMEM((_up(kv, _SUBLANES), self.lanes), query.dtype)
    self.weights = pltpu.VMEM((_up(tokens, _SUBLANES), self.lanes), jnp.float32)
    self.rounded = pltpu.VMEM((self.lanes, self.lanes), query.dtype)


def _call(
  kernel: Callable[..., None], operands: Sequence[jax.Array], outputs: Sequence[Any], buffers: Sequence[Any],
  products: int, cycles: float,
) -> Sequence[jax.Array]:  # fmt: skip
  """Runs the kernel on every row and group of heads; `outputs` have the shapes of the results."""
  query = operands[0]
  rows, heads, kv, tokens = query.shape
  lanes = _up(tokens, _LANES)
  head_bytes = _up(kv, _SUBLANES) * lanes * query.dtype.itemsize
  group = next(
    size for size in range(heads, 0, -1) if heads % size == 0 and _BLOCKS * size * head_bytes <= _MOST_BYTES
  )

  def block(array: Any) -> pl.BlockSpec:
    return pl.BlockSpec((1, group, *array.shape[2:]), lambda row, heads: (row, heads, 0, 0))

  arrays = sum(array.shape[2] == kv for array in (*operands, *outputs))
  weights = rows * heads * _up(tokens, _SUBLANES) * lanes
  return pl.pallas_call(
    kernel,
    [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in outputs],
    grid=(rows, heads // group),
    in_specs=[block(array) for array in operands],
    out_specs=[block(array) for array in outputs],
    scratch_shapes=buffers,
    compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    cost_estimate=pl.CostEstimate(
      2 * products * rows * heads * kv * tokens**2, weights, arrays * rows * heads * head_bytes
    ),
    metadata={"core_cycles": str(round(cycles * weights / 1024))},
    name=kernel.__name__.strip("_"),
  )(*operands)


def _forward_kernel(query, key, value, output, sums, queries, keys, values, *logits):
  heads, _, tokens = query.shape[1:]
  _clear(queries, keys, values)

  def start(head, logits):
    _fill(head, (queries, query), (keys, key))
    logits[...] = _logits(queries, keys, logits.shape[0], tokens)

  def finish(head, logits):
    _fill(head, (values, value))
    for lanes, real in _chunks(tokens):
      chunk = logits[:, lanes]
      highest = jnp.max(chunk, axis=0, keepdims=True)
      weights = jnp.exp(chunk - highest)
      total = jnp.sum(weights, axis=0, keepdims=True)
      context = _product(values[...], _padded(weights, queries)) / total
      output[0, head, :, real] = _cut(context, output, real)
      sums[0, head, :, real] = _cut(highest + jnp.log(total), sums, real)

  _pipelined(heads, start, finish, [(buffer,) for buffer in logits])


def _backward_kernel(
  query, key, value, gradient, sums, query_gradient, key_gradient, value_gradient,
  queries, keys, values, gradients, own_queries, own_keys, own_gradients, *buffers,
):  # fmt: skip
  heads, _, tokens = query.shape[1:]
  *pairs, weights, logit_gradients = buffers
  operands = (queries, keys, values, gradients, own_queries, own_keys, own_gradients)
  _clear(*operands, weights, logit_gradients)

  def start(head, logits, weight_gradients):
    _fill(head, (queries, query), (keys, key), (values, value), (gradients, gradient))
    count = logits.shape[0]
    logits[...] = _logits(queries, keys, count, tokens)
    weight_gradients[...] = _product(values[...].T[:count], gradients[...])

  def finish(head, logits, weight_gradients):
    _fill(head, (own_queries, query), (own_keys, key), (own_gradients, gradient))
    for lanes, real in _chunks(tokens):
      missing = lanes.stop - real.stop
      logarithm = jnp.pad(sums[0, head, :, real], ((0, 0), (0, missing)))
      chunk = jnp.exp(logits[:, lanes] - logarithm)
      product = chunk * weight_gradients[:, lanes]
      of_logits = product - chunk * jnp.sum(product, axis=0, keepdims=True)
      rows = slice(chunk.shape[0])
      weights[rows, lanes] = chunk.astype(weights.dtype)
      logit_gradients[rows, lanes] = of_logits.astype(weights.dtype)
      context = _product(own_keys[...], _padded(of_logits, queries))
      query_gradient[0, head, :, real] = _cut(context, query_gradient, real)
    of_values = _product(own_gradients[...], weights[...], transposed=True)
    of_keys = _product(own_queries[...], logit_gradients[...], transposed=True)
    value_gradient[0, head] = _cut(of_values, value_gradient, slice(0, tokens))
    key_gradient[0, head] = _cut(of_keys, key_gradient, slice(0, tokens))

  _pipelined(heads, start, finish, [pairs[:2], pairs[2:]])


def _pipelined(heads: int, start: Callable, finish: Callable, buffers: Sequence[Sequence[Any]]) -> None:
  """Starts each head before the one before it is finished, in the other set of buffers."""
  last = heads - 1
  start(0, *buffers[0])

  def pair(number, carry):
    # At the end a head may be computed twice, with the same result.
    first = 2 * number
    second = jnp.minimum(first + 1, last)
    start(second, *buffers[1])
    finish(first, *buffers[0])
    start(jnp.minimum(first + 2, last), *buffers[0])
    finish(second, *buffers[1])
    return carry

  jax.lax.fori_loop(0, math.ceil(heads / 2), pair, 0)


def _logits(queries, keys, rows: int, tokens: int) -> jax.Array:
  """The logits of a head [keys, queries], where keys that are padding are masked."""
  logits = _product(keys[...].T[:rows], queries[...])
  # Only the registers with padding: the others need no mask.
  first = tokens // 8 * 8
  if first == rows:
    return logits
  tail = logits[first:]
  row = jax.lax.broadcasted_iota(jnp.int32, tail.shape, 0)
  return jnp.concatenate([logits[:first], jnp.where(row < tokens - first, tail, _MASKED)])


def _product(left: jax.Array, right: jax.Array, transposed: bool = False) -> jax.Array:
  """left times right, or times right's transpose, in float32."""
  contracted = ((1,), (1 if transposed else 0,))
  return jax.lax.dot_general(left, right, (contracted, ((), ())), preferred_element_type=jnp.float32)


def _clear(*buffers) -> None:
  for buffer in buffers:
    buffer[...] = jnp.zeros(buffer.shape, buffer.dtype)


def _fill(head, *pairs) -> None:
  """Copies an operand's head into its buffer, whose padding stays 0."""
  for buffer, operand in pairs:
    kv, tokens = operand.shape[2:]
    buffer[:kv, :tokens] = operand[0, head]


def _chunks(tokens: int) -> list[tuple[slice, slice]]:
  """The lanes of each register, and those of them that are tokens."""
  starts = range(0, tokens, _LANES)
  return [(slice(start, start + _LANES), slice(start, min(tokens, start + _LANES))) for start in starts]


def _padded(weights: jax.Array, operand) -> jax.Array:
  """Weights [keys, queries] in the operand's dtype, with a row of zeros for each missing lane of it."""
  missing = operand.shape[1] - weights.shape[0]
  rounded = weights.astype(operand.dtype)
  return (
    jnp.concatenate([rounded, jnp.zeros((missing, rounded.shape[1]), rounded.dtype)]) if missing else rounded
  )


def _cut(result: jax.Array, output, real: slice) -> jax.Array:
  """A result without its padding, as the output stores it."""
  return result[: output.shape[2], : real.stop - real.start].astype(output.dtype)


def _up(size: int, multiple: int) -> int:
  return math.ceil(size / multiple) * multiple
