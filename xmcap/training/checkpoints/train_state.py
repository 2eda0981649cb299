"""The state of a run, which its checkpoints hold."""

from typing import Any, cast

import flax.struct
import jax
import jax.numpy as jnp
import optax

from xmcap.models import stacking


class TrainState(flax.struct.PyTreeNode):
  """Everything that a run carries from step to step; the data's position and the random keys follow from `step`.

  Attributes:
    step: int32 [], steps done, skipped ones included.
    params, opt_state: trees of float32.
    skipped: int32 [], number of steps skipped because the loss or gradient was not finite.
    skipped_in_a_row: int32 [], number of steps skipped since the last step that was not.
    ema: `count`, the updates that are in it, and `ema`, the average of the parameters that learn, float32; None if the
      run has none.
  """

  step: jax.Array
  params: Any
  opt_state: Any
  skipped: jax.Array
  skipped_in_a_row: jax.Array
  ema: optax.EmaState | None = None

  @property
  def weights(self) -> Any:
    """The parameters to evaluate: with the EMA in place of those that learn, if there is one."""
    return self.params if self.ema is None else stacking.merge(self.params, self.ema.ema)


def ema_of(learning: Any) -> optax.EmaState:
  """An EMA of parameters before the first update: a copy of them, as a buffer can be donated only once."""
  copies = jax.tree.map(lambda leaf: jnp.array(leaf, jnp.float32, copy=True), learning)
  return optax.EmaState(jnp.zeros((), jnp.int32), copies)


def ema_like(ema: optax.EmaState, params: Any) -> optax.EmaState:
  """`ema_of` those of `params` whose average is in `ema`."""
  flat = stacking.flatten(params)
  return ema_of(stacking.nested({path: flat[path] for path in stacking.flatten(cast(Any, ema.ema))}))


def placed_ema(target: optax.EmaState, params: Any) -> optax.EmaState:
  """The same, with the shardings of `target`, which may hold `jax.ShapeDtypeStruct`s."""
  shardings = jax.tree.map(lambda leaf: leaf.sharding, target)
  return jax.jit(lambda params: ema_like(target, params), out_shardings=shardings)(params)
