"""The learning rate as a function of the step."""

import dataclasses
import math
from typing import Any

import gin
import jax
import jax.numpy as jnp
import optax

from xmcap.errors import UsageError

_LARGEST = 1e30


@gin.configurable
@dataclasses.dataclass(frozen=True)
class WarmupStepDecay:
  """Linear warm-up, then times a factor after every so many steps, as `optax.exponential_decay(staircase=True)`.

  The defaults are those of the plain and consistent PLuGS models in section 3.3 and Table 4 of a draft of
  Crossmodal-3600. It does not say whether the rate falls at once or bit by bit, nor from which step on: here at once,
  every `every` steps after the warm-up.

  Attributes:
    learning_rate: the rate after the warm-up.
    warmup_steps: first steps, over which the rate rises linearly from 0 (excluded).
    factor: what the rate is multiplied by, from 0 to 1.
    every: steps between two such changes; `@every/epochs()` gives those of `every/epochs.count` epochs.
  """

  learning_rate: float = 1e-4
  warmup_steps: int = 16_000
  factor: float = 0.5
  every: int = 150_000

  def __post_init__(self):
    _check(self, "learning_rate", "warmup_steps", "every")
    _check(self, "factor", most=1)
    if self.every < 1:
      raise UsageError(f"WarmupStepDecay.every is {self.every!r}: give a number of at least 1")

  def __call__(self, step: jax.Array | int, total_steps: int) -> jax.Array:
    """The learning rate of the update from `step` to `step + 1`, float32 []; it does not depend on `total_steps`."""
    done = jnp.asarray(step, jnp.float32)
    changes = jnp.floor(jnp.maximum(done - self.warmup_steps, 0) / self.every)
    risen = jnp.minimum(1.0, (done + 1) / self.warmup_steps) if self.warmup_steps else 1.0
    return jnp.float32(self.learning_rate) * risen * jnp.float32(self.factor) ** changes


@gin.configurable
@dataclasses.dataclass(frozen=True)
class ConstantThenRsqrt:
  """Constant, then times sqrt(constant_steps / step): the schedule of T5 and of Crossmodal-3600 (section 3.2).

  Attributes:
    learning_rate: the constant rate.
    constant_steps: steps before the decay begins; 0 or None: no decay.
    warmup_steps: first steps, over which the rate rises linearly from 0 (excluded).
    cooldown_steps: last steps, over which the rate falls linearly to 0 (excluded).
  """

  learning_rate: float = 1e-3
  constant_steps: int | None = 10_000
  warmup_steps: int = 0
  cooldown_steps: int = 0

  def __post_init__(self):
    constant = () if self.constant_steps is None else ("constant_steps",)
    _check(self, "learning_rate", *constant, "warmup_steps", "cooldown_steps")

  def __call__(self, step: jax.Array | int, total_steps: int) -> jax.Array:
    """The learning rate of the update from `step` to `step + 1`, float32 [], in a run of `total_steps`."""
    done = jnp.asarray(step, jnp.float32)
    rate = jnp.float32(self.learning_rate)
    if self.constant_steps:
      rate *= jnp.sqrt(self.constant_steps / jnp.maximum(done, self.constant_steps))
    if self.warmup_steps:
      rate *= jnp.minimum(1.0, (done + 1) / self.warmup_steps)
    if self.cooldown_steps:
      rate *= jnp.clip((total_steps - done) / self.cooldown_steps, 0.0, 1.0)
    return rate


