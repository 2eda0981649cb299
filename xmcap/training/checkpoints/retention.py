"""Which checkpoints a run writes, and which of them it keeps."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import gin
import jax
import numpy as np
import orbax.checkpoint as ocp

from xmcap.errors import UsageError

_policies = ocp.checkpoint_managers


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckpointPolicy:
  """Which checkpoints a run writes and keeps.

  One is written at the end in any case, and after the step at which a run is stopped.

  Attributes:
    every: steps between two checkpoints; 0: none by steps.
    minutes: one is written as well where so many have passed since the last; asked at each report (see
      `train.log_every`), by the clock of process 0. 0: none by time.
    keep: so many of the newest stay.
    keep_every: the checkpoints of each so many steps are written, and stay for ever; 0: none.
    best_metric: name of a metric of the evaluators; the checkpoint with the best value stays too, and before every
      evaluation one is written.
    best_mode: `max` or `min`.
    asynchronous: write in the background while the training goes on.
  """

  every: int = 1000
  minutes: float = 0
  keep: int = 2
  keep_every: int = 0
  best_metric: str | None = None
  best_mode: str = "max"
  asynchronous: bool = True

  def __post_init__(self):
    if self.every < 0 or self.minutes < 0 or self.keep < 1 or self.keep_every < 0:
      raise UsageError(
        f"CheckpointPolicy: every {self.every}, minutes {self.minutes:g}, keep {self.keep}, keep_every "
        f"{self.keep_every}: give keep >= 1, and the others >= 0"
      )
    if self.best_mode not in ("max", "min"):
      raise UsageError(f"CheckpointPolicy.best_mode is {self.best_mode!r}: give 'max' or 'min'")

  def due(self, step: int) -> bool:
    """Whether a checkpoint is written after a step because of its number."""
    return any(steps > 0 and step % steps == 0 for steps in (self.every, self.keep_every))

  def copies(self, total_steps: int) -> int:
    """Checkpoints that lie on the disk at most, at the end of a run: those kept, and the one that is being written."""
    for_ever = total_steps // self.keep_every if self.keep_every else 0
    return self.keep + 1 + (self.best_metric is not None) + for_ever

  def score(self, value: float) -> float:
    """A value of `best_metric` as a number that is larger for a better one."""
    return value if self.best_mode == "max" else -value


class SaveClock:
  """Says when `minutes` have passed, the same in all processes.

  Args:
    minutes: of the policy; 0: never.
    now: seconds.
  """

  def __init__(self, minutes: float, now: Callable[[], float] = time.monotonic):
    self._seconds = minutes * 60
    self._now = now
    self.restart()

  def restart(self) -> None:
    """A checkpoint is written now."""
    self._since = self._now()

  def due(self) -> bool:
    """Whether they have passed since; all processes must ask after the same step."""
    if not self._seconds:
      return False
    late = self._now() - self._since >= self._seconds
    if jax.process_count() > 1:
      from jax.experimental import multihost_utils

      # Clocks differ, and a checkpoint is written by all or by none.
      late = bool(multihost_utils.broadcast_one_to_all(np.asarray(late)))
    return late


class Retention:
  """Which checkpoints stay.

  Args:
    policy: the run's.
    scores: step -> score of those whose evaluation is known; may change later.
    pending: steps whose evaluation is still to come, which stay until it is known; may change later.
  """

  def __init__(self, policy: CheckpointPolicy, scores: Mapping[int, float], pending: Set[int]):
    kept = [_policies.LatestN(policy.keep), _BestAndPending(scores, pending)]
    if policy.keep_every:
      kept.append(_policies.EveryNSteps(policy.keep_every))
    self.orbax = _policies.AnyPreservationPolicy(kept)

  def superfluous(self, steps: Sequence[int]) -> list[int]:
    """Those of the steps, given in ascending order, whose checkpoints need not stay."""
    stay = self.orbax.should_preserve(
      [_Info(step) for step in steps], context=_policies.PreservationContext()
    )
    return [step for step, stays in zip(steps, stay, strict=True) if not stays]


@dataclasses.dataclass(frozen=True)
class _Info:
  """What Orbax' policies ask of a checkpoint here."""

  step: int


@dataclasses.dataclass
class _BestAndPending(_policies.PreservationPolicy):
  """Orbax' own `BestN` takes a metric that comes with the save alone."""

  scores: Mapping[int, float]
  pending: Set[int]

  def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
    steps = [checkpoint.step for checkpoint in checkpoints]
    best = best_of({step: self.scores[step] for step in steps if step in self.scores})
    return [step == best or step in self.pending for step in steps]


def best_of(scores: Mapping[int, float]) -> int | None:
  """The step with the highest score, the newest of equals; None where there is none."""
  return max(scores, key=lambda step: (scores[step], step), default=None)
