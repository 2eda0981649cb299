"""The state of a run between two steps, and the base class of hooks."""

import dataclasses
import os
from collections.abc import Callable

from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.feed import Feed
from xmcap.training.metrics import TrainingProgress


@dataclasses.dataclass(frozen=True)
class Start:
  """What belongs to one start of a run, not to its configuration.

  Attributes:
    from_scratch, other_data: see `starting_state`.
    begun: called with the first step once the starting state is restored.
    say: prints a line of progress; None: to standard output, in process 0 only.
    launched: when this start began, in seconds since 1970, for its goodput; None: now.
  """

  from_scratch: bool = False
  other_data: bool = False
  begun: Callable[[int], None] = lambda step: None
  say: Callable[[str], None] | None = None
  launched: float | None = None


@dataclasses.dataclass
class Run:
  """A run as its hooks see it after a step, and as it ended.

  Attributes:
    step: steps done, of `total_steps`.
    state: the state after that step. The next step donates its arrays.
    saved: the step of the newest checkpoint; None: there is none.
    metrics: name -> value, from the last report and the last evaluation.
    evaluation_stopped: whether the last evaluation was cut short because the run was asked to stop.
    finished: whether the run reached its last step; if not, a signal stopped it, and the same command resumes it.
    message: how it ended.
  """

  model_dir: str | os.PathLike
  step: int
  total_steps: int
  state: TrainState
  feed: Feed
  progress: TrainingProgress
  checkpoints: Checkpoints
  say: Callable[[str], None]
  saved: int | None = None
  metrics: dict[str, float] = dataclasses.field(default_factory=dict)
  evaluation_stopped: bool = False
  finished: bool = False
  message: str = ""

  @property
  def is_last(self) -> bool:
    """Whether the run's last step is done."""
    return self.step == self.total_steps

  def every(self, steps: int) -> bool:
    """Whether something is due that happens every `steps` steps and after the last one; 0: only after the last."""
    return self.is_last or (steps > 0 and self.step % steps == 0)


class Hook:
  """Something that happens between steps; it decides by the step whether it is due."""

  def begin(self, run: Run) -> None:
    """Called before the first step."""

  def __call__(self, run: Run) -> None:
    """Called after each step."""

  def finish(self, run: Run) -> None:
    """Called when the run has done its last step or is stopped, after its state is saved; not after an error."""

  def end(self) -> None:
    """Called when the run ends, whatever ends it."""
