import json
import sys
import types

import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.training.reporting import writers
from xmcap.training.reporting.writers import AllWriters, Writers


class Broken:
  name = "broken"

  def __init__(self):
    self.calls = 0

  def scalars(self, step, values):
    self.calls += 1
    raise RuntimeError("no such bucket\nand more")


class Kept(Broken):
  def scalars(self, step, values):
    self.calls += 1

  def close(self):
    pass


def test_failing_writer_is_reported_once_and_retried():
  said, broken, kept = [], Broken(), Kept()
  both = AllWriters([broken, kept], said.append)
  both.scalars(1, {})
  both.scalars(2, {})
  both.close()
  assert (broken.calls, kept.calls) == (2, 2)
  assert said == ["broken: cannot be written (no such bucket and more); the run goes on and tries again"]


def test_writers_write_in_process_0_only(tmp_path, monkeypatch):
  monkeypatch.setattr(writers.jax, "process_index", lambda: 1)
  others = Writers().open(tmp_path / "run", print)
  others.event(0, "started")
  others.scalars(1, {"train/loss": 1.0})
  others.close()
  assert not (tmp_path / "run").exists()


class FakeRun:
  """What the writer needs of a run of wandb."""

  def __init__(self, **settings):
    self.settings, self.logged, self.defined, self.finished = settings, [], [], False
    self.config = self
    self.facts = {}

  def define_metric(self, name, step_metric):
    self.defined.append((name, step_metric))

  def log(self, values):
    self.logged.append(values)

  def update(self, facts, allow_val_change):
    self.facts.update(facts)

  def finish(self):
    self.finished = True


@pytest.fixture
def wandb(monkeypatch):
  """A stub of the package: the runs that were begun."""
  runs = []
  stub = types.ModuleType("wandb")
  stub.__spec__ = types.SimpleNamespace(name="wandb")

  def init(**settings):
    runs.append(FakeRun(**settings))
    return runs[-1]

  stub.init = init
  monkeypatch.setitem(sys.modules, "wandb", stub)
  return runs


def test_wandb_logs_every_value_with_its_step(wandb, tmp_path):
  writer = Writers(tensorboard=False, wandb="captions").open(tmp_path / "bb", print)
  writer.event(0, "started", total_steps=10)
  writer.scalars(5, {"train/loss": 2.0, "train/grad_norm": float("nan")})
  writer.close()
  (run,) = wandb
  assert run.settings["project"] == "captions" and run.settings["name"] == "bb"
  assert run.logged == [{"step": 5, "train/loss": 2.0}] and run.defined == [("*", "step")]
  assert run.facts == {"total_steps": 10} and run.finished
  assert json.loads((tmp_path / "bb/metrics.jsonl").read_text().splitlines()[1])["train/loss"] == 2.0


def test_wandb_run_id_is_kept_on_resume(wandb, tmp_path):
  for folder in ("a", "a", "b"):
    Writers(tensorboard=False, wandb="captions").open(tmp_path / folder, print).close()
  ids = [run.settings["id"] for run in wandb]
  assert ids[0] == ids[1] != ids[2] and {run.settings["resume"] for run in wandb} == {"allow"}


def test_wandb_not_installed_is_one_line(monkeypatch):
  monkeypatch.setattr(writers.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UsageError, match=r"wandb is not installed: pip install '\.\[wandb\]'"):
    Writers(wandb="captions")


def test_wandb_init_error_is_one_line(wandb, monkeypatch, tmp_path):
  def refuse(**settings):
    raise ValueError("api_key not configured (no-tty)\nmore lines")

  monkeypatch.setattr(sys.modules["wandb"], "init", refuse)
  with pytest.raises(
    XmcapError, match=r"api_key not configured \(no-tty\) more lines; log in with `wandb login`"
  ):
    Writers(wandb="captions").open(tmp_path, print)
