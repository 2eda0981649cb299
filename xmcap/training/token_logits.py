"""What a loss needs of the logits of each token, in its plain form and in one that a TPU sums as it multiplies."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax

# Sums of float32 overflow at exp(88): so log Z may be up to 118 above the bound, and at the bound is exp(-30).
_ABOVE_BOUND = 30.0


class TokenLogits(NamedTuple):
  """Of the V logits of each token, float32 [...]: log Z (Z normalizes the softmax), target's, mean and highest."""

  log_z: jax.Array
  of_targets: jax.Array
  mean: jax.Array
  highest: jax.Array


def reduced(logits: jax.Array, targets: jax.Array) -> TokenLogits:
  """Reduces logits [..., V] for targets [...]; the exponentials are relative to the highest logit, as usual."""
  logits = logits.astype(jnp.float32)
  log_z = jax.nn.logsumexp(logits, axis=-1)
  return TokenLogits(log_z, _of_targets(logits, targets), jnp.mean(logits, -1), jnp.max(logits, -1))


def reduced_in_one_pass(logits: jax.Array, targets: jax.Array, bound: jax.Array, dtype: Any) -> TokenLogits:
  """`reduced`, without waiting for the highest logit: the exponentials are relative to a bound that comes first.

  XLA for TPUs then fuses all sums with the product that makes the logits, and never writes these. Log Z is that of
  `reduced` from the bound to 118 above it, and infinite beyond.

  Args:
    logits: float32 [..., V].
    targets: int [...].
    bound: float32 [...], see `lower_bound`; without a gradient.
    dtype: of the exponentials, all that is kept for the gradient.

  Returns:
    The values of each token; `highest` has no gradient.
  """
  return cast(TokenLogits, _in_one_pass(logits, targets, bound, dtype))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _in_one_pass(logits: jax.Array, targets: jax.Array, bound: jax.Array, dtype: Any) -> TokenLogits:
  return _forward(logits, targets, bound, dtype)[0]


def _forward(logits: jax.Array, targets: jax.Array, bound: jax.Array, dtype: Any):
  shift = bound + _ABOVE_BOUND
  exponentials = jnp.exp(logits - shift[..., None])
  log_sum = jnp.log(jnp.sum(exponentials, -1))
  of_targets = _of_targets(logits, targets)
  values = TokenLogits(log_sum + shift, of_targets, jnp.mean(logits, -1), jnp.max(logits, -1))
  # Without the barrier, XLA would keep float32.
  kept = lax.optimization_barrier(exponentials.astype(dtype))
  return values, (kept, targets, log_sum, of_targets - shift)


def _backward(dtype: Any, residuals: tuple[jax.Array, ...], gradients: TokenLogits):
  del dtype
  exponentials, targets, log_sum, of_targets = residuals
  of_others = exponentials.astype(jnp.float32) * (gradients.log_z * jnp.exp(-log_sum))[..., None]
  # Not from its exponential: near 1, the two summands cancel, and the rest would be the rounding of `dtype`.
  of_target = gradients.log_z * jnp.exp(of_targets - log_sum) + gradients.of_targets
  of_logits = jnp.where(_is_target(exponentials.shape, targets), of_target[..., None], of_others)
  return of_logits + (gradients.mean / exponentials.shape[-1])[..., None], None, None


_in_one_pass.defvjp(_forward, _backward)


def lower_bound(dense: Mapping[str, jax.Array], hidden: jax.Array) -> jax.Array:
  """The mean logit + log V, which is at most log Z (Jensen's inequality), before there are logits.

  Args:
    dense: `kernel` [E, V], and `bias` [V] if there is one, of the layer that makes the logits.
    hidden: [..., E], its input.

  Returns:
    float32 [...], without a gradient.
  """
  mean = {name: jnp.mean(lax.stop_gradient(array), axis=-1) for name, array in dense.items()}
  # Not a product of matrices, which a TPU would round.
  of_kernel = jnp.sum(lax.stop_gradient(hidden).astype(jnp.float32) * mean["kernel"], axis=-1)
  return of_kernel + mean.get("bias", 0.0) + math.log(dense["kernel"].shape[-1])


def _is_target(shape: tuple[int, ...], targets: jax.Array) -> jax.Array:
  return lax.broadcasted_iota(targets.dtype, shape, len(shape) - 1) == targets[..., None]


def _of_targets(logits: jax.Array, targets: jax.Array) -> jax.Array:
  # A sum, as in t5x. The gradient of a gather would be a scatter, for which a TPU copies all of the logits' gradient.
  return jnp.sum(jnp.where(_is_target(logits.shape, targets), logits, 0.0), axis=-1)
