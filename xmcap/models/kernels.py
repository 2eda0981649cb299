"""What is tuned for a device, each beside the plain form of the same function.

`Kernels.plain = True` in gin takes the plain forms everywhere. `python benchmarks/kernels.py` says what each buys.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import gin
import jax
import jax.numpy as jnp

Metrics = dict[str, jax.Array]
Sums = Callable[[Any, jax.Array, jax.Array, jax.Array], Metrics]


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Kernels:
  """The switch of this file: `plain` takes the plain form of every function."""

  plain: bool = False


def summed_over_tokens(
  token_sums: Sums, capacity: int, head: Any, hidden: jax.Array, targets: jax.Array, weights: jax.Array
) -> Metrics:
  """`token_sums(head, hidden, targets, weights)`, which is the plain form.

  Tuned: of the rows of weight > 0 alone where they are at most `capacity`, so that padding gets no logits. Most of a
  small model's step on a CPU are the logits; on a mesh, rows would have to move between devices.

  Args:
    token_sums: sums over rows; rows of weight 0 add nothing.
    capacity: rows that are gathered at most; with more of weight > 0, all rows are computed.
    head: the parameters that `token_sums` needs.
    hidden: [N, E].
    targets: [N].
    weights: [N].

  Returns:
    The sums. Of the tuned form, only the gradient of `loss` by `head` and `hidden` is defined.
  """
  if Kernels().plain or capacity >= len(targets):
    return token_sums(head, hidden, targets, weights)
  return _summed_within_capacity(token_sums, capacity, head, hidden, targets, weights)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _summed_within_capacity(
  token_sums: Sums, capacity: int, head: Any, hidden: jax.Array, targets: jax.Array, weights: jax.Array
) -> Metrics:
  # The gradient is made together with the value: a `lax.cond` that is differentiated from outside would carry the whole
  # logits of the branch that was not taken.
  def few(rows):
    return lambda: token_sums(head, hidden[rows], targets[rows], weights[rows] * _filled(rows, weights))

  return _by_capacity(capacity, weights, few, lambda: token_sums(head, hidden, targets, weights))


def _by_capacity(capacity: int, weights: jax.Array, few: Callable, all_rows: Callable) -> Any:
  rows = jnp.nonzero(weights > 0, size=capacity, fill_value=len(weights))[0]
  return jax.lax.cond(jnp.sum(weights > 0) <= capacity, few(rows), all_rows)


def _filled(rows: jax.Array, weights: jax.Array) -> jax.Array:
  """1 for rows that are there, 0 for those that fill up the capacity (gathered, they are the last row)."""
  return (rows < len(weights)).astype(weights.dtype)


def _forward(token_sums, capacity, head, hidden, targets, weights):
  def loss_and_sums(head, hidden, targets, weights):
    sums = token_sums(head, hidden, targets, weights)
    return sums["loss"], sums

  grad = jax.grad(loss_and_sums, argnums=(0, 1), has_aux=True)

  def few(rows):
    def run():
      (by_head, by_rows), sums = grad(
        head, hidden[rows], targets[rows], weights[rows] * _filled(rows, weights)
      )
      return sums, by_head, jnp.zeros_like(hidden).at[rows].add(by_rows, mode="drop")

    return run

  def all_rows():
    (by_head, by_hidden), sums = grad(head, hidden, targets, weights)
    return sums, by_head, by_hidden

  sums, by_head, by_hidden = _by_capacity(capacity, weights, few, all_rows)
  return sums, (by_head, by_hidden)


def _backward(token_sums, capacity, residuals, cotangents):
  scale = cotangents["loss"]
  by_head, by_hidden = jax.tree.map(lambda grad: (grad * scale).astype(grad.dtype), residuals)
  return by_head, by_hidden, None, None


_summed_within_capacity.defvjp(_forward, _backward)
