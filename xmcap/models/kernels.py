"""Self-attention as a kernel for TPUs, in Pallas: no matrix of queries and keys leaves the chip's vector memory.

It takes the products of the projections as they come, [rows, tokens, heads * 64], and adds their biases itself; its
gradients have that layout too, so that around it XLA has plain matrix products and no copies.

Two heads of 64 fill the 128 lanes of a register, and are not taken apart: of a pair, each operand is needed once with
the lanes of the first head and once with those of the second. The lanes that are free then carry what would else cost
passes over the weights:
1) forward, a mask of the padding through the product of queries and keys, and the sums of the weights through that
   with the values;
2) backward, the logarithm of each query's sum, and the softmax's inner product of weights and their gradients. Both are
   split in three numbers of bfloat16, of 24 bits.

The softmax is that of Dao et al., "FlashAttention" (2022), with all keys in one block: the backward pass computes the
weights again.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from xmcap.models.layers import partition_spec

_KV = 64
_LANES = 2 * _KV
_PART = 16  # lanes, one for each pair of heads, from one part of a statistic's number to the next
_MOST_HEADS = 2 * _PART
_MOST_TOKENS = 2 * _LANES
_MOST_BYTES = 9 * 2**20  # of the operands and results of a row and the next one, of 16 MiB of vector memory
_MASKED = -1e30

# Cycles of a TensorCore for 1,024 weights: the bundles that the compiler schedules for v4 (--xla_jf_dump_llo_text).
_FORWARD_CYCLES, _BACKWARD_CYCLES = 9.0, 13.7


def fits(rows: int, tokens: int, heads: int, kv: int) -> bool:
  """Whether the kernel can attend from all tokens to all."""
  spec = partition_spec((rows, tokens, heads // 2), "batch", "length", "heads")
  # XLA cannot divide a kernel: without a mesh that jax knows, as in t5x, only one device can run it.
  is_undivided = jax.device_count() == 1 if spec is None else spec[1] is None
  if kv != _KV or heads % 2 or heads > _MOST_HEADS or not is_undivided:
    return False
  # Backward: five operands and three results, and those of the next row.
  return 1 < tokens <= _MOST_TOKENS and 2 * 8 * tokens * heads * kv * 2 <= _MOST_BYTES


def attention(query: jax.Array, key: jax.Array, value: jax.Array, biases: jax.Array) -> jax.Array:
  """Attention of all tokens to all, with queries divided by the square root of 64, for sizes that `fits` accepts.

  On a mesh each device attends for its own rows and pairs of heads.

  Args:
    query, key, value: [rows, tokens, heads * 64], without their biases.
    biases: [3, heads * 64], of the query, the key and the value.

  Returns:
    An array of the shape and dtype of `query`.
  """
  rows, tokens, width = query.shape
  operands = query, key, value, biases
  spec = partition_spec((rows, tokens, width // _LANES), "batch", "length", "heads")
  if spec is None:
    return _attention(*operands)
  of_biases = jax.sharding.PartitionSpec(None, spec[2])
  specs = (spec, spec, spec, of_biases)
  return jax.shard_map(_attention, in_specs=specs, out_specs=spec, check_vma=False)(*operands)


@jax.custom_vjp
def _attention(query: jax.Array, key: jax.Array, value: jax.Array, biases: jax.Array) -> jax.Array:
  (output,) = _call_forward((query, key, value, biases), [query])
  return output


def _forward(query: jax.Array, key: jax.Array, value: jax.Array, biases: jax.Array):
  operands = query, key, value, biases
  statistics = jax.ShapeDtypeStruct((*query.shape[:2], _LANES), query.dtype)
  output, logarithms = _call_forward(operands, [query, statistics])
  return output, (*operands, output, logarithms)


def _call_forward(operands: Sequence[jax.Array], outputs: Sequence[Any]) -> Sequence[jax.Array]:
  query = operands[0]
  scratch = [*[_buffer(query)] * 5, _buffer(query, jnp.float32)]
  return _call(_forward_kernel, operands, outputs, scratch, 2, _FORWARD_CYCLES)


def _backward(stored: tuple[jax.Array, ...], gradient: jax.Array) -> tuple[jax.Array, ...]:
  query, _, _, biases, _, _ = stored
  # For each TensorCore its own sum over rows and tokens.
  cores = math.gcd(2, query.shape[0])
  of_biases = jax.ShapeDtypeStruct((cores, *biases.shape), jnp.float32)
  outputs = [*[query] * 3, of_biases]
  scratch = [_buffer(query)] * 7
  *gradients, sums = _call(_backward_kernel, (*stored, gradient), outputs, scratch, 5, _BACKWARD_CYCLES)
  return *gradients, jnp.sum(sums, 0).astype(biases.dtype)


_attention.defvjp(_forward, _backward)


def _buffer(query: jax.Array, dtype: Any = None) -> Any:
  """Vector memory for an operand of two heads, with whole registers of tokens."""
  return pltpu.VMEM((_up(query.shape[1], _LANES), _LANES), dtype or query.dtype)


def _call(
  kernel: Callable[..., None], operands: Sequence[jax.Array], outputs: Sequence[Any], scratch: Sequence[Any],
  products: int, cycles: float,
) -> Sequence[jax.Array]:  # fmt: skip
  """Runs the kernel for every row; `outputs` have the shapes of the results."""
  rows, tokens, width = operands[0].shape
  cores = math.gcd(2, rows)

  def block(array: Any) -> pl.BlockSpec:
    if array.ndim == 2:
      return pl.BlockSpec(array.shape, lambda core, row: (0, 0))
    if array.shape[0] != rows or array.shape[1] != tokens:
      return pl.BlockSpec((1, *array.shape[1:]), lambda core, row: (core, 0, 0))
    return pl.BlockSpec((1, *array.shape[1:]), lambda core, row: (core * (rows // cores) + row, 0, 0))

  heads = width // _KV
  weights = rows * heads * _up(tokens, 8) * _up(tokens, _LANES)
  # As they lie in memory, with whole tiles of eight tokens.
  sizes = [
    a.size // tokens * _up(tokens, 8) * a.dtype.itemsize for a in (*operands, *outputs) if a.shape[0] == rows
  ]
  return pl.pallas_call(
    functools.partial(kernel, pairs=heads // 2),
    [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in outputs],
    grid=(cores, rows // cores),
    in_specs=[block(array) for array in operands],
    out_specs=[block(array) for array in outputs],
    scratch_shapes=scratch,
    compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    cost_estimate=pl.CostEstimate(2 * products * rows * width * tokens**2, weights, sum(sizes)),
    metadata={"core_cycles": str(round(cycles * weights / 1024))},
    name=kernel.__name__.strip("_"),
  )(*operands)


def _forward_kernel(query, key, value, biases, output, *rest, pairs):
  *logarithms, queries, keys, values, padding, rounded, statistics = rest
  tokens, dtype = query.shape[1], query.dtype
  count = _up(tokens, 8)
  _clear(queries, keys, values, statistics)
  row = jax.lax.broadcasted_iota(jnp.int32, padding.shape, 0)
  padding[...] = jnp.where(row < tokens, 0.0, _MASKED).astype(dtype)
  rounded[...] = jnp.ones(rounded.shape, dtype)

  def attend(pair, carry):
    lanes = _lanes(pair)
    queries[:tokens] = _biased(query, biases, 0, lanes, _KV**-0.5)
    keys[:tokens] = _biased(key, biases, 1, lanes)
    values[:tokens] = _biased(value, biases, 2, lanes)
    contexts, highest = [], []
    for mine, other, valued in zip(
      _by_head(queries, rounded), _by_head(keys, padding), _by_head(values, rounded), strict=True
    ):
      logits = _product(mine[:count], other, transposed=True)
      highest.append(jnp.max(logits, axis=1, keepdims=True))
      weights = jnp.exp(logits - highest[-1]).astype(dtype)
      contexts.append(_product(weights, valued))
    context, sums = _first(*contexts), _first(*contexts[::-1])
    total = pltpu.roll(sums, _KV, 1)
    inverse = pl.reciprocal(total, approx=True)
    for _ in range(2):  # steps of Newton's, as the approximation has 8 bits
      inverse *= 2.0 - total * inverse
    output[0, :, lanes] = (context * inverse)[:tokens].astype(dtype)
    if logarithms:
      logarithm = _first(*highest[::-1], shape=sums.shape) + jnp.log(sums)
      mine = (_lane(sums.shape) & (_KV - 1)) == pair
      statistics[:count] = jnp.where(mine, logarithm, statistics[:count])
    return carry

  jax.lax.fori_loop(0, pairs, attend, 0)
  for output in logarithms:
    output[0] = _split(statistics[:tokens], dtype)


def _backward_kernel(
  query, key, value, biases, output, logarithms, gradient,
  query_gradient, key_gradient, value_gradient, bias_gradients,
  queries, keys, values, gradients, of_queries, of_gradients, ones, *, pairs,
):  # fmt: skip
  tokens, dtype = query.shape[1], query.dtype
  count = _up(tokens, 8)
  _clear(queries, keys, values, gradients, of_queries, of_gradients, ones)

  @pl.when(pl.program_id(1) == 0)
  def _():
    _clear(bias_gradients)

  of_queries[:tokens] = logarithms[0]
  of_gradients[:tokens] = _split(_inner_products(gradient, output, pairs), dtype)

  def attend(pair, carry):
    lanes = _lanes(pair)
    queries[:tokens] = _biased(query, biases, 0, lanes, _KV**-0.5)
    keys[:tokens] = _biased(key, biases, 1, lanes)
    values[:tokens] = _biased(value, biases, 2, lanes)
    gradients[:tokens] = gradient[0, :, lanes]
    lane = _lane((1, _LANES))
    added = ((lane & (_PART - 1)) == pair) & ((lane & (_KV - 1)) < 3 * _PART)
    ones[:tokens] = jnp.broadcast_to(jnp.where(added, 1.0, 0.0).astype(dtype), (tokens, _LANES))
    transposed = keys[...].T
    of_values, of_keys, query_gradients = [], [], []
    for head, (mine, other, valued, upstream) in enumerate(
      zip(
        _by_head(queries, of_queries), _by_head(keys, ones), _by_head(values, ones),
        _by_head(gradients, of_gradients), strict=True,
      )
    ):  # fmt: skip
      weights = jnp.exp(_product(other[:count], mine, transposed=True))
      of_logits = (weights * _product(valued[:count], upstream, transposed=True)).astype(dtype)
      of_values.append(_product(weights.astype(dtype), upstream))
      of_keys.append(_product(of_logits, mine))
      own = transposed[head * _KV : (head + 1) * _KV]
      query_gradients.append(_product(own, _padded(of_logits, own.shape[1])))
    results = (
      (query_gradient, jnp.concatenate(query_gradients).T * _KV**-0.5),
      (key_gradient, _first(*of_keys)),
      (value_gradient, _first(*of_values)),
    )
    for number, (result, array) in enumerate(results):
      result[0, :, lanes] = array[:tokens].astype(dtype)
      bias_gradients[0, number : number + 1, lanes] += jnp.sum(array[:tokens], axis=0, keepdims=True)
    return carry

  jax.lax.fori_loop(0, pairs, attend, 0)


def _inner_products(gradient, output, pairs: int) -> jax.Array:
  """Of each head the gradient times the output [tokens, 128], in the lane of its pair in the other head's half."""
  row, lane = (jax.lax.broadcasted_iota(jnp.int32, (_LANES, _LANES), axis) for axis in (0, 1))
  total = jnp.zeros((gradient.shape[1], _LANES), jnp.float32)
  for pair in range(pairs):
    lanes = slice(pair * _LANES, (pair + 1) * _LANES)
    product = gradient[0, :, lanes].astype(jnp.float32) * output[0, :, lanes].astype(jnp.float32)
    summed = jnp.where(lane == jnp.where(row < _KV, _KV + pair, pair), 1.0, 0.0).astype(gradient.dtype)
    total += _product(product.astype(gradient.dtype), summed)
  return total


