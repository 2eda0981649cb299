"""Optimizers: which way each parameter goes (optax), and how far (schedule times multipliers)."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
import jax
import jax.numpy as jnp
import optax

from xmcap.errors import UsageError
from xmcap.training import schedule as schedule_lib

Params = Mapping[str, Any]
Schedule = Callable[[jax.Array | int, int], jax.Array]


@gin.configurable
def adafactor(
  decay_rate: float = 0.8,
  clipping_threshold: float | None = 1.0,
  multiply_by_parameter_scale: bool = True,
  min_dim_size_to_factor: int = 128,
  momentum: float | None = None,
  weight_decay: float | None = None,
) -> optax.GradientTransformation:
  """Adafactor (Shazeer & Stern 2018) at rate 1, with t5x's settings as defaults.

  With `multiply_by_parameter_scale` the rate is relative to the root mean square of each parameter, at
  least 1e-3: parameters that start at zero move slowly then, unless a multiplier helps them. `weight_decay`
  is taken times the learning rate.
  """
  return optax.chain(
    optax.adafactor(
      learning_rate=None,
      decay_rate=decay_rate,
      clipping_threshold=clipping_threshold,
      multiply_by_parameter_scale=multiply_by_parameter_scale,
      min_dim_size_to_factor=min_dim_size_to_factor,
      momentum=momentum,
      weight_decay_rate=weight_decay,
    ),
    # optax's sign is that of a finished update; `Optimizer` subtracts.
    optax.scale(-1.0),
  )


@gin.configurable
def adam(
  b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0
) -> optax.GradientTransformation:
  """Adam (Kingma & Ba 2015) at rate 1; `weight_decay` is decoupled (AdamW), taken times the learning rate."""
  decay = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
  return optax.chain(optax.scale_by_adam(b1=b1, b2=b2, eps=eps), *decay)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer:
  """An update rule, a schedule, multipliers and clipping: all that turns gradients into new parameters.

  Attributes:
    transformation: makes the optax rule at rate 1: `adafactor` or `adam`.
    schedule: (step, total_steps) -> rate. A function of the step alone, so that skipped updates do not shift
      it.
    multipliers: (pattern, number) pairs. A pattern is searched (`re.search`) in a parameter's path, such as
      `decoder/layers_0/mlp/wi_0/kernel`; the first that is found gives the factor of that parameter's rate,
      and 1 holds where none is. 0 leaves the parameter as it is. A pattern that decides nothing is an error.
    clip_norm: gradients are scaled down to this global L2 norm; None does not clip.
  """

  transformation: Callable[[], optax.GradientTransformation] = adafactor
  # A factory: a default made here would be made before gin has read its files.
  schedule: Schedule = dataclasses.field(default_factory=schedule_lib.ConstantThenRsqrt)
  multipliers: Sequence[tuple[str, float]] = ()
  clip_norm: float | None = 1.0

  def init(self, params: Params) -> optax.OptState:
    """The state of the update rule for `params`.

    Raises:
      UsageError: a multiplier that decides no parameter, or is no pattern.
    """
    multiplier_tree(params, self.multipliers)
    return self._rule().init(params)

  def update(
    self, grads: Params, opt_state: optax.OptState, params: Params, step: jax.Array, total_steps: int
  ) -> tuple[Params, optax.OptState, jax.Array]:
    """One update: (new params, new state, learning rate float32 [])."""
    directions, opt_state = self._rule().update(grads, opt_state, params)
    rate = self.schedule(step, total_steps)
    multipliers = multiplier_tree(params, self.multipliers)
    params = jax.tree.map(
      lambda param, direction, factor: (
        (param - rate * factor * direction).astype(param.dtype) if factor else param
      ),
      params,
      directions,
      multipliers,
    )
    return params, opt_state, rate

  def _rule(self) -> optax.GradientTransformation:
    clip = [] if self.clip_norm is None else [optax.clip_by_global_norm(self.clip_norm)]
    return optax.chain(*clip, self.transformation())


def multiplier_tree(params: Params, multipliers: Sequence[tuple[str, float]]) -> Params:
  """The factor (a Python float) of each parameter's learning rate: a tree like `params`.

  Raises:
    UsageError: see `Optimizer.multipliers`.
  """
  rules = []
  for pattern, factor in multipliers:
    try:
      rules.append((re.compile(pattern), float(factor)))
    except (re.error, TypeError, ValueError) as error:
      raise UsageError(
        f"Optimizer.multipliers: ({pattern!r}, {factor!r}) is not a pattern and a number: {error}"
      ) from None
  used = set()

  def factor_of(path, _) -> float:
    name = path_name(path)
    for index, (pattern, factor) in enumerate(rules):
      if pattern.search(name):
        used.add(index)
        return factor
    return 1.0

  tree = jax.tree_util.tree_map_with_path(factor_of, params)
  names = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
  for index, (pattern, _) in enumerate(rules):
    if index not in used:
      if any(pattern.search(name) for name in names):
        raise UsageError(
          f"Optimizer.multipliers: patterns before {pattern.pattern!r} take all its parameters: "
          "put it before them"
        )
      raise UsageError(
        f"Optimizer.multipliers: {pattern.pattern!r} is found in no parameter's path; "
        f"paths look like {names[0]!r}"
      )
  return tree


def path_name(path: Sequence[Any]) -> str:
  """`decoder/layers_0/mlp/wi_0/kernel` from a path of `jax.tree_util`."""
  return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def global_norm(tree: Params) -> jax.Array:
  """The L2 norm of all leaves together, float32 []."""
  return jnp.sqrt(sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(tree)))
