import os

import pytest

from tests.training.reporting.synthetic import START, Writer
from xmcap.errors import UsageError
from xmcap.training.reporting import history


def read(folder, now=START + 60):
  (run,), _ = history.read_runs([str(folder)], now)
  return run


def started(folder, step=0, begins=START):
  writer = Writer(folder, begins)
  writer.event(step, "started", total_steps=100, devices=2, device_kind="cpu")
  return writer


def test_run_history_has_curves_and_metadata(tmp_path):
  writer = started(tmp_path / "a")
  writer.write(10, {"train/loss": 3.0}, 5)
  writer.write(20, {"train/loss": None, "eval/cider": 0.5}, 5)
  run = read(tmp_path / "a")
  assert (run.name, run.step, run.state) == ("a", 20, "running") and run.total_steps == 100
  assert run.curve("train/loss") == ([10, 20], [3.0, None]) and run.last("train/loss") == 3.0
  assert history.names_of([run]) == ["train/loss", "eval/cider"] and run.last("speed/mfu") is None


def test_run_history_drops_steps_after_the_resumed_checkpoint(tmp_path):
  writer = started(tmp_path / "a")
  for step in (10, 20, 30):
    writer.write(step, {"train/loss": 1.0 * step}, 5)
  writer = started(tmp_path / "a", step=15, begins=START + 1000)
  writer.write(25, {"train/loss": 7.0}, 5)
  assert read(tmp_path / "a").curve("train/loss") == ([10, 25], [10.0, 7.0])


def test_run_history_merges_lines_of_a_step(tmp_path):
  writer = started(tmp_path / "a")
  writer.write(10, {"train/loss": 3.0})
  writer.write(10, {"train/loss": 2.0})
  writer.write(10, {"eval/cider": 0.5})
  assert read(tmp_path / "a").rows[0][1] == {"train/loss": 2.0, "eval/cider": 0.5}


@pytest.mark.parametrize(
  "event, later, state",
  [("finished", 1e6, "finished"), ("stopped", 1e6, "stopped"), ("failed", 1e6, "failed"), (None, 500, "running"),
   (None, 700, "silent")],
)  # fmt: skip
def test_run_state_from_events_and_silence(tmp_path, event, later, state):
  writer = started(tmp_path / "a")
  writer.write(10, {"train/loss": 3.0}, 5)
  if event:
    writer.event(10, event, **({"error": "no space"} if event == "failed" else {}))
  run = read(tmp_path / "a", writer.now + later)
  assert run.state == state and (run.reason == "no space") == (event == "failed")


def test_a_run_with_long_steps_is_not_silent_between_two_reports(tmp_path):
  writer = started(tmp_path / "a")
  writer.write(10, {"train/loss": 3.0}, 3000)
  assert read(tmp_path / "a", writer.now + 5000).state == "running"


def test_torn_and_foreign_lines_are_counted(tmp_path):
  writer = started(tmp_path / "a")
  with open(writer.path, "a") as file:
    file.write('{"step": 1, "ti\n[1]\n{"step": "x", "time": 1}\n{"step": 1, "time": NaN}\n\n')
  writer.write(10, {"train/loss": 3.0})
  run = read(tmp_path / "a")
  assert run.torn == 4 and run.step == 10


def test_run_history_without_valid_lines_uses_file_time(tmp_path):
  (tmp_path / "a").mkdir()
  (tmp_path / "a" / "metrics.jsonl").write_text("torn\n")
  os.utime(tmp_path / "a" / "metrics.jsonl", (START, START))
  assert read(tmp_path / "a", START + 60).quiet == 60


def test_run_history_best_is_least_for_losses(tmp_path):
  writer = started(tmp_path / "a")
  for step, value in ((10, 0.5), (20, 0.9), (30, 0.7)):
    writer.write(step, {"eval/cider_d": value, "eval/validation/loss": value})
  run = read(tmp_path / "a")
  assert run.best("eval/cider_d") == (0.9, 20) and run.best("eval/validation/loss") == (0.5, 10)


def test_evaluations_exclude_metrics_by_language():
  names = ["train/loss", "eval/validation/loss", "eval/cider_d", "eval/cider_d/th", "eval/cider_d/mean"]
  names += ["eval/a/mrr", "eval/a/t2i_r1", "eval/a/t2i_r1/af", "eval/a/t2i_r1/be-tarask", "eval/a/t2i_r1/xx"]
  assert history.evaluations(names) == ["validation/loss", "cider_d", "a/mrr", "a/t2i_r1"]


def test_read_runs_of_a_folder_has_distinct_names(tmp_path):
  for name in ("x/a", "x/b", "y/a"):
    started(tmp_path / name)
  runs, _ = history.read_runs([str(tmp_path / "x"), str(tmp_path / "y/a")], START)
  assert [run.name for run in runs] == ["x/a", "x/b", "y/a"]
  runs, _ = history.read_runs([str(tmp_path / "x"), str(tmp_path / "x/b")], START)
  assert [run.name for run in runs] == ["a", "b"]


def test_read_runs_names_folders_without_metrics_jsonl(tmp_path):
  started(tmp_path / "a")
  (tmp_path / "old/tensorboard").mkdir(parents=True)
  _, left_out = history.read_runs([str(tmp_path / name) for name in ("a", "old", "none")], START)
  assert "old: no metrics.jsonl" in left_out[0] and "none: no metrics.jsonl" in left_out[1]
  with pytest.raises(UsageError, match="give the MODEL_DIR of a run, or a folder of runs"):
    history.read_runs([str(tmp_path / "old")], START)
