"""Faults injected into a run, one of each kind: it resumes bit for bit, or names the file."""

import json
import shutil
import threading

import jax
import numpy as np
import pytest

from tests.training.test_hang import end, start
from tests.training.test_loop import run
from tests.training.toy import ToyStream
from xmcap.errors import RestartError, XmcapError
from xmcap.training.checkpoints import checksums, read
from xmcap.training.checkpoints.retention import CheckpointPolicy

FILES = ("params/ocdbt.process_0/d/*", "params/crc32.json", "training/_METADATA")
OTHER_FILES = (
  "params/_METADATA", "params/manifest.ocdbt", "params/d/*", "params/crc32-0.json", "training/manifest.ocdbt",
  "training/d/*", "training/ocdbt.process_0/manifest.ocdbt",
)  # fmt: skip


@pytest.fixture(scope="module")
def half(tmp_path_factory):
  """A run of 20 steps that is at step 14, with checkpoints of 7 and 14."""
  folder = tmp_path_factory.mktemp("half")
  run(folder, 14)
  return folder


@pytest.fixture(scope="module")
def undisturbed(half, tmp_path_factory):
  folder = tmp_path_factory.mktemp("undisturbed") / "run"
  shutil.copytree(half, folder)
  return jax.device_get(run(folder)[0].state)


@pytest.fixture
def folder(half, tmp_path):
  shutil.copytree(half, tmp_path / "run")
  return tmp_path / "run"


def same_end(folder, undisturbed, **arguments):
  result, lines = run(folder, **arguments)
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(result.state), undisturbed)
  return lines


def one_file(checkpoint, pattern):
  return max(checkpoint.glob(pattern), key=lambda file: file.stat().st_size)


