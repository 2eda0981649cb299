"""Evaluations whose rows are computed while the run trains; without such rows: test_loop.py, test_faults.py."""

import json
import multiprocessing
import os
import signal

import jax
import numpy as np
import pytest

from tests.make import files
from tests.training import late
from tests.training.test_loop import run
from xmcap.errors import XmcapError
from xmcap.reading.predictions import CheckedPredictions
from xmcap.reading.references import References
from xmcap.scoring.options import ScoringOptions
from xmcap.training.checkpoints import read, retention
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.deferred import Deferred, Evaluation, at_once
from xmcap.training.evaluate import Evaluate
from xmcap.training.hooks import hooks
from xmcap.training.run import Hook

BEST = CheckpointPolicy(every=0, keep=1, best_metric="cider")


class Late:
  """Says that step 14 was best, when the gate of the step is open."""

  def __init__(self, folder):
    self.folder, self.steps = folder, []

  def gate(self, step):
    return self.folder / f"gate{step}"

  def run(self, params, step):
    self.steps.append(step)
    yield "", "loss", step / 10
    yield Deferred(late.rows, ({"en": 0.7 if step == 14 else 0.2, "th": 1 / 3}, str(self.gate(step))))


class AtOnce(Late):
  """The same, in the process that trains."""

  def run(self, params, step):
    self.gate(step).touch()
    yield from at_once(super().run(params, step))


class At(Hook):
  """Calls a function with the run after some steps."""

  def __init__(self, **calls):
    self.calls = {int(name.removeprefix("step")): call for name, call in calls.items()}

  def __call__(self, run):
    if run.step in self.calls:
      self.calls[run.step](run)


def late_run(folder, evaluator, *more, **options):
  return run(folder, evaluators=[evaluator], more=more, **{"eval_every": 7, "checkpoint": BEST, **options})


def results(folder):
  """Step -> what was measured at it, in the order of the lines."""
  lines = files.rows(folder / "metrics.jsonl")
  return {
    line["step"]: {name: value for name, value in line.items() if name.startswith("eval/")}
    for line in lines
    if "eval/cider" in line
  }


def test_a_run_trains_on_while_rows_are_computed_and_ends_as_one_that_waits(tmp_path):
  evaluator, seen = Late(tmp_path), []

  def look(run):
    seen.append((run.checkpoints.steps(), run.checkpoints.evaluated(7), "cider" in run.metrics))
    evaluator.gate(7).touch()

  evaluator.gate(20).touch()
  opens = At(step11=look, step18=lambda run: evaluator.gate(14).touch())
  result, lines = late_run(tmp_path / "late", evaluator, opens)
  assert seen == [([7], False, False)], "training waited, or the results counted early"
  (later,) = (at for at, line in enumerate(lines) if line.startswith("step 10/20  loss"))
  (shown,) = (at for at, line in enumerate(lines) if line.startswith("step 7/20  evaluation in"))
  assert later < shown
  waiting, _ = late_run(tmp_path / "at_once", AtOnce(tmp_path))
  assert results(tmp_path / "late") == results(tmp_path / "at_once")
  assert list(results(tmp_path / "late")) == [7, 14, 20]
  assert result.metrics["cider"] == waiting.metrics["cider"] == pytest.approx((0.2 + 1 / 3) / 2)
  for folder in (tmp_path / "late", tmp_path / "at_once"):
    assert read.steps_in(folder / "checkpoints") == [14, 20] and read.best_step(folder) == 14
  for step in (14, 20):
    one, other = (read.load_params(tmp_path / name, step) for name in ("late", "at_once"))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    notes = {
      (tmp_path / name / f"checkpoints/{step}" / retention.NOTE).read_bytes() for name in ("late", "at_once")
    }
    assert len(notes) == 1


def test_late_rows_hold_no_goodput_of_a_later_step(tmp_path):
  evaluator = Late(tmp_path)
  evaluator.gate(13).touch()
  late_run(tmp_path / "run", evaluator, At(step9=lambda run: evaluator.gate(7).touch()), total_steps=13)
  lines = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
  assert [("goodput/steps" in line) for line in lines if "eval/cider" in line] == [False, True]


def test_a_checkpoint_waits_for_the_results_of_the_one_before(tmp_path):
  evaluator, seen = Late(tmp_path), []
  evaluator.gate(13).touch()

  def look(run):
    seen.append((run.checkpoints.steps(), run.checkpoints.evaluated(7)))
    evaluator.gate(7).touch()

  policy = CheckpointPolicy(every=3, keep=1, best_metric="cider", asynchronous=False)
  late_run(tmp_path / "run", evaluator, At(step8=look, step9=look), checkpoint=policy, total_steps=13)
  assert seen == [([7], False), ([7, 9], True)]


