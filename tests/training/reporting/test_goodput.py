"""Goodput of runs on a clock moved by hand, against shares counted on paper."""

import time

import pytest

from tests.make import files
from tests.training.test_loop import Evaluator, run
from tests.training.toy import ToyStream
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.reporting import goodput, metrics_file
from xmcap.training.reporting.goodput import KINDS, Goodput


class Clock:
  def __init__(self, now=1_760_000_000.0):
    self.now = now

  def __call__(self):
    return self.now


class Start:
  """One start of a run in a folder: 5 s until it restores, 3 s for that, 10 s for compiling."""

  def __init__(self, folder, clock, step):
    self.file, self.clock, self.step = folder / metrics_file.FILE, clock, step
    self.goodput = Goodput(clock.now - 2, clock, clock)  # imports took 2 s
    self.passes(3)
    self.goodput.phase("restoring")
    self.passes(3)
    self.goodput.phase("starting")
    self.goodput.resume(folder, step, print)
    self.goodput.phase("steps")
    self.write({"event": "started"})
    self.passes(10)
    self.goodput.spend("compiling", 10)
    self.write()

  def passes(self, seconds):
    self.clock.now += seconds

  def steps(self, count, seconds, **beside):
    """`count` steps that take `seconds` in all, and what else happened meanwhile, before the report."""
    self.passes(seconds)
    for kind, each in beside.items():
      self.passes(each)
      self.goodput.spend(kind, each)
    self.step += count
    self.write()

  def write(self, values=None):
    with open(self.file, "a") as file:
      file.write(metrics_file.line(self.step, self.clock.now, {**self.goodput.shares(), **(values or {})}))


def seconds_of(folder):
  """Kind -> seconds, of the last line that has them; only those that took any."""
  counted = [row for row in metrics_file.read(folder) if row and "goodput/seconds" in row]
  row = counted[-1]
  assert sum(row[f"goodput/{kind}"] for kind in KINDS) == pytest.approx(1)
  found = {kind: row["goodput/seconds"] * row[f"goodput/{kind}"] for kind in KINDS}
  return {kind: pytest.approx(seconds, abs=1e-3) for kind, seconds in found.items() if seconds}


def test_goodput_of_a_killed_and_resumed_run(tmp_path):
  clock = Clock()
  first = Start(tmp_path, clock, 0)
  first.steps(100, 40, saving=2)
  first.steps(100, 50, waiting_for_data=6)
  first.steps(100, 30)  # 300 steps, the last 100 of them after the checkpoint
  clock.now += (
    7 + 100
  )  # killed 7 s after the last report, which nothing recorded; and 100 s without a process
  clock.now += 2
  second = Start(tmp_path, clock, 200)
  second.steps(100, 45, evaluating=20)
  assert seconds_of(tmp_path) == {
    "steps": 40 + 50 + 45, "lost": 30, "down": 107, "starting": 2 * 5, "restoring": 2 * 3, "compiling": 2 * 10,
    "waiting_for_data": 6, "evaluating": 20, "saving": 2,
  }  # fmt: skip


def test_goodput_of_steps_lost_twice(tmp_path):
  clock = Clock()
  Start(tmp_path, clock, 0).steps(100, 40)
  second = Start(tmp_path, clock, 100)
  second.steps(100, 41)
  second.steps(100, 42)
  Start(tmp_path, clock, 200).steps(50, 20)  # 42 s lost
  third = Start(tmp_path, clock, 100)  # the checkpoint at 200 was damaged: 41 + 20 s lost as well
  third.steps(100, 43)
  found = seconds_of(tmp_path)
  assert found["lost"] == 42 + 41 + 20 and found["steps"] == 40 + 43


def test_goodput_with_a_torn_last_line(tmp_path):
  clock = Clock()
  first = Start(tmp_path, clock, 0)
  first.steps(100, 40)
  first.steps(100, 60)
  text = first.file.read_text()
  first.file.write_text(text[: text.rindex("{") + 20] + "\n")
  clock.now += 2
  Start(tmp_path, clock, 100)
  found = seconds_of(tmp_path)
  assert found["steps"] == 40 and found["down"] == 60 and "lost" not in found


def test_goodput_has_no_down_time_after_the_end(tmp_path):
  clock = Clock()
  first = Start(tmp_path, clock, 0)
  first.steps(100, 40)
  first.write({"event": "finished"})
  clock.now += 30 * 86_400  # then it was asked for more steps
  Start(tmp_path, clock, 100)
  assert "down" not in seconds_of(tmp_path)


def test_goodput_with_a_clock_set_back(tmp_path):
  clock = Clock()
  Start(tmp_path, clock, 0).steps(100, 40)
  clock.now -= 500
  Start(tmp_path, clock, 100)
  assert seconds_of(tmp_path)["steps"] == 40 and "down" not in seconds_of(tmp_path)


def test_goodput_report_during_an_evaluation():
  clock = Clock()
  counted = Goodput(None, clock, clock)
  counted.phase("steps")
  clock.now += 30
  counted.shares()
  counted.spend("evaluating", 20)
  assert counted.shares()["goodput/seconds"] == 30 and counted.seconds["evaluating"] == 20


def test_goodput_resume_without_counts_or_a_readable_file(tmp_path, monkeypatch):
  (tmp_path / metrics_file.FILE).write_text('{"step": 10, "time": 1.0, "train/loss": 2.0}\n')
  counted, said = Goodput(), []
  counted.resume(tmp_path, 10, said.append)
  assert not any(counted.seconds.values()) and not said

  def fails(folder):
    raise ConnectionError("503\nback off")

  monkeypatch.setattr(metrics_file, "read", fails)
  counted.resume(tmp_path, 10, said.append)
  (line,) = said
  assert "503" in line and "\n" not in line


def test_goodput_of_a_real_training_run(tmp_path):
  def crash(step):
    if step == 13:
      raise RuntimeError("killed")

  with pytest.raises(RuntimeError, match="killed"):
    run(tmp_path, stream=ToyStream(on_batch=crash), checkpoint=CheckpointPolicy(every=7, asynchronous=False))
  run(tmp_path, evaluators=[Evaluator()])
  found = seconds_of(tmp_path)
  assert {"steps", "lost", "down", "starting", "restoring", "compiling", "evaluating", "saving"} <= set(found)
  rows = files.rows(tmp_path / metrics_file.FILE)
  whole = rows[-1]["time"] - rows[0]["time"]
  # The first start began before its first line.
  assert whole <= rows[-2]["goodput/seconds"] + 0.1 and rows[-1]["event"] == "finished"


def test_process_start_is_within_a_day():
  assert time.time() - 86_400 < goodput.process_start() < time.time()
