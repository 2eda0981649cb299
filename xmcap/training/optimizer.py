"""Optimizers: which way each parameter goes (optax), and how far (schedule times multipliers)."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
import jax
import jax.numpy as jnp
import optax
from flax import traverse_util

from xmcap.errors import UsageError
from xmcap.training import schedule as schedule_lib
from xmcap.training import stacks

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
  """An update rule, a schedule, multipliers, clipping and freezing: all that turns gradients into new parameters.

  Patterns are searched (`re.search`) in a parameter's path, such as `decoder/layers_0/mlp/wi_0/kernel` (with
  stacked layers `decoder/layers/mlp/wi_0/kernel`). One that decides nothing is an error.

  Attributes:
    transformation: makes the optax rule at rate 1: `adafactor` or `adam`. Each layer has its own, stacked or not.
    schedule: (step, total_steps) -> rate. A function of the step alone, so that skipped updates do not shift
      it.
    multipliers: (pattern, number) pairs; the first pattern that is found gives the factor of a parameter's rate,
      and 1 holds where none is.
    frozen: patterns; the parameters found stay as they are, without gradients and without optimizer state.
    clip_norm: gradients are scaled down to this global L2 norm; None does not clip, as t5x does not.
  """

  transformation: Callable[[], optax.GradientTransformation] = adafactor
  # A factory: a default made here would be made before gin has read its files.
  schedule: Schedule = dataclasses.field(default_factory=schedule_lib.ConstantThenRsqrt)
  multipliers: Sequence[tuple[str, float]] = ()
  frozen: Sequence[str] = ()
  clip_norm: float | None = None

  def split(self, params: Params) -> tuple[Params, Params]:
    """The parameters that learn, and the frozen ones: two trees that `merge` makes one again.

    Raises:
      UsageError: `frozen` holds what is no pattern or is found nowhere, or freezes all there is.
    """
    learning, frozen, used = {}, {}, set()
    patterns = [_pattern(pattern, "frozen") for pattern in self.frozen]
    for path, leaf in traverse_util.flatten_dict(params, sep="/").items():
      found = {index for index, pattern in enumerate(patterns) if pattern.search(path)}
      used |= found
      (frozen if found else learning)[path] = leaf
    for index, pattern in enumerate(patterns):
      if index not in used:
        raise _found_nowhere("frozen", pattern, params)
    if not learning:
      raise UsageError("Optimizer.frozen freezes every parameter: nothing is left to learn")
    return traverse_util.unflatten_dict(learning, sep="/"), traverse_util.unflatten_dict(frozen, sep="/")

  def init(self, learning: Params) -> dict[str, optax.OptState]:
    """The state of the update rule: for each stack of layers one, and one for all else (see `stacks`).

    Args:
      learning: of `split`.

    Raises:
      UsageError: a multiplier that decides no parameter, or is no pattern.
    """
    multiplier_tree(learning, self.multipliers)
    return {
      stack: stacks.each_layer(stack, self.transformation().init)(part)
      for stack, part in stacks.by_stack(stacks.together(learning)).items()
    }

  def update(
    self,
    grads: Params,
    opt_state: dict[str, optax.OptState],
    learning: Params,
    step: jax.Array,
    total_steps: int,
    shardings: Params | None = None,
    finite: jax.Array | bool = True,
  ) -> tuple[Params, dict[str, optax.OptState], dict[str, jax.Array]]:
    """One update of the parameters that learn; none where the gradient's norm is not finite.

    Args:
      grads: of `learning`.
      opt_state: of `init`, or of the update before.
      learning: of `split`.
      step: the number of the step.
      total_steps: of the run.
      shardings: of `learning` and its gradients; None leaves that to the compiler.
      finite: bool [], whether the loss is; parameters and state stay as they are where it is not.

    Returns:
      The new parameters, the new state, and float32 []s: `learning_rate`, `grad_norm` (before clipping), and of
      each part of the tree, such as `vit`, `grad_norm/vit`, `update_norm/vit` and `param_norm/vit` (before the
      update).
    """
    grads, params = stacks.together(grads, shardings), stacks.together(learning, shardings)
    grad_norm = global_norm(grads)
    measured = {"grad_norm": grad_norm, **norms("grad_norm", grads), **norms("param_norm", params)}
    if self.clip_norm is not None:
      # One factor for all: optax's own clipping is a choice at every element, which costs a pass through memory more.
      scale = jnp.minimum(1.0, self.clip_norm / jnp.maximum(grad_norm, 1e-30))
      grads = jax.tree.map(lambda grad: grad * scale.astype(grad.dtype), grads)
    directions, new_state = [], {}
    of_stack = stacks.by_stack(params)
    for stack, part in stacks.by_stack(grads).items():
      update = stacks.each_layer(stack, self.transformation().update)
      direction, new_state[stack] = update(part, opt_state[stack], of_stack[stack])
      directions.append(direction)
    rate = self.schedule(step, total_steps)

    def scaled(direction, factor):
      factor = jnp.expand_dims(factor, range(jnp.ndim(factor), direction.ndim))  # [], or one of each layer
      return rate * factor * direction

    factors = stacks.together(multiplier_tree(learning, self.multipliers))
    updates = jax.tree.map(scaled, functools.reduce(merge, directions), factors)
    new_params = jax.tree.map(lambda param, update: (param - update).astype(param.dtype), params, updates)
    measured.update(norms("update_norm", updates), learning_rate=rate)
    # Chosen while the layers are together: one operation for all of them.
    finite &= jnp.isfinite(grad_norm)
    new_params, new_state = jax.tree.map(
      lambda new, old: jnp.where(finite, new, old), (new_params, new_state), (params, opt_state)
    )
    learning = stacks.apart(new_params, learning, shardings)
    return learning, new_state, measured


def merge(some: Params, others: Params) -> Params:
  """One tree of two that share no leaf."""
  merged = dict(some)
  for name, value in others.items():
    merged[name] = merge(merged[name], value) if name in merged else value
  return merged


def multiplier_tree(params: Params, multipliers: Sequence[tuple[str, float]]) -> Params:
  """The factor (a Python float) of each parameter's learning rate: a tree like `params`.

  Raises:
    UsageError: see `Optimizer.multipliers`.
  """
  rules = []
  for pattern, factor in multipliers:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor > 0:
      raise UsageError(
        f"Optimizer.multipliers: ({pattern!r}, {factor!r}): give a number above 0; Optimizer.frozen leaves "
        "parameters as they are"
      )
    rules.append((_pattern(pattern, "multipliers"), float(factor)))
  used = set()

  def factor_of(path, _) -> float:
    name = path_name(path)
    for index, (pattern, factor) in enumerate(rules):
      if pattern.search(name):
        used.add(index)
        return factor
    return 1.0

  tree = jax.tree_util.tree_map_with_path(factor_of, params)
  for index, (pattern, _) in enumerate(rules):
    if index not in used:
      if any(pattern.search(name) for name in _names(params)):
        raise UsageError(
          f"Optimizer.multipliers: patterns before {pattern.pattern!r} take all its parameters: "
          "put it before them"
        )
      raise _found_nowhere("multipliers", pattern, params)
  return tree


def _pattern(pattern: Any, option: str) -> re.Pattern:
  try:
    return re.compile(pattern)
  except (re.error, TypeError) as error:
    raise UsageError(f"Optimizer.{option}: {pattern!r} is no pattern: {error}") from None


def _found_nowhere(option: str, pattern: re.Pattern, params: Params) -> UsageError:
  return UsageError(
    f"Optimizer.{option}: {pattern.pattern!r} is found in no parameter's path; paths look like "
    f"{_names(params)[0]!r}"
  )


def _names(params: Params) -> list[str]:
  return [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]


def path_name(path: Sequence[Any]) -> str:
  """`decoder/layers_0/mlp/wi_0/kernel` from a path of `jax.tree_util`."""
  return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def global_norm(tree: Params) -> jax.Array:
  """The L2 norm of all leaves together, float32 []."""
  return jnp.sqrt(sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(tree)))


def norms(name: str, tree: Params) -> dict[str, jax.Array]:
  """The L2 norm of each part of a tree, float32 []: `NAME/PART`, the parts as the tree's top level calls them."""
  return {f"{name}/{part}": global_norm(below) for part, below in tree.items()}