@gin.configurable
@dataclasses.dataclass(frozen=True)
class WarmupCosine:
  """Linear warm-up, then half a cosine down to the end of the run: `optax.warmup_cosine_decay_schedule`.

  As in optax and in transformers' `get_cosine_schedule_with_warmup`, the first update has the rate 0 if there is a
  warm-up. A run that gets more steps follows the longer curve from then on, so its rate rises again.

  Attributes:
    learning_rate: the peak.
    warmup_steps: first steps, over which the rate rises linearly from 0 (included).
    final_ratio: what is left of the peak at the end of the run, from 0 to 1.
  """

  learning_rate: float = 1e-3
  warmup_steps: int = 0
  final_ratio: float = 0.0

  def __post_init__(self):
    _check(self, "learning_rate", "warmup_steps")
    _check(self, "final_ratio", most=1)

  def __call__(self, step: jax.Array | int, total_steps: int) -> jax.Array:
    """The learning rate of the update from `step` to `step + 1`, float32 [], in a run of `total_steps`.

    UsageError if the warm-up fills the run.
    """
    peak, warmup = self.learning_rate, self.warmup_steps
    _check_length(self, total_steps, {"warmup_steps": warmup}, least=1)
    rate = optax.warmup_cosine_decay_schedule(0.0, peak, warmup, total_steps, peak * self.final_ratio)
    return jnp.asarray(rate(jnp.asarray(step, jnp.float32)), jnp.float32)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class WarmupStableDecay:
  """Linear warm-up, a constant rate, and a decay over the last steps (WSD; Hu et al., "MiniCPM", 2024).

  As in transformers' `get_wsd_schedule`, but that the warm-up begins at 0 whatever `final_ratio` is. A run that gets
  more steps should go on from a checkpoint before the decay (`train.initial_checkpoint`), or its rate rises again.

  Attributes:
    learning_rate: the constant rate.
    warmup_steps: first steps, over which the rate rises linearly from 0 (included).
    decay: length of the decay: an integer is a number of steps, a number between 0 and 1 a share of the run, such as
      0.1.
    shape: of the decay: `linear`, `cosine`, or `1-sqrt` (Haegele et al. 2024).
    final_ratio: what is left of the rate at the end of the run, from 0 to 1.
  """

  learning_rate: float = 1e-3
  warmup_steps: int = 0
  decay: int | float = 0.1
  shape: str = "linear"
  final_ratio: float = 0.0

  def __post_init__(self):
    _check(self, "learning_rate", "warmup_steps", "decay")
    _check(self, "final_ratio", most=1)
    if self.shape not in _SHAPES:
      raise UsageError(f"WarmupStableDecay.shape is {self.shape!r}: give one of {', '.join(_SHAPES)}")
    if isinstance(self.decay, float) and self.decay >= 1:
      raise UsageError(
        f"WarmupStableDecay.decay is {self.decay!r}: give a whole number of steps, such as 1000, or a share of the run"
        " below 1, such as 0.1"
      )

  def __call__(self, step: jax.Array | int, total_steps: int) -> jax.Array:
    """The learning rate of the update from `step` to `step + 1`, float32 [], in a run of `total_steps`.

    UsageError if warm-up and decay together are longer than the run.
    """
    peak, warmup = self.learning_rate, self.warmup_steps
    decay = math.ceil(self.decay * total_steps) if isinstance(self.decay, float) else self.decay
    _check_length(self, total_steps, {"warmup_steps": warmup, "decay": decay})
    phases = [optax.linear_schedule(0.0, peak, warmup), optax.constant_schedule(peak)]
    ends = [warmup]
    if decay:
      phases.append(_SHAPES[self.shape](peak, self.final_ratio, decay))
      ends.append(total_steps - decay)
    rate = optax.join_schedules(phases, ends)
    return jnp.asarray(rate(jnp.asarray(step, jnp.float32)), jnp.float32)


def _one_minus_sqrt(peak: float, final_ratio: float, steps: int) -> optax.Schedule:
  def rate(count: Any) -> jax.Array:
    left = 1 - jnp.sqrt(jnp.clip(count / steps, 0.0, 1.0))
    return peak * (final_ratio + (1 - final_ratio) * left)

  return rate


_SHAPES = {
  "linear": lambda peak, ratio, steps: optax.linear_schedule(peak, peak * ratio, steps),
  "cosine": lambda peak, ratio, steps: optax.cosine_decay_schedule(peak, steps, alpha=ratio),
  "1-sqrt": _one_minus_sqrt,
}
"""Shape of a decay -> (peak, what is left of it at the end, steps) -> schedule."""


def _check(schedule: Any, *names: str, most: float = _LARGEST) -> None:
  """UsageError if one of these attributes is no number from 0 to `most`."""
  for name in names:
    value = getattr(schedule, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
      end = "of at least 0" if most == _LARGEST else f"from 0 to {most:g}"
      raise UsageError(f"{type(schedule).__name__}.{name} is {value!r}: give a number {end}")


def _check_length(schedule: Any, total_steps: int, phases: dict[str, int], least: int = 0) -> None:
  """UsageError if the phases, by the names of their parameters, leave fewer than `least` of the run's steps."""
  if sum(phases.values()) + least > total_steps:
    name = type(schedule).__name__
    said = " and ".join(f"{name}.{parameter} ({steps:,})" for parameter, steps in phases.items() if steps)
    raise UsageError(
      f"{said}: too long for the run of {total_steps:,} steps: lower them, or raise train.total_steps (TOTAL_STEPS)"
    )


def says_of_more_steps(schedule: Any, step: int, before: int | None, now: int) -> str:
  """A line on how the rate of a run's next step changes, if its length in steps did, from `before` to `now`; or ""."""
  if before in (None, now):
    return ""
  try:
    old, new = (float(schedule(step, total)) for total in (before, now))
  except UsageError:  # the schedule of a run that was too short for it
    return ""
  if old == new:
    return ""
  return (
    f"the run had {before:,} steps, and now has {now:,}: by its schedule the learning rate goes on at {new:.3g} instead"
    f" of {old:.3g}"
  )
