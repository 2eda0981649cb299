"""A run between two steps, and the hooks that look at it."""

import dataclasses
import os
from collections.abc import Callable

from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.feed import Feed
from xmcap.training.metrics import Progress
from xmcap.training.step import TrainState


@dataclasses.dataclass
class Run:
  """A run as its hooks see it after a step, and as it ended.

  Attributes:
    step: steps done, of `total_steps`.
    state: after that step. The next step gives its arrays away.
    saved: the step of the newest checkpoint; None: there is none.
    metrics: name -> value, of the last report and the last evaluation.
    evaluation_stopped: the last evaluation was left before its end, because the run was asked to stop.
    finished: whether it came to its end; if not, a signal ended it, and the same command goes on.
    message: how it ended.
  """

  model_dir: str | os.PathLike
  step: int
  total_steps: int
  state: TrainState
  feed: Feed
  progress: Progress
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
    """Whether something is due that comes every so many steps, and after the last one; 0: only then."""
    return self.is_last or (steps > 0 and self.step % steps == 0)


class Hook:
  """Something that happens between steps; decides by the step whether it is its turn."""

  def begin(self, run: Run) -> None:
    """Called before the first step."""

  def __call__(self, run: Run) -> None:
    """Called after each step."""

  def end(self) -> None:
    """Called when the run ends, whatever ends it."""