def flip(file, bit):
  data = bytearray(file.read_bytes())
  data[bit // 8 % len(data)] ^= 1 << bit % 8
  file.write_bytes(data)


@pytest.mark.parametrize(
  "pattern", [*FILES, *(pytest.param(pattern, marks=pytest.mark.full) for pattern in OTHER_FILES)]
)
def test_flipped_bit_in_any_checkpoint_file_is_detected(folder, undisturbed, pattern, caplog):
  file = one_file(folder / "checkpoints/14", pattern)
  flip(file, 8 * (file.stat().st_size // 2) + 3)
  assert "resuming from step 7" in same_end(folder, undisturbed)[0]
  named = file if file.name != checksums.NAME else folder / "checkpoints/14/params"
  assert str(named) in caplog.text and (folder / "damaged/14").is_dir()


def test_truncated_checkpoint_file_is_named(folder, undisturbed, caplog):
  file = folder / "checkpoints/14/_CHECKPOINT_METADATA"
  file.write_bytes(file.read_bytes()[:-9])
  assert "resuming from step 7" in same_end(folder, undisturbed)[0]
  assert str(file) in caplog.text


def test_run_with_only_damaged_checkpoints_is_refused(folder, undisturbed):
  for step in (7, 14):
    flip(one_file(folder / f"checkpoints/{step}", "params/d/*"), 77)
  with pytest.raises(
    XmcapError, match=r"none of the checkpoints \[7, 14\] can be read; they are in .*damaged"
  ):
    run(folder)
  assert not list((folder / "checkpoints").iterdir())
  with pytest.raises(XmcapError, match=r"none of the checkpoints \[7, 14\] .*--from_scratch"):
    run(folder)
  assert same_end(folder, undisturbed, from_scratch=True)[0].endswith("starting from scratch")


@pytest.mark.full
@pytest.mark.slow
def test_two_processes_refuse_damage_and_start_from_scratch(tmp_path):
  def started(where, code):
    return end(start(tmp_path / "run", where, 2), code)

  run(tmp_path / "run", 6, checkpoint=CheckpointPolicy(every=3))
  for step in (3, 6):
    flip(one_file(tmp_path / f"run/checkpoints/{step}", "params/d/*"), 77)
  for _, log in started("nowhere", 1):
    assert "none of the checkpoints [3, 6] can be read" in log and "--from_scratch" in log
  (out, _), _ = started("scratch", 0)
  assert "starting from scratch" in out and "finished at step 6" in out


def test_checkpoint_not_read_for_lack_of_memory_is_kept(folder, undisturbed, monkeypatch):
  def no_memory(*_args, **_kwargs):
    raise MemoryError("no room for it")

  with monkeypatch.context() as patch:
    patch.setattr(read.ocp.StandardCheckpointHandler, "restore", no_memory)
    with pytest.raises(XmcapError, match="though its checksums are right .*no room") as error:
      run(folder)
  assert not isinstance(error.value, read.CheckpointDamaged)
  assert "resuming from step 14" in same_end(folder, undisturbed)[0]


def test_checkpoint_without_checksums_is_read(folder, undisturbed, caplog):
  for item in ("params", "training"):
    (folder / "checkpoints/14" / item / checksums.NAME).unlink()
  assert "resuming from step 14" in same_end(folder, undisturbed)[0]
  assert "no checksums, so the files cannot be verified" in caplog.text


def test_load_params_verifies_checksums(folder):
  file = one_file(folder / "checkpoints/14", "params/ocdbt.process_0/d/*")
  flip(file, 1001)
  with pytest.raises(read.CheckpointDamaged, match=f"{file} has changed since it was written"):
    read.load_params(folder, 14)


def test_checkpoint_note_with_score_unlike_value_is_damage(tmp_path):
  class Evaluator:
    def run(self, params, step):
      yield "mean", "cider", 0.25

  run(tmp_path, 7, evaluators=[Evaluator()], checkpoint=CheckpointPolicy(every=0, best_metric="cider"))
  note = tmp_path / "checkpoints/7/metrics/metrics"
  note.write_text(json.dumps({**json.loads(note.read_text()), "score": 0.75}))
  with pytest.raises(read.CheckpointDamaged, match="checkpoints/7"):
    read.best_step(tmp_path)


@pytest.mark.parametrize("every", [9, 0], ids=["a checkpoint is due", "none is due"])
def test_failing_evaluator_loses_no_steps(folder, undisturbed, every):
  class Broken:
    def run(self, params, step):
      raise ZeroDivisionError("no captions")

  with pytest.raises(
    XmcapError, match=r"step 18: Broken failed \(no captions\); checkpoint 18 is saved"
  ) as error:
    run(folder, evaluators=[Broken()], eval_every=9, checkpoint=CheckpointPolicy(every=every))
  assert error.value.exit_code == 1
  assert "resuming from step 18" in same_end(folder, undisturbed)[0]


def test_stalled_stream_saves_and_ends_the_run_for_a_restart(folder, undisturbed):
  stuck = ToyStream(on_batch=lambda step: step == 17 and threading.Event().wait())
  with pytest.raises(RestartError, match="step 18: waited 2 s for data from ToyStream on"):
    run(folder, stream=stuck, data_timeout=2)
  assert "resuming from step 17" in same_end(folder, undisturbed)[0]


def test_a_bucket_that_stays_away_saves_and_ends_the_run_for_a_restart(
  folder, undisturbed, monkeypatch, capsys
):
  def away(step):
    if step == 17:
      raise RestartError("gs://bucket/x cannot be read (503; tried for 600 s): start again")

  with pytest.raises(RestartError, match="gs://bucket/x cannot be read"):
    run(folder, stream=ToyStream(on_batch=away))
  assert "resuming from step 17" in same_end(folder, undisturbed)[0]

  def refuse(*_):
    raise OSError("503")

  with monkeypatch.context() as patch, pytest.raises(RestartError, match="gs://bucket/x cannot be read"):
    patch.setattr(checksums, "write", refuse)  # the checkpoints are in the same bucket
    run(folder.with_name("second"), stream=ToyStream(on_batch=away), checkpoint=CheckpointPolicy(every=0))


def test_a_full_disk_ends_the_run_and_names_the_folder(folder, undisturbed, monkeypatch):
  def full(*_args, **_kwargs):
    raise OSError(28, "No space left on device")

  with monkeypatch.context() as patch:
    patch.setattr(checksums, "write", full)
    with pytest.raises(XmcapError, match=f"{folder}/checkpoints: writing failed .*No space left") as error:
      run(folder)
  assert error.value.exit_code == 1
  assert "resuming from step 14" in same_end(folder, undisturbed)[0]
