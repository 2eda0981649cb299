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
  """[rows, embed], [embed, vocab], int32 [rows] -> the logits, float32 [rows, vocab], and the targets', [rows].

  Derived in two parts: the gradient of a row's target takes the target's column of the kernel by looking it up. Among
  the gradients of all logits it would be one number more in each row, put there at every read by the next product.
  """
  logits = jnp.dot(hidden, kernel, preferred_element_type=jnp.float32)
  logits = constrain(logits, "batch", "vocab")
  return logits, jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]


def _logits_forward(hidden, kernel, targets):
  return _logits_and_target(hidden, kernel, targets), (hidden, kernel, targets)


def _logits_backward(residuals, cotangents):
  hidden, kernel, targets = residuals
  by_logits, by_target = cotangents
  columns = jnp.take(kernel.T, targets, axis=0).astype(jnp.float32)
  by_hidden = jnp.dot(by_logits.astype(hidden.dtype), kernel.T, preferred_element_type=jnp.float32)
  by_hidden += by_target[:, None] * columns
  # Here the number more is cheaper than adding to columns of what is summed over all rows.
  at_target = jax.nn.one_hot(targets, kernel.shape[1], dtype=jnp.float32) * by_target[:, None]
  # In the activations' dtype, as every other kernel's gradient is, when devices sum it; by rows of the vocabulary.
  by_rows = lax.optimization_barrier(jnp.dot((by_logits + at_target).astype(hidden.dtype).T, hidden))
  return by_hidden.astype(hidden.dtype), by_rows.T, None


_logits_and_target.defvjp(_logits_forward, _logits_backward)
