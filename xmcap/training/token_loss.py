"""The loss of a caption's tokens, for some positions after the other where the logits of all would take much memory."""

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from xmcap.training.token_logits import TokenLogits

MOST_BYTES = 2 << 30
"""Of the logits that a device has at one time."""

Sums = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
"""(parameters, hidden [B, K, T, E], tokens, each [B, K, T]) -> the loss [] and metrics [], sums over tokens."""


def parts_of(positions: int, bytes_of_all: float) -> int:
  """The number of equal parts into which the positions of the targets are divided, so that each fits `MOST_BYTES`."""
  return next(
    (parts for parts in range(1, positions) if positions % parts == 0 and bytes_of_all <= parts * MOST_BYTES),
    positions,
  )


def summed(
  sums: Sums, parts: int, params: Any, hidden: jax.Array, tokens: tuple[jax.Array, ...]
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """`sums(params, hidden, *tokens)`, of the positions in so many parts, one after the other.

  Of each part the gradient is computed together with the loss, so that no logits are kept for the backward pass, nor
  computed again in it. There is none with respect to `tokens`.
  """
  if parts == 1:
    return sums(params, hidden, *tokens)
  return cast(tuple[jax.Array, dict[str, jax.Array]], _in_parts(sums, parts, params, hidden, tokens))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _in_parts(sums: Sums, parts: int, params: Any, hidden: jax.Array, tokens: tuple[jax.Array, ...]):
  split = _split(parts, (hidden, *tokens))
  return _total(lambda part: (sums(params, *part), None), split)[0]


def _with_gradients(sums: Sums, parts: int, params: Any, hidden: jax.Array, tokens: tuple[jax.Array, ...]):
  of_part = jax.value_and_grad(sums, argnums=(0, 1), has_aux=True)

  def one(part):
    values, (of_params, of_hidden) = of_part(params, *part)
    return (values, of_params), of_hidden

  (values, of_params), of_hidden = _total(one, _split(parts, (hidden, *tokens)))
  return values, (of_params, jnp.moveaxis(of_hidden, 0, 2).reshape(hidden.shape))


def _backward(sums: Sums, parts: int, gradients: Any, cotangents: tuple[jax.Array, Any]):
  del sums, parts  # the gradients of the metrics are not used
  scaled = jax.tree.map(lambda gradient: gradient * cotangents[0].astype(gradient.dtype), gradients)
  return *scaled, None


_in_parts.defvjp(_with_gradients, _backward)


def _split(parts: int, arrays: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
  """[B, K, T, ...] -> [parts, B, K, T / parts, ...]: positions are whole on each device, rows are not."""
  return tuple(
    jnp.moveaxis(x.reshape(*x.shape[:2], parts, x.shape[2] // parts, *x.shape[3:]), 2, 0) for x in arrays
  )


def _total(one: Callable[[Any], tuple[Any, Any]], split: Any) -> tuple[Any, Any]:
  """The sum of the first results of `one` over all parts, and its second results, stacked."""
  shapes = jax.eval_shape(lambda: one(jax.tree.map(lambda x: x[0], split))[0])
  zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

  def add(total, part):
    added, rest = one(part)
    return jax.tree.map(jnp.add, total, added), rest

  return lax.scan(add, zeros, split)


def token_losses(
  logits: TokenLogits, vocab_size: int, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> tuple[jax.Array, jax.Array]:
  """Cross-entropy of each token, with and without smoothing and z-loss; t5x's `cross_entropy_with_logits`.

  Args:
    logits: those of each token, reduced.
    vocab_size: their number, V.
    label_smoothing: e; the target is 1 - e for the right token and e / (V - 1) for each other.
    z_loss: weight of log(Z)^2.

  Returns:
    The loss and the plain cross-entropy of each token, both float32 [...].
  """
  log_z, of_targets = logits.log_z, logits.of_targets
  cross_entropy = loss = log_z - of_targets
  if label_smoothing:
    others = vocab_size - 1
    right, wrong = 1.0 - label_smoothing, label_smoothing / others
    entropy = -(right * math.log(right) + others * wrong * math.log(wrong))
    loss = (
      right * cross_entropy + wrong * (others * log_z - (vocab_size * logits.mean - of_targets)) - entropy
    )
  return loss + z_loss * jnp.square(log_z), cross_entropy
