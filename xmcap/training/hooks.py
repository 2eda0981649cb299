"""What happens beside the steps of a run: a list of hooks, each called after every step, in order.

A hook decides by the step whether it is its turn. `loop.train` lists those of a run.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from xmcap.errors import UsageError, XmcapError
from xmcap.training.checkpoints import Checkpoints
from xmcap.training.metrics import Progress
from xmcap.training.step import TrainState


@dataclasses.dataclass
class Run:
  """A run as its hooks see it after a step.

  Attributes:
    step: steps done.
    total_steps: of the whole run.
    state: after that step. The next step gives its arrays away.
    progress: collects the steps' metrics.
    checkpoints: of the run.
    saved: the step of the newest checkpoint; None: there is none.
    metrics: name -> value, of the last report and the last evaluation.
  """

  step: int
  total_steps: int
  state: TrainState
  progress: Progress
  checkpoints: Checkpoints
  saved: int | None = None
  metrics: dict[str, float] = dataclasses.field(default_factory=dict)

  @property
  def is_last(self) -> bool:
    """Whether the run's last step is done."""
    return self.step == self.total_steps

  def every(self, steps: int) -> bool:
    """Whether something is due that comes every so many steps, and after the last one; 0: only then."""
    return self.is_last or (steps > 0 and self.step % steps == 0)


Hook = Callable[[Run], None]


class Report:
  """Says how the run goes, and ends it when nothing is learned any more.

  Args:
    every: steps between two reports.
    skip_limit: the run ends after so many steps in a row whose loss or gradient is not finite.
  """

  def __init__(self, every: int, skip_limit: int):
    self.every = every
    self.skip_limit = skip_limit
    self._last: int | None = None

  def __call__(self, run: Run) -> None:
    if run.every(self.every):
      self.now(run)

  def now(self, run: Run) -> None:
    """Reports the steps since the last report; once for a step.

    Raises:
      XmcapError: too many steps in a row were not finite.
    """
    if self._last == run.step:
      return
    self._last = run.step
    run.metrics.update(run.progress.report(run.step))
    skipped = int(run.metrics["skipped_in_a_row"])
    if skipped >= self.skip_limit:
      raise XmcapError(
        f"step {run.step}: loss or gradient was not finite {skipped} steps in a row "
        f"(train.skip_limit {self.skip_limit}): lower the learning rate; "
        f"the newest checkpoint is of step {run.saved or 0}"
      )


@dataclasses.dataclass
class Evaluate:
  """Runs the evaluators.

  Attributes:
    report: comes first.
    evaluators: each has `run(params, step)`, which yields rows (language, name, value).
    every: steps between two evaluations; 0: only after the last step.
  """

  report: Report
  evaluators: Sequence[Any]
  every: int

  def due(self, run: Run) -> bool:
    """Whether the evaluators run after this step."""
    return bool(self.evaluators) and run.every(self.every)

  def __call__(self, run: Run) -> None:
    if not self.due(run):
      return
    self.report.now(run)
    began = time.monotonic()
    rows = [row for evaluator in self.evaluators for row in evaluator.run(run.state.params, run.step)]
    run.metrics.update(run.progress.evaluation(run.step, rows, time.monotonic() - began))
    run.progress.away(time.monotonic() - began)


@dataclasses.dataclass
class Save:
  """Writes checkpoints, as `CheckpointPolicy` says.

  Attributes:
    report: comes first.
    evaluate: where the best checkpoint is kept, each evaluation is followed by a checkpoint with its value.
  """

  report: Report
  evaluate: Evaluate

  def __call__(self, run: Run) -> None:
    policy = run.checkpoints.policy
    best = self.evaluate.due(run) and policy.best_metric is not None
    if not run.every(policy.every) and not best:
      return
    self.report.now(run)
    began = time.monotonic()
    value = best_value(run.metrics, policy.best_metric) if best else None
    run.checkpoints.save(run.step, run.state, value)
    run.saved = run.step
    run.progress.away(time.monotonic() - began)


def best_value(metrics: dict[str, float], name: str) -> float:
  """The metric by which the best checkpoint is known.

  Raises:
    UsageError: no evaluator measured it.
  """
  if name not in metrics:
    raise UsageError(
      f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {', '.join(sorted(metrics))}"
    )
  return metrics[name]
