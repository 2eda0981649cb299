import dataclasses
import json
import os
import random
import signal
from dataclasses import fields
from inspect import signature

import gin
import jax
import numpy as np
import pytest

from tests.make.command import forked
from tests.training import toy
from tests.training.toy import ToyObjective, ToyStream
from xmcap.data.skipped_images import SkippedImages
from xmcap.errors import UsageError, XmcapError
from xmcap.training import feed
from xmcap.training.checkpoints import read
from xmcap.training.checkpoints.read import best_step, load_params
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.hooks import hooks
from xmcap.training.loop import train
from xmcap.training.metrics import summarise
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.reporting import metrics_file
from xmcap.training.reporting.goodput import KINDS
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start
from xmcap.training.schedule import ConstantThenRsqrt, WarmupCosine

OPTIMIZER = Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None))


def run(model_dir, total_steps=20, stream=None, tensorboard=False, **arguments):
  """Trains the toy; `arguments` are those of `train`, of `hooks` and of `Start`."""
  lines = []
  of_hooks = {name: arguments.pop(name) for name in signature(hooks).parameters if name in arguments}
  of_start = {field.name: arguments.pop(field.name) for field in fields(Start) if field.name in arguments}
  settings = {"optimizer": OPTIMIZER, "writers": Writers(tensorboard), "start": Start(say=lines.append, **of_start),
              "hooks": hooks(**{"log_every": 10, **of_hooks}), "checkpoint": CheckpointPolicy(every=7),
              **arguments}  # fmt: skip
  result = train(str(model_dir), ToyObjective(), stream or ToyStream(), total_steps, **settings)
  return result, lines


def assert_same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
  """The state of a run of 20 steps that nothing disturbs."""
  return run(tmp_path_factory.mktemp("undisturbed"))[0].state


class Evaluator:
  """Says that step 14 was best."""

  def __init__(self):
    self.steps = []

  def run(self, params, step):
    self.steps.append(step)
    yield "en", "cider", 1.0 if step == 14 else 0.2
    yield "th", "cider", 0.5 if step == 14 else 0.1


def test_train_reports_progress_and_saves(tmp_path):
  result, lines = run(tmp_path)
  assert result.finished and result.step == 20 and int(result.state.step) == 20
  assert lines[0].startswith(
    "776 parameters on data 1 x fsdp 1 x model 1 (1 cpu device on 1 host); starting from scratch"
  )
  compiling = [line for line in lines if "compil" in line]
  assert len(compiling) == 2 and compiling[0].startswith("compiling the step")
  # The tests keep what they compile.
  assert compiling[1].startswith(("compiled in", "read from the compilation cache in"))
  progress = next(line for line in lines if line.startswith("step 10/20"))
  assert all(word in progress for word in ("loss", "lr 1.00e-02", "pictures/s", "left"))
  assert_same(load_params(tmp_path), jax.device_get(result.state.params))


def test_train_reports_what_the_stream_leaves_out(tmp_path):
  stream = ToyStream()
  stream.lost = {"captions truncated at the target length": 1234}
  stream.skipped = SkippedImages("skip")
  stream.on_batch = lambda step: step == 3 and stream.skipped.add("k", XmcapError("picture 'k': cut short"))
  _, lines = run(tmp_path, 5, stream=stream)
  assert "left out: 1,234 captions truncated at the target length" in lines and "finished" in lines[-1]
  listed = (tmp_path / "skipped-pictures-0.jsonl").read_text()
  assert json.loads(listed) == {"key": "k", "reason": "picture 'k': cut short"}


def test_train_reports_the_reading_rate_of_the_host(tmp_path, monkeypatch):
  asked = []

  def reading_rate(stream, rows, start_step):
    asked.append((rows, start_step))
    return 1234.5

  monkeypatch.setattr(feed, "reading_rate", reading_rate)
  stream = ToyStream()
  stream.workers = 3
  for steps in (7, 10):
    _, lines = run(tmp_path, steps, stream=stream)
    assert lines[1] == "this host reads 1,234 pictures a second with 3 threads"
  run(tmp_path, 10, stream=stream)  # has nothing left to read
  assert asked == [(32, 0), (32, 7)]


def test_finished_run_is_not_trained_again(tmp_path):
  run(tmp_path)
  result, lines = run(tmp_path, stream=ToyStream(on_batch=lambda step: pytest.fail("read data")))
  assert result.finished and "resuming from step 20" in lines[0]


def test_resume_to_more_steps_is_bit_for_bit(tmp_path, undisturbed):
  run(tmp_path, 13)
  seen = []
  resumed, _ = run(tmp_path, 20, ToyStream(on_batch=seen.append))
  assert seen[0] == 13
  assert_same(resumed.state, undisturbed)


