"""Optimizers: an optax update rule, a learning-rate schedule, multipliers, clipping and freezing."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp
import numpy as np
import optax

from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.training import schedule as schedule_lib
from xmcap.training.checkpoints.train_state import Ema

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
  """Adafactor (Shazeer & Stern 2018) with learning rate 1 and t5x's defaults.

  Args:
    decay_rate: the second-moment estimate at step t decays by 1 - t^-decay_rate.
    clipping_threshold: the largest root mean square of an update; None: no limit.
    multiply_by_parameter_scale: scale each update by the root mean square of its parameter, at least 1e-3.
    min_dim_size_to_factor: factor the second moments of parameters with two dimensions of at least this size.
    momentum: decay of the running mean of updates; None: no momentum.
    weight_decay: multiplied by the learning rate; None: no weight decay.
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
    # optax returns an update to add; `Optimizer` subtracts.
    optax.scale(-1.0),
  )


@gin.configurable
def adam(
  b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0
) -> optax.GradientTransformation:
  """Adam (Kingma & Ba 2015) with learning rate 1.

  Args:
    b1, b2: decay of the first and second moments.
    eps: added to the square root of the second moment.
    weight_decay: decoupled (AdamW), multiplied by the learning rate.
  """
  decay = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
  return optax.chain(optax.scale_by_adam(b1=b1, b2=b2, eps=eps), *decay)


@gin.configurable
def rmsprop(decay: float = 0.9, eps: float = 1e-8) -> optax.GradientTransformation:
  """RMSprop (Tieleman & Hinton 2012) with learning rate 1: g / (sqrt(v) + eps), where v starts at 0.

  This is torch's RMSprop and that of Keras 1 and 2. Keras 3, and optax by default, add eps under the root.

  Args:
    decay: v, the mean square of the gradient, decays by this (Keras: rho, torch: alpha).
    eps: added to the root of v.
  """
  return optax.scale_by_rms(decay=decay, eps=eps, initial_scale=0.0, eps_in_sqrt=False)


@gin.configurable
def sgd(momentum: float = 0.0) -> optax.GradientTransformation:
  """Gradient descent with learning rate 1.

  Args:
    momentum: share of the last update that is added to the gradient, as in torch; 0: none.
  """
  return optax.trace(momentum) if momentum else optax.identity()


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer:
  """Turns gradients into new parameters: an update rule, a schedule, multipliers, L2, clipping and freezing.

  Patterns are matched by `re.search` against a parameter's path, such as `decoder/layers_0/mlp/wi_0/kernel`. The layers
  of a stack are one array, `decoder/layers/mlp/wi_0/kernel`, but a pattern may name a single layer. A pattern without
  effect is an error.

  Attributes:
    transformation: makes the optax rule with learning rate 1: `adafactor`, `adam`, `rmsprop` or `sgd`. Each layer of a
      stack has its own.
    schedule: (step, total_steps) -> learning rate. It depends on the step alone, so skipped updates do not shift it.
    multipliers: (pattern, number) pairs. The first match multiplies a parameter's learning rate; without one it is
      unchanged.
    frozen: patterns of parameters that do not learn. They have no gradients and no optimizer state, unless other layers
      of their stack learn.
    l2: weight of half the squared L2 norm of the parameters that learn, a term of the loss whose gradient, `l2` times
      the parameters, is added before clipping (torch's `weight_decay` of Adam and SGD). It is reported without it.
    clip_norm: gradients are scaled down to this global L2 norm; None: no clipping, as in t5x.
    ema_decay: how much of the exponential moving average (EMA) of the weights stays at an update, such as 0.9999. The
      run is then evaluated by its EMA, which takes the memory of one more copy of the weights. 0 or None: no EMA.
  """

  transformation: Callable[[], optax.GradientTransformation] = adafactor
  # A factory, because defaults are evaluated before gin has read its files.
  schedule: Schedule = dataclasses.field(default_factory=schedule_lib.ConstantThenRsqrt)
  multipliers: Sequence[tuple[str, float]] = ()
  frozen: Sequence[str] = ()
  clip_norm: float | None = None
  ema_decay: float | None = 0.0
  l2: float = 0.0

  def __post_init__(self):
    if isinstance(self.l2, bool) or not isinstance(self.l2, int | float) or not 0 <= self.l2 < math.inf:
      raise UsageError(f"Optimizer.l2 is {self.l2!r}: give a number of at least 0, such as 1e-5")
    decay = self.ema_decay or 0.0
    if isinstance(decay, bool) or not isinstance(decay, int | float) or not 0 <= decay < 1:
      raise UsageError(
        f"Optimizer.ema_decay (EMA_DECAY) is {decay!r}: give a number above 0 and below 1, such as 0.9999, or 0 for no"
        " EMA"
      )

  def split(self, params: Params) -> tuple[Params, Params]:
    """Splits parameters into those that learn and the frozen ones; `merge` joins them again."""
    factors = _factors(params, self._frozen_rules(), "frozen")
    flat = stacking.flatten(params)
    learning = {path: leaf for path, leaf in flat.items() if np.any(factors[path])}
    frozen = {path: leaf for path, leaf in flat.items() if path not in learning}
    if not learning:
      raise UsageError("Optimizer.frozen freezes every parameter: nothing is left to learn")
    return stacking.nested(learning), stacking.nested(frozen)

  def init(self, learning: Params) -> optax.OptState:
    """The optimizer state for the `learning` parameters of `split`. UsageError if a multiplier has no effect."""
    self._rates(learning)
    return self._rule(learning).init(learning)

  def update(
    self, grads: Params, opt_state: optax.OptState, learning: Params, step: jax.Array, total_steps: int
  ) -> tuple[Params, optax.OptState, dict[str, jax.Array]]:
    """One update of the parameters that learn.

    Returns:
      The new parameters, the new state, and metrics, float32 []: `learning_rate`, `grad_norm` (before clipping), and
      for each part of the tree, such as `vit`, `grad_norm/vit`, `update_norm/vit` and `param_norm/vit` (before the
      update).
    """
    if self.l2:
      grads = cast(Params, jax.tree.map(lambda grad, value: grad + self.l2 * value, grads, learning))
    measured = {
      "grad_norm": optax.tree.norm(grads),
      **_norms("grad_norm", grads),
      **_norms("param_norm", learning),
    }
    if self.clip_norm is not None:
      clipped, _ = optax.clip_by_global_norm(self.clip_norm).update(grads, optax.EmptyState())
      grads = cast(Params, clipped)
    directions, opt_state = self._rule(learning).update(grads, opt_state, learning)
    rate = self.schedule(step, total_steps)
    updates = jax.tree.map(
      lambda direction, factor: -rate * factor * direction, directions, self._rates(learning)
    )
    measured |= {"learning_rate": rate, **_norms("update_norm", updates)}
    return cast(Params, optax.apply_updates(learning, updates)), opt_state, measured

  def average(self, ema: Ema, learning: Params) -> Ema:
    """The EMA after one more update, which made the `learning` parameters.

    The decay is min(ema_decay, (1 + n) / (10 + n)) after n updates, as in TensorFlow's `ExponentialMovingAverage` with
    `num_updates` and by default in Hugging Face's diffusers, so that the EMA of a short run forgets where it began.
    """
    assert self.ema_decay
    decay = jnp.minimum(jnp.float32(self.ema_decay), (1 + ema.count) / (10 + ema.count))
    averaged = optax.incremental_update(cast(optax.Params, learning), ema.params, 1 - decay)
    return Ema(ema.count + 1, averaged)

  def _rule(self, learning: Params) -> optax.GradientTransformation:
    """The rule for all parameters. It treats each layer of a stack as a parameter of its own, with its own scale."""

    def label(path: Sequence[Any], leaf: Any) -> str:
      return f"layers_{leaf.shape[0]}" if stacking.is_stacked(stacking.path_name(path)) else "single"

    labels = jax.tree_util.tree_map_with_path(label, learning)
    rule = self.transformation()
    rules = {label: rule if label == "single" else _each_layer(rule) for label in jax.tree.leaves(labels)}
    return optax.partition(rules, labels)

  def _rates(self, learning: Params) -> Params:
    """The learning-rate multiplier of each parameter: a number, or an array [layers, 1, ...] for a stack."""
    rules = []
    for pattern, factor in self.multipliers:
      if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor > 0:
        raise UsageError(
          f"Optimizer.multipliers: ({pattern!r}, {factor!r}): give a number above 0, or freeze the parameters with"
          " Optimizer.frozen"
        )
      rules.append((_pattern(pattern, "multipliers"), float(factor)))
    factors = _factors(learning, rules, "multipliers")
    stays = _factors(learning, self._frozen_rules(), None)
    return stacking.nested({path: factors[path] * stays[path] for path in factors})

  def _frozen_rules(self) -> list[tuple[re.Pattern, float]]:
    return [(_pattern(pattern, "frozen"), 0.0) for pattern in self.frozen]


