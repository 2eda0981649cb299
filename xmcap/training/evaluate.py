"""The hook that runs the evaluators."""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils

from xmcap.errors import RestartError, UsageError, XmcapError, one_line
from xmcap.training.deferred import Evaluation
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import stopping, watch
from xmcap.training.metrics import summarise
from xmcap.training.reporting import metrics_file
from xmcap.training.run import Hook, Run

_ROUND = 1.0  # seconds between two questions whether the run was asked to stop


class Evaluate(Hook):
  """Runs the evaluators, and stores their results beside the checkpoint of the same step, if there is one.

  Deferred rows (`deferred.py`) are computed by process 0 while training goes on, and shown when they are there. They
  count from the next checkpoint, evaluation or end of the run on, which wait for them: so what follows from them
  depends on the step alone, and the checkpoint that is evaluated is the newest until its results are beside it.
  """

  def __init__(self, report: Callable[[Run], None], evaluators: Sequence[Any], every: int):
    """`report` is called before an evaluation."""
    self.report = report
    self.evaluators = evaluators
    self.every = every
    self._open: Evaluation | None = None
    self._is_saved = False

  def due(self, run: Run) -> bool:
    """Whether the evaluators run after this step."""
    return bool(self.evaluators) and run.every(self.every)

  def begin(self, run: Run) -> None:
    """Evaluates the checkpoint that a run resumes from, if the run ended before it could."""
    if run.step == 0 or run.saved != run.step:
      return
    if self.due(run) and not run.checkpoints.evaluated(run.step):
      self._evaluate(run)
    elif self.evaluators and self.every and jax.process_index() == 0:
      self._say_if_missing(run, run.step - run.step % self.every)

  def __call__(self, run: Run) -> None:
    if self._open is not None and self._open.wait(0) and jax.process_index() == 0:
      self._show(run, self._open)
    if self.due(run):
      self.settle(run)
      self.report(run)
      if self._open is None:
        self._evaluate(run)
      else:  # the run was asked to stop
        run.evaluation_stopped = True

  def settle(self, run: Run, until_stop: bool = True) -> None:
    """Waits for the rows of the last evaluation, which count from then on; all processes must call this.

    With `until_stop`, it gives up if the run is asked to stop; `finish` then waits again, after all is saved.
    """
    if (evaluation := self._open) is None:
      return
    began = time.monotonic()
    try:
      with watch.during("evaluation", f"scores of step {evaluation.step}"):
        while not multihost_utils.broadcast_one_to_all(np.asarray(evaluation.wait(_ROUND))):
          if until_stop:
            stopping.stop_if_asked()
    except stopping.EvaluationStopped:
      return
    finally:
      run.progress.beside("evaluating", time.monotonic() - began)
    self._open = None
    began = time.monotonic()
    is_first = jax.process_index() == 0
    outcome = json.loads(hosts.agree("evaluation", json.dumps(evaluation.outcome()) if is_first else "")[0])
    if "error" in outcome:
      kind = UsageError if outcome["is_usage"] else XmcapError
      raise self._failure(run, evaluation.step, outcome["evaluator"], kind(outcome["error"]))
    if is_first:
      self._show(run, evaluation)
    means = summarise(outcome["rows"])
    run.metrics.update(means)
    if self._is_saved:
      run.checkpoints.note_evaluation(evaluation.step, means)
    run.progress.beside("evaluating", time.monotonic() - began)

  def finish(self, run: Run) -> None:
    """Waits for the rows of the last evaluation, also if the run was stopped."""
    if self._open is not None:
      run.say(f"waiting for the scores of step {self._open.step}")
      self.settle(run, until_stop=False)

  def end(self) -> None:
    if self._open is not None:
      self._open.end()

  def _evaluate(self, run: Run) -> None:
    began = time.monotonic()
    evaluation = self._open = Evaluation(run.step, jax.process_index() == 0)
    for evaluator in self.evaluators:
      try:
        with watch.during("evaluation", f"evaluation at step {run.step}"):
          evaluation.add(type(evaluator).__name__, evaluator.run(run.state.weights, run.step))
      except stopping.EvaluationStopped:
        run.evaluation_stopped = True  # `begin` repeats the evaluation at the next start
        run.progress.beside("evaluating", time.monotonic() - began)
        evaluation.end()
        self._open = None
        return
      except RestartError:
        raise
      except Exception as error:
        raise self._failure(run, run.step, type(evaluator).__name__, error) from error
    self._is_saved = run.saved == run.step
    self._show_samples(run)
    evaluation.seconds = time.monotonic() - began
    run.progress.beside("evaluating", evaluation.seconds)
    if run.is_last or not multihost_utils.broadcast_one_to_all(np.asarray(evaluation.is_deferred)):
      self.settle(run)

  def _show(self, run: Run, evaluation: Evaluation) -> None:
    """Prints and writes the rows, once; an error is raised by `settle`, in all processes."""
    rows = evaluation.outcome().get("rows")
    if rows is not None and not evaluation.is_shown:
      evaluation.is_shown = True
      run.progress.evaluation(evaluation.step, rows, evaluation.seconds)

  def _show_samples(self, run: Run) -> None:
    """Writes the images and captions of evaluators that have `samples`."""
    for number, evaluator in enumerate(self.evaluators):
      if samples := getattr(evaluator, "samples", None):
        name = getattr(evaluator, "prefix", "").rstrip("/") or f"evaluator_{number}"
        texts = {f"captions/{name}/{place}": text for place, text in samples["texts"].items()}
        run.progress.show(run.step, texts, {f"captions/{name}": samples["images"]})

  def _say_if_missing(self, run: Run, step: int) -> None:
    """Says that the evaluation before this start has no results, as that of a run that was killed after it stopped."""
    with contextlib.suppress(Exception):  # the loop has reported a file that cannot be read
      rows = metrics_file.read(run.model_dir)
      if step and not run.checkpoints.evaluated(step) and not metrics_file.has_evaluation(rows, step):
        run.say(
          f"step {step}: no results of an evaluation, as a start ended before they were there: `xmcap eval"
          f" --step={step}` measures its checkpoint, if that is kept"
        )

  def _failure(self, run: Run, step: int, evaluator: str, error: Exception) -> XmcapError:
    """Saves what can be saved, and returns the error that ends the run in place of an evaluator's error."""
    if lost := hosts.as_lost(error):
      return lost
    if not isinstance(error, XmcapError):
      logging.error("an evaluator's error", exc_info=error)
    if jax.process_count() == 1:
      # With several processes the others would have to write their shares, and they may not have failed.
      run.checkpoints.save(run.step, run.state)
      run.saved = run.step
    run.checkpoints.wait()
    kept = f"checkpoint {run.saved} is saved" if run.saved else "no checkpoint was due yet"
    kind = UsageError if isinstance(error, UsageError) else XmcapError
    return kind(
      f"step {step}: {evaluator} failed ({one_line(error)}); {kept}: fix it, or remove it"
      " from hooks.evaluators, and start again"
    )
