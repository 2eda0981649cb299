"""The state of a run, which its checkpoints hold."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from xmcap.models import stacking


class Ema(flax.struct.PyTreeNode):
  """An exponential moving average of weights, as a checkpoint holds it.

  Attributes:
    count: int32 [], the updates that are in it.
    params: tree of float32, the average of the parameters that learn.
  """

  count: jax.Array
  params: Any


class TrainState(flax.struct.PyTreeNode):
  """Everything that a run carries from step to step; the data's position and the random keys follow from `step`.

  Attributes:
    step: int32 [], steps done, skipped ones included.
    params, opt_state: trees of float32.
    skipped: int32 [], number of steps skipped because the loss or gradient was not finite.
    skipped_in_a_row: int32 [], number of steps skipped since the last step that was not.
    ema: the EMA of the weights; None if the run has none.
  """

  step: jax.Array
  params: Any
  opt_state: Any
  skipped: jax.Array
  skipped_in_a_row: jax.Array
  ema: Ema | None = None

  @property
  def weights(self) -> Any:
    """The parameters to evaluate: with the EMA in place of those that learn, if there is one."""
    return self.params if self.ema is None else stacking.merge(self.params, self.ema.params)


def ema_of(learning: Any) -> Ema:
  """An EMA of parameters before the first update: a copy of them, as a buffer can be donated only once."""
  copies = jax.tree.map(lambda leaf: jnp.array(leaf, jnp.float32, copy=True), learning)
  return Ema(jnp.zeros((), jnp.int32), copies)


def ema_like(ema: Ema, params: Any) -> Ema:
  """`ema_of` those of `params` whose average is in `ema`."""
  flat = stacking.flatten(params)
  return ema_of(stacking.nested({path: flat[path] for path in stacking.flatten(ema.params)}))


def placed_ema(target: Ema, params: Any) -> Ema:
  """The same, with the shardings of `target`, which may hold `jax.ShapeDtypeStruct`s."""
  shardings = jax.tree.map(lambda leaf: leaf.sharding, target)
  return jax.jit(lambda params: ema_like(target, params), out_shardings=shardings)(params)