def _lanes(pair: jax.Array) -> Any:
  return pl.ds(pl.multiple_of(pair * _LANES, _LANES), _LANES)


def _lane(shape: tuple[int, ...]) -> jax.Array:
  return jax.lax.broadcasted_iota(jnp.int32, shape, 1)


def _biased(operand, biases, number: int, lanes: Any, factor: float = 1.0) -> jax.Array:
  """An operand of two heads with its bias, times a factor."""
  bias = biases[number : number + 1, lanes].astype(jnp.float32)
  return ((operand[0, :, lanes].astype(jnp.float32) + bias) * factor).astype(operand.dtype)


def _by_head(operand, other) -> tuple[jax.Array, jax.Array]:
  """The operand in the lanes of the first head, and in those of the second; `other` in the lanes that are free."""
  return _first(operand[...], other[...]), _first(other[...], operand[...])


def _first(first: jax.Array, second: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
  """The lanes of the first head of one array, and of the second head of another."""
  if first.dtype == jnp.float32:
    return jnp.where(_lane(shape or first.shape) < _KV, first, second)
  # In pairs of bfloat16, for which the chip has no selection.
  first, second = (pltpu.bitcast(x, jnp.int32) for x in (first, second))
  return pltpu.bitcast(jnp.where(_lane(first.shape) < _KV, first, second), jnp.bfloat16)


def _split(statistics: jax.Array, dtype: Any) -> jax.Array:
  """Minus the statistics of all pairs, as three numbers of which the sum is exact."""
  part_of_lane = (_lane(statistics.shape) & (_KV - 1)) >> int(math.log2(_PART))
  parts, rest = jnp.zeros(statistics.shape, jnp.float32), -statistics
  for number in range(3):
    part = rest.astype(dtype).astype(jnp.float32)
    parts = jnp.where(part_of_lane == number, pltpu.roll(part, number * _PART, 1) if number else part, parts)
    rest -= part
  return parts.astype(dtype)


def _product(left: jax.Array, right: jax.Array, transposed: bool = False) -> jax.Array:
  """left times right, or times right's transpose, in float32."""
  contracted = ((1,), (1 if transposed else 0,))
  return jax.lax.dot_general(left, right, (contracted, ((), ())), preferred_element_type=jnp.float32)


def _padded(array: jax.Array, rows: int) -> jax.Array:
  """With zeros for the rows that are missing."""
  return jnp.pad(array, ((0, rows - array.shape[0]), (0, 0))) if array.shape[0] < rows else array


def _clear(*buffers) -> None:
  for buffer in buffers:
    buffer[...] = jnp.zeros(buffer.shape, buffer.dtype)


def _up(size: int, multiple: int) -> int:
  return math.ceil(size / multiple) * multiple
