"""The training step: (state, batch) -> (state, metrics), one compiled function."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from xmcap.models import stacking
from xmcap.training import optimizer as optimizer_lib
from xmcap.training.checkpoints.train_state import TrainState, ema_of

Batch = Mapping[str, jax.Array]
Metrics = dict[str, jax.Array]


def create_state(params: Any, optimizer: optimizer_lib.Optimizer) -> TrainState:
  """The state before the first step."""
  # Three arrays, not the same one three times: the state is donated, and a buffer can be donated only once.
  step, skipped, in_a_row = (jnp.zeros((), jnp.int32) for _ in range(3))
  learning, _ = optimizer.split(params)
  ema = ema_of(learning) if optimizer.ema_decay else None
  return TrainState(step, params, optimizer.init(learning), skipped, in_a_row, ema)


def make_train_step(
  objective: Any,
  optimizer: optimizer_lib.Optimizer,
  total_steps: int,
  seed: int = 0,
  microbatches: int = 1,
  rng_impl: str | None = None,
  param_shardings: Any = None,
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
  """Makes the step for an objective, to be jitted with the state donated.

  Args:
    objective: has `loss(params, batch, rng, deterministic) -> (loss [], metrics)`. The loss and the other metrics are
      means over `metrics["weight"]` tokens or images.
    optimizer: turns gradients into updates.
    total_steps: length of the run, for the schedule.
    seed: seed of dropout. The key of a step is a function of (seed, step, microbatch).
    microbatches: number of parts of the batch that are computed one after the other. Their gradients are summed by
      weight, which gives the same update as the whole batch in less memory.
    rng_impl: jax's name of the key type; None: its default (threefry: the same bits on every mesh).
    param_shardings: shardings of the gradients, as of the parameters in `StatePlan`; None: the compiler decides.

  Returns:
    The step. Its metrics, all float32 [], are the objective's, those of `Optimizer.update`, `skipped` and
    `skipped_in_a_row`. If the loss or gradient is not finite, `params`, `opt_state` and `ema` do not change.
  """

  def value_and_grad(params: Any, batch: Batch, rng: jax.Array) -> tuple[Metrics, Any]:
    learning, frozen = optimizer.split(params)

    def loss_of(learning):
      return objective.loss(stacking.merge(learning, frozen), batch, rng, False)

    (loss, metrics), grads = jax.value_and_grad(loss_of, has_aux=True)(learning)
    return {**metrics, "loss": loss}, grads

  def accumulate(params: Any, batch: Batch, rng: jax.Array) -> tuple[Metrics, Any]:
    def one(total, numbered):
      index, part = numbered
      result = value_and_grad(params, part, jax.random.fold_in(rng, index))
      return jax.tree.map(jnp.add, total, weighted(result)), None

    parts = {name: split(array, microbatches) for name, array in batch.items()}
    shapes = jax.eval_shape(value_and_grad, params, jax.tree.map(lambda x: x[0], parts), rng)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), shapes)
    (metrics, grads), _ = jax.lax.scan(one, zeros, (jnp.arange(microbatches), parts))
    weight = metrics.pop("weight")
    metrics, grads = jax.tree.map(lambda x: x / jnp.maximum(weight, 1e-9), (metrics, grads))
    return {**metrics, "weight": weight}, grads

  def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
    rng = jax.random.fold_in(jax.random.key(seed, impl=rng_impl), state.step)
    compute = value_and_grad if microbatches == 1 else accumulate
    metrics, grads = compute(state.params, batch, rng)
    learning, frozen = optimizer.split(state.params)
    if param_shardings is not None:
      grads = jax.lax.with_sharding_constraint(grads, optimizer.split(param_shardings)[0])
    updated, opt_state, measured = optimizer.update(grads, state.opt_state, learning, state.step, total_steps)
    # If the loss or gradient is not finite, only the counters change.
    finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(measured["grad_norm"])
    ema = state.ema and optimizer.average(state.ema, updated)
    updated, opt_state, ema = jax.tree.map(
      lambda new, old: jnp.where(finite, new, old),
      (updated, opt_state, ema),
      (learning, state.opt_state, state.ema),
    )
    state = TrainState(
      step=state.step + 1,
      params=stacking.merge(updated, frozen),
      opt_state=opt_state,
      skipped=state.skipped + ~finite,
      skipped_in_a_row=jnp.where(finite, 0, state.skipped_in_a_row + 1),
      ema=ema,
    )
    metrics |= {**measured, "skipped": state.skipped, "skipped_in_a_row": state.skipped_in_a_row}
    return state, {name: value.astype(jnp.float32) for name, value in metrics.items()}

  return train_step


def weighted(result: tuple[Metrics, Any]) -> tuple[Metrics, Any]:
  """Turns metrics and gradients that are means over `weight` into sums; `weight` itself is unchanged."""
  metrics, grads = result
  weight = metrics["weight"]
  sums = {name: value if name == "weight" else value * weight for name, value in metrics.items()}
  return sums, jax.tree.map(lambda grad: grad.astype(jnp.float32) * weight, grads)


def split(array: jax.Array, parts: int) -> jax.Array:
  """[B, ...] -> [parts, B / parts, ...]: part i holds the rows i, i + parts, ... of the batch.

  With strided rows every part is spread over all devices, as the batch is; contiguous rows would not be.
  """
  return array.reshape(array.shape[0] // parts, parts, *array.shape[1:]).swapaxes(0, 1)
