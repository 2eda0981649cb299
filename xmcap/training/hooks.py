"""What happens beside the steps of a run: a list of hooks, each called after every step, in order.

A hook decides by the step whether it is its turn. `loop.train` lists those of a run.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
from absl import logging

from xmcap.errors import RestartError, UsageError, XmcapError, one_line
from xmcap.training.checkpoints.retention import CheckpointPolicy, SaveClock
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import watch
from xmcap.training.hosts.stopping import EvaluationStopped
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


class Save:
  """Writes checkpoints, as `CheckpointPolicy` says: before an evaluation, so that its failure loses nothing.

  Args:
    report: comes first; between two reports no checkpoint is written by time.
    evaluate: comes after; where the best checkpoint is kept, it has one to judge.
    policy: of the run.
  """

  def __init__(self, report: Report, evaluate: "Evaluate", policy: CheckpointPolicy):
    self.report = report
    self.evaluate = evaluate
    self.policy = policy
    self._clock = SaveClock(policy.minutes)

  def __call__(self, run: Run) -> None:
    evaluated = self.evaluate.due(run)
    due = run.is_last or self.policy.due(run.step) or (evaluated and self.policy.best_metric is not None)
    if due or (run.every(self.report.every) and self._clock.due()):
      self.report.now(run)
      began = time.monotonic()
      run.checkpoints.save(run.step, run.state, pending=evaluated)
      run.saved = run.step
      self._clock.restart()
      run.progress.beside("saving", time.monotonic() - began)


@dataclasses.dataclass
class Starving:
  """Warns, once, on each host whose device waits for data.

  Attributes:
    rows: pictures of a batch that this process reads.
    reads: pictures a second that it can read, see `probe.reading_rate`; 0: nobody knows.
    limit: the share of the time since the last report from which on it warns.
  """

  rows: int
  reads: float
  limit: float = 0.1
  warned: bool = False

  def __call__(self, run: Run) -> None:
    waiting = run.metrics.get("waiting_for_data", 0.0)
    if self.warned or waiting < self.limit:
      return
    self.warned = True
    wanted = self.rows * run.metrics["steps_per_second"] / max(1 - waiting, 0.01)
    reads = f"; at the start this host read {self.reads:,.0f}" if self.reads else ""
    logging.warning(
      "step %d: the device waits for data %.0f%% of the time; without that its steps take %s pictures a second%s: "
      "give the host more cores (the stream's `workers`), store smaller pictures, or take more captions of each "
      "(captions_per_image)",
      run.step, 100 * waiting, f"{wanted:,.0f}", reads,
    )  # fmt: skip


@dataclasses.dataclass
class Evaluate:
  """Runs the evaluators, and notes what they found beside the checkpoint of the same step, if there is one.

  Attributes:
    report: comes first.
    evaluators: each has `run(params, step)`, which yields rows (language, name, value).
    every: steps between two evaluations; 0: only after the last step.
    stopped: the last evaluation was left before its end, because the run was asked to stop.
  """

  report: Report
  evaluators: Sequence[Any]
  every: int
  stopped: bool = False

  def due(self, run: Run) -> bool:
    """Whether the evaluators run after this step."""
    return bool(self.evaluators) and run.every(self.every)

  def __call__(self, run: Run) -> None:
    if self.due(run):
      self.report.now(run)
      self._evaluate(run)

  def make_up(self, run: Run) -> None:
    """Runs the evaluators on the checkpoint that a run goes on from, if it was ended before they had done so."""
    if run.step > 0 and run.saved == run.step and self.due(run) and not run.checkpoints.evaluated(run.step):
      self._evaluate(run)

  def _evaluate(self, run: Run) -> None:
    began = time.monotonic()
    rows = []
    for evaluator in self.evaluators:
      try:
        with watch.during("evaluation", f"evaluation at step {run.step}"):
          rows += evaluator.run(run.state.params, run.step)
      except EvaluationStopped:
        self.stopped = True  # `make_up` begins anew at the next start
        return
      except RestartError:
        raise
      except Exception as error:
        raise self._failure(run, evaluator, error) from error
    means = run.progress.evaluation(run.step, rows, time.monotonic() - began)
    run.metrics.update(means)
    if run.saved == run.step:
      run.checkpoints.attach(run.step, means)
    run.progress.beside("evaluating", time.monotonic() - began)

  def _failure(self, run: Run, evaluator: Any, error: Exception) -> XmcapError:
    """What ends the run instead of an evaluator's error; all that can be saved is on disk then."""
    if lost := hosts.as_lost(error):
      return lost
    if not isinstance(error, XmcapError):
      logging.error("an evaluator's error", exc_info=error)
    if jax.process_count() == 1:
      # Others would have to write their shares, and may be well.
      run.checkpoints.save(run.step, run.state)
      run.saved = run.step
    run.checkpoints.wait()
    kept = f"checkpoint {run.saved} is saved" if run.saved else "no checkpoint was due before"
    kind = UsageError if isinstance(error, UsageError) else XmcapError
    return kind(
      f"step {run.step}: {type(evaluator).__name__} failed ({one_line(error)}); {kept}: mend it, or take it out"
      " of train.evaluators, and start again"
    )