def _each_layer(rule: optax.GradientTransformation) -> optax.GradientTransformation:
  return optax.GradientTransformation(jax.vmap(rule.init), jax.vmap(rule.update))


def _factors(
  params: Params, rules: Sequence[tuple[re.Pattern, float]], option: str | None
) -> dict[str, float | np.ndarray]:
  """The factor of each parameter by its path: that of the first matching pattern, else 1.

  It is an array [layers, 1, ...] where the layers of a stack differ. A pattern without effect raises a UsageError that
  names `option`, unless that is None.
  """
  decided, seen = set(), set()

  def factor_of(*names: str) -> float:
    matches = [index for index, (pattern, _) in enumerate(rules) if any(map(pattern.search, names))]
    seen.update(matches)
    decided.update(matches[:1])
    return rules[matches[0]][1] if matches else 1.0

  factors = {}
  for path, leaf in stacking.flatten(params).items():
    layers = stacking.one_by_one(path, np.shape(leaf)[0] if np.ndim(leaf) else 0, lambda n: n)
    own = [factor_of(path, name) for name in layers] or [factor_of(path)]
    # A single number where possible, which costs nothing in the compiled step.
    same = len(set(own)) == 1
    factors[path] = own[0] if same else np.array(own, np.float32).reshape(-1, *[1] * (np.ndim(leaf) - 1))
  for index, (pattern, _) in enumerate(rules):
    # For `frozen` the order of the patterns does not matter, so a match is enough.
    if option and index not in (seen if option == "frozen" else decided):
      raise UsageError(
        f"Optimizer.{option}: {pattern.pattern!r} matches no parameter, or only some that an earlier pattern matches;"
        f" paths look like {min(factors)!r}"
      )
  return factors


def _pattern(pattern: Any, option: str) -> re.Pattern:
  try:
    return re.compile(pattern)
  except (re.error, TypeError) as error:
    raise UsageError(f"Optimizer.{option}: {pattern!r} is not a regular expression: {error}") from None


def _norms(name: str, tree: Params) -> dict[str, jax.Array]:
  """The L2 norm of each top-level part of a tree, float32 [], as `NAME/PART`."""
  return {f"{name}/{part}": optax.tree.norm(below) for part, below in tree.items()}
