"""Runs whose MODEL_DIR is in a bucket: the same files and the same resumed bits as on a disk."""

import json
import shutil

import jax
import numpy as np
import pytest

from tests.training.test_loop import run
from xmcap.dry_run import trial_checkpoint
from xmcap.errors import UsageError
from xmcap.training.checkpoints import read
from xmcap.training.checkpoints.retention import CheckpointPolicy

FOLDER = "gs://bucket/runs/toy"
pytestmark = pytest.mark.slow
POLICY = CheckpointPolicy(every=2, keep=1, best_metric="cider")


class Evaluator:
  """Says that step 4 was best."""

  def run(self, params, step):
    yield "mean", "cider", 1.0 if step == 4 else 0.5


def train(folder, steps, **arguments):
  result, lines = run(
    folder, steps, evaluators=[Evaluator()], eval_every=4, checkpoint=POLICY, log_every=1, **arguments
  )
  return jax.device_get(result.state), lines


def inside(folder):
  """The names of the files of a run; those that Orbax writes only in a bucket, and in its own words, are left out."""
  names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
  left_out = ("%2F", "commit_success.txt", ".xmcap.lock")
  return {name for name in names if not name.endswith(left_out) and "/d/" not in name}


def test_run_in_a_bucket_saves_resumes_and_finds_damage(store, tmp_path, caplog):
  folder, disk = store.folder / "runs/toy", tmp_path / "disk"
  state, lines = train(FOLDER, 8, tensorboard=True)
  expected, _ = train(disk, 8, tensorboard=True)
  assert "starting from scratch" in lines[0]
  jax.tree.map(np.testing.assert_array_equal, state, expected)
  assert read.steps_in(read.checkpoints_dir(FOLDER)) == read.steps_in(read.checkpoints_dir(disk)) == [4, 8]
  assert read.best_step(FOLDER) == 4
  there, here = ({name for name in inside(place) if "tfevents" not in name} for place in (folder, disk))
  assert there == here and any("tfevents" in name for name in inside(folder))
  steps = [
    [json.loads(line)["step"] for line in (place / "metrics.jsonl").open()] for place in (folder, disk)
  ]
  assert steps[0] == steps[1]
  loaded = read.load_params(FOLDER, 8)
  jax.tree.map(np.testing.assert_array_equal, loaded, read.load_params(disk, 8))

  # A bit of the newest checkpoint flips, and of the next a save was cut off.
  file = max((folder / "checkpoints/8/params").glob("**/d/*"), key=lambda file: file.stat().st_size)
  data = bytearray(file.read_bytes())
  data[len(data) // 2] ^= 8
  file.write_bytes(data)
  unfinished = folder / "checkpoints/10/params"
  unfinished.mkdir(parents=True)
  (unfinished / "_METADATA").write_text("{}")
  state, lines = train(FOLDER, 10)
  assert "resuming from step 4" in lines[0] and "has changed since it was written" in caplog.text
  assert (folder / "damaged/8/params/_METADATA").exists()
  expected, _ = train(disk, 10)
  jax.tree.map(np.testing.assert_array_equal, state, expected)
  assert read.steps_in(read.checkpoints_dir(FOLDER)) == [4, 10]


@pytest.mark.parametrize("permission", ["storage.objects.create", "storage.objects.delete"])
def test_revoked_bucket_permission_ends_the_run_in_one_line(store, permission):
  folder = f"gs://bucket/{permission}"

  class Taken(Evaluator):
    def run(self, params, step):
      store.refuse(permission)
      yield from super().run(params, step)

  with pytest.raises(UsageError, match=rf"^gs://bucket: .* is refused: .* lacks {permission}"):
    run(folder, 12, evaluators=[Taken()], eval_every=4, checkpoint=POLICY)
  store.refuse()
  assert 2 in read.steps_in(read.checkpoints_dir(folder))  # what was whole before


def test_run_copied_to_a_bucket_resumes(store, tmp_path):
  expected, _ = train(tmp_path / "disk", 4)
  shutil.copytree(tmp_path / "disk", store.folder / "copied")
  jax.tree.map(np.testing.assert_array_equal, read.load_params("gs://bucket/copied"), expected.params)
  _, lines = train("gs://bucket/copied", 6)
  assert "resuming from step 4" in lines[0]


@pytest.mark.parametrize("permission", ["", "storage.objects.delete"])
def test_trial_checkpoint_in_a_bucket_is_removed(store, permission):
  folder = f"gs://bucket/dry{permission}/run"
  if permission:
    store.refuse(permission)
    with pytest.raises(UsageError, match=f"^gs://bucket: .* lacks {permission}"):
      trial_checkpoint.write_and_read(folder, 1000)
  else:
    assert "a small checkpoint was written and read" in trial_checkpoint.write_and_read(folder, 1000)
    assert store.names() == []
