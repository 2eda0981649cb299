"""Plans the training state before it is made: the shape and sharding of each array."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmcap.models.stacking import path_name
from xmcap.training import sharding
from xmcap.training.checkpoints.train_state import TrainState, ema_like
from xmcap.training.optimizer import Optimizer
from xmcap.training.step import create_state


@dataclasses.dataclass(frozen=True)
class StatePlan:
  """A planned `TrainState`: `target` holds `jax.ShapeDtypeStruct`s with shardings, `shardings` the shardings alone."""

  target: TrainState
  shardings: TrainState
  mesh: Mesh
  rules: sharding.Rules
  _init: Any
  _key: jax.Array

  @property
  def num_parameters(self) -> int:
    """The number of parameters, frozen ones included."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(self.target.params))

  @property
  def num_bytes(self) -> int:
    """Bytes of parameters, optimizer state and EMA together, as in a checkpoint."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.target))

  def create(self, paths: Collection[str] = ()) -> TrainState:
    """Makes a fresh state directly on the mesh, in one compiled function: no host ever holds a full copy.

    Parameters whose paths are in `paths` are zeros, because they will be replaced: random initialization of a large
    model takes a minute to compile.
    """

    def fresh(path: Sequence[Any], leaf: jax.Array) -> jax.Array:
      return jnp.zeros_like(leaf) if path_name(path) in paths else leaf

    def init(rng: jax.Array) -> TrainState:
      state = self._init(rng)[0]
      params = jax.tree_util.tree_map_with_path(fresh, state.params)
      return state.replace(params=params, ema=state.ema and ema_like(state.ema, params))

    with sharding.use(self.mesh, self.rules):
      return jax.jit(init, out_shardings=self.shardings)(self._key)

  def jit(self, step: Callable) -> Callable:
    """Compiles (state, batch) -> (state, anything), to be called within `sharding.use(mesh, rules)`.

    The state has the planned shardings before and after, and is donated; a batch is sharded as by `sharding.put_batch`.
    The loop, the dry run and `xmcap plan` all use this function.
    """
    return jax.jit(
      step, donate_argnums=0, in_shardings=(self.shardings, None), out_shardings=(self.shardings, None)
    )


def plan_state(
  objective: Any,
  optimizer: Optimizer,
  batch: Mapping[str, Any],
  mesh: Mesh,
  rules: sharding.Rules,
  seed: int = 0,
  rng_impl: str | None = None,
) -> StatePlan:
  """Plans the state for an objective (see `objectives`) from the shapes of a batch, without allocating it."""
  one_row = {name: np.zeros((1, *array.shape[1:]), array.dtype) for name, array in batch.items()}

  def init(rng: jax.Array) -> tuple[TrainState, Any]:
    variables = objective.init(rng, one_row)
    return create_state(variables["params"], optimizer), variables.get("params_axes")

  key = jax.random.key(seed, impl=rng_impl)
  shapes, params_axes = jax.eval_shape(init, key)
  param_shardings = sharding.parameter_shardings(shapes.params, params_axes, mesh, rules)
  shardings = sharding.state_shardings(shapes, param_shardings, mesh)
  target = jax.tree.map(
    lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes, shardings
  )
  return StatePlan(target, shardings, mesh, rules, init, key)