def test_a_run_that_was_killed_before_the_rows_were_there_evaluates_again(tmp_path):
  def kill(run):
    raise KeyboardInterrupt

  evaluator = Late(tmp_path)
  with pytest.raises(KeyboardInterrupt):
    late_run(tmp_path / "run", evaluator, At(step9=kill))
  assert not multiprocessing.active_children()
  for step in (7, 14, 20):
    evaluator.gate(step).touch()
  _, lines = late_run(tmp_path / "run", evaluator)
  assert "resuming from step 7" in lines[0] and not any("no results" in line for line in lines)
  assert evaluator.steps == [7, 7, 14, 20] and list(results(tmp_path / "run")) == [7, 14, 20]
  assert read.best_step(tmp_path / "run") == 14


def stop_at(step, evaluator):
  """A hook that asks the run to stop, and opens the gate of step 7 when the run waits for it after all is saved."""

  def stop(run):
    say = run.say

    def opening(line):
      say(line)
      if line == "waiting for the scores of step 7":
        say(f"saved {run.checkpoints.steps()}")
        evaluator.gate(7).touch()

    run.say = opening
    os.kill(os.getpid(), signal.SIGTERM)

  return At(**{f"step{step}": stop})


def test_a_stopped_run_saves_and_then_waits_for_the_rows(tmp_path):
  evaluator = Late(tmp_path)
  stopped, lines = late_run(tmp_path / "run", evaluator, stop_at(8, evaluator))
  assert not stopped.finished and "saved [7, 8]" in lines
  assert list(results(tmp_path / "run")) == [7] and read.best_step(tmp_path / "run") == 7


def test_a_stop_while_a_step_waits_for_rows_repeats_only_what_was_not_evaluated(tmp_path):
  evaluator = Late(tmp_path)
  made = hooks(log_every=10, evaluators=[evaluator], eval_every=7)
  stopped, lines = run(tmp_path / "run", hooks=[stop_at(14, evaluator), *made], checkpoint=BEST)
  assert not stopped.finished and evaluator.steps == [7] and "saved [7, 14]" in lines
  assert list(results(tmp_path / "run")) == [7]
  for step in (14, 20):
    evaluator.gate(step).touch()
  late_run(tmp_path / "run", evaluator)
  assert evaluator.steps == [7, 14, 20] and read.best_step(tmp_path / "run") == 14


def test_rows_that_a_start_lost_are_said_to_be_missing(tmp_path, monkeypatch):
  evaluator = Late(tmp_path)
  evaluator.gate(10).touch()
  with monkeypatch.context() as patch:  # as if the run were killed after it saved
    patch.setattr(Evaluate, "finish", lambda evaluate, run: None)
    late_run(tmp_path / "run", evaluator, stop_at(8, evaluator))
  missing = (
    "step 7: no results of an evaluation, as a start ended before they were there: `xmcap eval --step=7`"
  )
  _, lines = late_run(tmp_path / "run", evaluator, total_steps=10)
  assert any(line.startswith(missing) for line in lines)


@pytest.mark.parametrize(
  "call, message, code",
  [(late.refused, r"step 7: Fails failed \(no words\); checkpoint 14 is saved: fix it", 2),
   (late.broken, r"step 7: Fails failed \(no captions\); checkpoint 14 is saved: fix it", 1),
   (late.killed, r"step 7: Fails failed \(.* was killed \(signal 9; out of memory\?\): give the host more memory", 1)],
)  # fmt: skip
def test_a_call_that_fails_ends_the_run_in_one_line(tmp_path, call, message, code):
  class Fails:
    def run(self, params, step):
      yield Deferred(call)

  with pytest.raises(XmcapError, match=message) as error:
    run(tmp_path, evaluators=[Fails()], eval_every=7, checkpoint=CheckpointPolicy(every=0))
  assert error.value.exit_code == code
  assert not multiprocessing.active_children()


def test_captions_are_scored_as_at_once_and_without_jax():
  references = References({key: {"en": [f"a {key} dog"], "th": ["หมา ตัว หนึ่ง"]} for key in "abc"})
  predictions = CheckedPredictions({key: {"en": "a dog", "th": "หมา"} for key in "abc"})
  call = Deferred(late.scored, (references, predictions, ScoringOptions(metrics=("cider", "chrf")), "dev/"))
  evaluation = Evaluation(0, computes=True)
  evaluation.add("Captions", [call])
  rows = evaluation.outcome()["rows"]
  here = list(at_once([call]))
  assert rows[-1] == ("", "loaded", 0) and here[-1][-1] >= 2
  assert rows[:-1] == here[:-1] and ("mean", "dev/cider") in [row[:2] for row in rows]