def test_more_steps_change_the_rate_of_a_schedule_and_that_is_said(tmp_path):
  cosine = dataclasses.replace(OPTIMIZER, schedule=WarmupCosine(0.01))
  run(tmp_path, 4, optimizer=cosine)
  _, lines = run(tmp_path, 8, optimizer=cosine)
  assert (
    "the run had 4 steps, and now has 8: by its schedule the learning rate goes on at 0.005 instead of 0"
    in lines
  )
  _, lines = run(tmp_path, 8, optimizer=cosine)
  assert not any("the run had" in line for line in lines)
  with pytest.raises(UsageError, match="too long for the run of 8 steps"):
    run(tmp_path, 8, optimizer=dataclasses.replace(OPTIMIZER, schedule=WarmupCosine(0.01, warmup_steps=8)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_save_and_the_run_resumes(tmp_path, undisturbed, number):
  before = signal.getsignal(number)

  def kill(step):
    if step == 9:
      os.kill(os.getpid(), number)

  stopped, lines = run(tmp_path, stream=ToyStream(on_batch=kill))
  assert not stopped.finished
  assert stopped.message == f"stopped by {number.name} at step 10 of 20, everything is saved"
  assert signal.getsignal(number) is before
  resumed, lines = run(tmp_path)
  assert "resuming from step 10" in lines[0]
  assert_same(resumed.state, undisturbed)


def test_non_finite_steps_past_skip_limit_stop_the_run(tmp_path):
  result, lines = run(tmp_path / "a", stream=ToyStream(bad_steps=[3, 5]))
  assert int(result.state.skipped) == 2 and any("2 non-finite steps skipped" in line for line in lines)
  assert np.isfinite(result.metrics["loss"])
  with pytest.raises(XmcapError, match=r"not finite 4 steps in a row \(hooks.skip_limit 4\)"):
    run(tmp_path / "b", stream=ToyStream(bad_steps=[8, 9, 10, 11]), skip_limit=4)
  assert read.steps_in(tmp_path / "b/checkpoints") == [7]


def test_train_keeps_and_reports_the_best_checkpoint(tmp_path):
  evaluator = Evaluator()
  policy = CheckpointPolicy(every=0, keep=1, best_metric="cider")
  result, lines = run(tmp_path, evaluators=[evaluator], eval_every=7, checkpoint=policy)
  assert evaluator.steps == [7, 14, 20]
  assert result.metrics["cider"] == pytest.approx(0.15)
  assert any(line.startswith("step 14/20  evaluation") and "cider 0.7500" in line for line in lines)
  assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["14", "20"]


def test_saves_before_it_evaluates(tmp_path):
  class Looks:
    found = []

    def run(self, params, step):
      self.found.append((step, (tmp_path / "checkpoints" / str(step)).exists()))
      yield "", "cider", 0.1

  run(tmp_path, evaluators=[Looks()], eval_every=7, checkpoint=CheckpointPolicy(every=7, asynchronous=False))
  assert Looks.found == [(7, True), (14, True), (20, True)]


def test_missed_evaluation_is_run_on_resume(tmp_path, undisturbed):
  class Killed(Evaluator):
    def run(self, params, step):
      if step == 14:
        raise KeyboardInterrupt
      return super().run(params, step)

  settings = {"eval_every": 7, "checkpoint": CheckpointPolicy(every=7, best_metric="cider")}
  with pytest.raises(KeyboardInterrupt):
    run(tmp_path, evaluators=[Killed()], **settings)
  evaluator = Evaluator()
  resumed, lines = run(tmp_path, evaluators=[evaluator], **settings)
  assert "resuming from step 14" in lines[0] and lines[1].startswith("step 14/20  evaluation")
  assert evaluator.steps == [14, 20] and best_step(tmp_path) == 14
  assert_same(resumed.state, undisturbed)
  # What was evaluated is not evaluated again.
  again = Evaluator()
  run(tmp_path, evaluators=[again], **settings)
  assert again.steps == []


def test_keep_every_and_minutes_of_checkpoint_policy(tmp_path):
  policy = CheckpointPolicy(every=0, keep=1, keep_every=6)
  run(tmp_path / "a", checkpoint=policy)
  assert sorted(path.name for path in (tmp_path / "a/checkpoints").iterdir()) == ["12", "18", "20", "6"]
  # So short a time has passed at each report.
  policy = CheckpointPolicy(every=0, minutes=1e-9, keep=9)
  run(tmp_path / "b", checkpoint=policy, log_every=8)
  assert sorted(path.name for path in (tmp_path / "b/checkpoints").iterdir()) == ["16", "20", "8"]


def test_summary_prefers_the_evaluators_own_mean():
  rows = [("en", "a", 1.0), ("th", "a", 3.0), ("en", "b", 1.0), ("mean", "b", 7.0), ("", "c", 4.0)]
  assert summarise(rows) == {"a": 2.0, "b": 7.0, "c": 4.0}


@pytest.mark.slow
def test_writes_tensorboard(tmp_path):
  run(tmp_path, tensorboard=True, evaluators=[Evaluator()])
  from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

  (file,) = (tmp_path / "tensorboard").iterdir()
  tags = {value.tag for event in EventFileLoader(str(file)).Load() for value in event.summary.value}
  assert {
    "train/loss",
    "train/learning_rate",
    "time/waiting_for_data",
    "eval/cider",
    "eval/cider/th",
  } <= tags


@pytest.mark.parametrize(
  "arguments, message",
  [({"total_steps": 0}, "must be at least 1"), ({"microbatches": 3}, "cannot be split into 3 equal microbatches"),
   ({"checkpoint": CheckpointPolicy(best_metric="cider")}, "no evaluator measures it"),
   ({"checkpoint": CheckpointPolicy(best_metric="bleu"), "evaluators": [Evaluator()]}, "measured cider"),
   ({"optimizer": Optimizer(adam, multipliers=[("text", 2.0)])}, "'text' matches no parameter")],
)  # fmt: skip
def test_invalid_train_arguments_are_refused(tmp_path, arguments, message):
  with pytest.raises(UsageError, match=message):
    run(tmp_path, **arguments)


def test_gin_sets_train_options(tmp_path):
  with gin.unlock_config():
    gin.parse_config("""
      Optimizer.clip_norm = 0.5
      ConstantThenRsqrt.learning_rate = 7e-3
      CheckpointPolicy.every = 4
      CheckpointPolicy.keep = 9
      Partitioning.extra_rules = [("mlp", "colour")]
    """)
  with pytest.raises(UsageError, match="'colour'"):
    run(tmp_path, optimizer=None, checkpoint=None)
  gin.bind_parameter("Partitioning.extra_rules", ())
  result, _ = run(tmp_path, 8, optimizer=None, checkpoint=None)
  assert result.metrics["learning_rate"] == pytest.approx(7e-3)
  assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["4", "8"]


def test_stream_error_ends_the_run_and_keeps_checkpoints(tmp_path):
  def fail(step):
    if step == 9:
      raise XmcapError("record 9 is broken")

  with pytest.raises(XmcapError, match="record 9 is broken"):
    run(tmp_path, stream=ToyStream(on_batch=fail))
  assert run(tmp_path)[1][0].endswith(f"resuming from step 7 in {tmp_path}/checkpoints")


# ---- killed from outside -------------------------------------------------------------------------


@pytest.mark.slow
def test_run_killed_repeatedly_ends_bit_for_bit(tmp_path):
  total_steps, ended, rng = 250, [], random.Random(0)
  # Undisturbed, here, where jax is imported already.
  run(tmp_path / "a", total_steps, log_every=50, checkpoint=CheckpointPolicy(every=25))
  for _ in range(30):
    number = (signal.SIGKILL, signal.SIGTERM)[len(ended) % 2] if len(ended) < 2 else None
    done = forked(toy.main, tmp_path / "b", total_steps, number, rng.uniform(0.0, 1.2))
    if done.code == -signal.SIGKILL or "stopped by SIGTERM" in done.out:
      ended.append("SIGTERM" if done.code == 0 else "SIGKILL")
    if "finished at step" in done.out:
      break
  assert {"SIGKILL", "SIGTERM"} <= set(ended), (ended, done)
  for item in ("params", "training"):
    assert (tmp_path / "b" / "checkpoints" / str(total_steps) / item).exists()
  restored = [final_state(tmp_path / name, total_steps) for name in "ab"]
  assert_same(*restored)
  shares = [row for row in metrics_file.read(tmp_path / "b") if row and "goodput/seconds" in row][-1]
  assert sum(shares[f"goodput/{kind}"] for kind in KINDS) == pytest.approx(1) and shares["goodput/down"] > 0


def final_state(model_dir, total_steps):
  """The run is over: training it again only restores, every bit of optimizer state and counters included."""
  state = run(model_dir, total_steps, stream=ToyStream(on_batch=lambda step: pytest.fail("not finished")))[
    0
  ].state
  return jax.device_get(state)


def test_fewer_steps_than_were_done_are_refused(tmp_path):
  run(tmp_path, 5)
  with pytest.raises(UsageError, match=r"TOTAL_STEPS\) is 4, but the run is already at step 5"):
    run(tmp_path, 4)
  assert [path.name for path in (tmp_path / "checkpoints").iterdir()].count("5") == 1
