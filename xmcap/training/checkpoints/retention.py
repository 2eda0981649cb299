"""Decides which checkpoints a run writes and keeps, and records the evaluations that tell which is best."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeGuard

import gin
import orbax.checkpoint as ocp

from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import small_json

NOTE = "metrics/metrics"
"""The file of a `Note` in a checkpoint, where Orbax looks for metrics."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckpointPolicy:
  """Which checkpoints a run writes and keeps. It always writes one when it ends or is stopped.

  Attributes:
    every: steps between two checkpoints; 0: none by steps.
    minutes: also write one when this much time has passed since the last, by the clock of process 0, checked at each
      report (`hooks.log_every`); 0: none by time.
    keep: number of newest checkpoints to keep.
    keep_every: write and keep forever a checkpoint every so many steps; 0: none.
    best_metric: a metric of the evaluators. A checkpoint is written before each evaluation, and the best is kept.
    best_mode: `max` or `min`.
    asynchronous: write in the background while training goes on.
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
    return any(steps > 0 and step % steps == 0 for steps in (self.every, self.keep_every))

  def copies(self, total_steps: int) -> int:
    """The largest number of checkpoints on disk, counting the one that is being written."""
    for_ever = total_steps // self.keep_every if self.keep_every else 0
    return self.keep + 1 + (self.best_metric is not None) + for_ever

  def score(self, value: float) -> float:
    """Turns a value of `best_metric` into a score that is larger for a better checkpoint."""
    return value if self.best_mode == "max" else -value


@dataclasses.dataclass(frozen=True)
class Note:
  """The value of `CheckpointPolicy.best_metric` in a finished evaluation, stored beside its checkpoint."""

  metric: str | None
  value: float | None  # None also if not finite
  score: float | None  # the value, negated if `best_mode` is `min`


def write_note(checkpoint: epath.Path, means: Mapping[str, float], note: Note) -> None:
  """Writes a note and the mean of every metric atomically."""
  finite = {name: float(value) if math.isfinite(value) else None for name, value in means.items()}
  content = {"means": finite, **dataclasses.asdict(note)}
  files.write_anywhere(checkpoint / NOTE, json.dumps(content, allow_nan=False).encode())


def read_note(checkpoint: epath.Path) -> Note | None:
  """Reads the note beside a checkpoint; None if there is none. ValueError if it is damaged."""
  file = checkpoint / NOTE
  if not file.exists():
    return None
  content = small_json.read(file)
  metric, value, score = (content.get(name) for name in ("metric", "value", "score"))
  # The note has no checksum; comparing value and score detects a flipped bit.
  same = value is score is None or (_is_number(value) and _is_number(score) and abs(value) == abs(score))
  if not isinstance(metric, str | None) or not same:
    raise ValueError(f"{file}: not a note of an evaluation, or a damaged one")
  return Note(metric, value, score)


def _is_number(value: Any) -> TypeGuard[float]:
  return type(value) in (int, float) and abs(value) < math.inf


@dataclasses.dataclass
class Retention(ocp.checkpoint_managers.PreservationPolicy):
  """Decides which checkpoints to keep. Orbax's `BestN` would need the metric when the checkpoint is saved.

  `notes` (by step) and `pending` (steps whose evaluation has not finished) change during the run.
  """

  policy: CheckpointPolicy
  notes: Mapping[int, Note]
  pending: Set[int]

  def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
    """Called by Orbax after each save."""
    steps = [checkpoint.step for checkpoint in checkpoints]
    superfluous = self.superfluous(steps)
    return [step not in superfluous for step in steps]

  def superfluous(self, steps: Sequence[int]) -> list[int]:
    """Those of `steps`, given in ascending order, whose checkpoints can be deleted."""
    metric, every = self.policy.best_metric, self.policy.keep_every
    values = {
      step: self.policy.score(note.value)
      for step, note in self.notes.items()
      if step in steps and note.value is not None and note.metric == metric
    }
    kept = {*steps[-self.policy.keep :], *self.pending, best_of(values)}
    return [step for step in steps if step not in kept and not (every and step % every == 0)]


def best_of(scores: Mapping[int, float]) -> int | None:
  """The step with the highest score, the newest if there is a tie; None if `scores` is empty."""
  return max(scores, key=lambda step: (scores[step], step), default=None)
