"""The learning rate as a function of the step."""

import dataclasses

import gin
import jax
import jax.numpy as jnp

from xmcap.errors import UsageError


@gin.configurable
@dataclasses.dataclass(frozen=True)
class WarmupThenHalving:
  """Linear warm-up, then halved again and again, as PLuGS is trained with Adam in a draft of Crossmodal-3600.

  Attributes:
    learning_rate: the rate after the warm-up.
    warmup_steps: first steps, over which the rate rises linearly from 0 (excluded).
    halve_every: after so many steps since the warm-up, and so many again, the rate is halved.
  """

  learning_rate: float = 1e-4
  warmup_steps: int = 1_000
  halve_every: int = 10_000

  def __post_init__(self):
    if self.learning_rate < 0 or self.warmup_steps < 0 or self.halve_every < 1:
      raise UsageError(
        f"{self}: give a learning_rate and warmup_steps of at least 0, and halve_every of at least 1"
      )

  def __call__(self, step: jax.Array | int, total_steps: int) -> jax.Array:
    """The learning rate of the update from `step` to `step + 1`, float32 []; it does not depend on `total_steps`."""
    done = jnp.asarray(step, jnp.float32)
    halvings = jnp.floor(jnp.maximum(done - self.warmup_steps, 0) / self.halve_every)
    risen = jnp.minimum(1.0, (done + 1) / self.warmup_steps) if self.warmup_steps else 1.0
    return jnp.float32(self.learning_rate) * risen * 0.5**halvings


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
    for name in ("learning_rate", "constant_steps", "warmup_steps", "cooldown_steps"):
      if (getattr(self, name) or 0) < 0:
        raise UsageError(f"ConstantThenRsqrt.{name} is {getattr(self, name)}: give a number >= 0")

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
