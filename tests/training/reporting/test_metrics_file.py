import json
import math
import threading

import pytest
from etils import epath

from tests.make import files
from xmcap.training.reporting import metrics_file
from xmcap.training.reporting.metrics_file import MetricsFile
from xmcap.training.reporting.writers import AllWriters


def rows(path):
  return files.rows(path / "metrics.jsonl")


def write(folder, *lines, **options):
  file = MetricsFile(folder, **options)
  for step, values in lines:
    file.scalars(step, values)
  file.close()


def test_metrics_file_is_flushed_after_each_line(tmp_path):
  MetricsFile(tmp_path / "new").scalars(3, {"train/loss": 1.5, "event": "started"})
  (row,) = rows(tmp_path / "new")
  assert row.pop("time") > 1.7e9 and row == {"step": 3, "train/loss": 1.5, "event": "started"}


def test_metrics_file_writes_non_finite_as_null(tmp_path):
  write(tmp_path, (1, {"train/loss": math.nan, "train/grad_norm": math.inf}))
  assert rows(tmp_path)[0]["train/loss"] is None and rows(tmp_path)[0]["train/grad_norm"] is None


def test_metrics_file_appends_after_a_torn_line(tmp_path):
  write(tmp_path, (1, {"a": 1}))
  with open(tmp_path / "metrics.jsonl", "a") as file:
    file.write('{"step": 2, "ti')
  write(tmp_path, (2, {"a": 2}))
  lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
  assert len(lines) == 3 and json.loads(lines[2])["step"] == 2


def test_metrics_file_catches_up_after_failed_writes(tmp_path):
  blocked, said = tmp_path / "run", []
  blocked.write_text("a file where the folder should be")
  file = MetricsFile(blocked)
  writers = AllWriters([file], said.append)
  for step in (1, 2):
    writers.scalars(step, {"a": step})
  writers.close()
  assert len(said) == 1 and said[0].startswith(f"{blocked}/metrics.jsonl: cannot be written")
  blocked.unlink()
  file.scalars(3, {"a": 3})
  assert [row["step"] for row in rows(blocked)] == [1, 2, 3]


class Store:
  """Objects that can be read and written whole, and nothing else."""

  def __init__(self, objects, fails=0):
    self.objects, self.fails, self.writes = objects, fails, 0

  def path(self, name):
    store = self

    class Path:
      def __truediv__(self, below):
        return store.path(f"{name}/{below}")

      def __str__(self):
        return name

      def exists(self):
        return name in store.objects

      def read_bytes(self):
        return store.objects[name]

      def write_bytes(self, data):
        store.writes += 1
        if store.writes <= store.fails:
          raise OSError(5, "the store is away")
        store.objects[name] = data

    return Path()


@pytest.fixture
def stored(monkeypatch):
  """Makes `gs://` paths those of a store with these objects."""

  def run(objects, **options):
    store = Store(objects, **options)
    monkeypatch.setattr(epath, "Path", store.path)
    return store

  return run


def test_metrics_object_keeps_existing_lines(stored):
  store = stored({"gs://bucket-b/run/metrics.jsonl": b'{"step": 1}\n{"st'})
  write("gs://bucket-b/run", *((step, {"a": 0}) for step in range(2, 50)))
  lines = store.objects["gs://bucket-b/run/metrics.jsonl"].decode().splitlines()
  assert [json.loads(line)["step"] for line in (lines[0], *lines[2:])] == [1, *range(2, 50)]
  assert store.writes == 1


def test_metrics_object_is_written_once_per_interval(stored, monkeypatch):
  store, now = stored({}), [0.0]
  monkeypatch.setattr(metrics_file.time, "monotonic", lambda: now[0])
  file = MetricsFile("gs://bucket-b/run", every=60)
  for step in range(10):
    now[0] += 25
    file.scalars(step, {"a": 0})
  assert store.writes == 3 and store.objects["gs://bucket-b/run/metrics.jsonl"].count(b"\n") == 9
  file.close()
  assert store.objects["gs://bucket-b/run/metrics.jsonl"].count(b"\n") == 10


def test_metrics_object_write_does_not_block_a_step(stored, monkeypatch):
  store, answers = stored({}), threading.Event()
  write_bytes = metrics_file.MetricsFile._rewrite
  monkeypatch.setattr(MetricsFile, "_rewrite", lambda *given: (answers.wait(60), write_bytes(*given)))
  writer = AllWriters([MetricsFile("gs://bucket-b/run", every=0)], print)
  for step in range(5):
    writer.scalars(step, {"a": 0})
  assert store.writes == 0
  answers.set()
  writer.close()
  assert store.objects["gs://bucket-b/run/metrics.jsonl"].count(b"\n") == 5


def test_metrics_object_is_written_after_a_failure(stored):
  store = stored({}, fails=1)
  file = MetricsFile("gs://bucket-b/run", every=0)
  with pytest.raises(OSError):
    file.scalars(1, {"a": 0})
  assert not store.objects
  file.close()
  assert store.objects["gs://bucket-b/run/metrics.jsonl"].count(b"\n") == 1


def test_metrics_line_format():
  assert metrics_file.line(7, 1234.56789, {"a": 1}) == '{"step": 7, "time": 1234.568, "a": 1}\n'


def test_unfinished_run_by_metrics_file(tmp_path):
  assert metrics_file.unfinished(tmp_path) is None
  write(
    tmp_path, (0, {"event": "started", "total_steps": 9}), (4, {"train/loss": 1}), (4, {"event": "stopped"})
  )
  assert metrics_file.unfinished(tmp_path) == (4, 9)
  write(tmp_path, (4, {"event": "started", "total_steps": 9}), (9, {"event": "finished"}))
  assert metrics_file.unfinished(tmp_path) is None
