"""The product with the vocabulary, and the logits of the right tokens among its numbers."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from xmcap.models.layers import T5_KERNEL_INIT, constrain, parameter


class LogitsDense(nn.Module):
  """The product with the vocabulary, in the activations' dtype and summed in float32."""

  vocab_size: int

  @nn.compact
  def __call__(self, hidden: jax.Array, targets: jax.Array | None = None) -> Any:
    shape = (hidden.shape[-1], self.vocab_size)
    # Cut by the vocabulary's rows, as the embedding is: the columns of targets are looked up, too.
    kernel = parameter("kernel", T5_KERNEL_INIT, shape, ("embed", "table"), hidden.dtype)
    if targets is None:
      return jnp.dot(hidden, kernel, preferred_element_type=jnp.float32)
    return _logits_and_target(hidden, kernel, targets)


@jax.custom_vjp
def _logits_and_target(
  hidden: jax.Array, kernel: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """[rows, embed], [embed, vocab], int32 [rows] -> the logits, float32 [rows, vocab], and the targets', [rows]."""
  logits = jnp.dot(hidden, kernel, preferred_element_type=jnp.float32)
  logits = constrain(logits, "batch", "vocab")
  return logits, jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]


def _forward(hidden, kernel, targets):
  return _logits_and_target(hidden, kernel, targets), (hidden, kernel, targets)


def _backward(residuals, cotangents):
  hidden, kernel, targets = residuals
  by_logits, by_target = cotangents
  # Together for the product, and so for the lookup too, which would go through the devices' parts one by one.
  kernel = constrain(kernel, None, "vocab")
  at_target = jax.nn.one_hot(targets, kernel.shape[1], dtype=jnp.float32) * by_target[:, None]
  by_all = (by_logits + at_target).astype(hidden.dtype)
  by_hidden = lax.platform_dependent(
    by_logits.astype(hidden.dtype), by_target, by_all, kernel, targets, tpu=_in_two_parts, default=_in_one
  )
  # Summed over devices in the activations' dtype, as every other kernel's gradient is, and by rows of the vocabulary.
  by_rows = lax.optimization_barrier(jnp.dot(by_all.T, hidden))
  return by_hidden.astype(hidden.dtype), by_rows.T, None


def _in_one(_logits, _target, by_all, kernel, _targets):
  """The gradient of `hidden`, float32: one product."""
  return jnp.dot(by_all, kernel.T, preferred_element_type=jnp.float32)


def _in_two_parts(by_logits, by_target, _all, kernel, targets):
  """The same, the targets' columns looked up: a TPU makes the gradients anew at each read, and so in fewer steps."""
  columns = jnp.take(kernel.T, targets, axis=0).astype(jnp.float32)
  return jnp.dot(by_logits, kernel.T, preferred_element_type=jnp.float32) + by_target[:, None] * columns


_logits_and_target.defvjp(_forward, _backward)
