import json
import os
import resource
import shutil
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.make.command import forked
from tests.training.checkpoints.test_checksums import HOSTILE
from tests.training.toy import ToyObjective, ToyStream
from xmcap.errors import UsageError, XmcapError
from xmcap.models.stacking import path_name
from xmcap.training.checkpoints import read
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.checkpoints.start import starting_state
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adafactor, adam
from xmcap.training.step import create_state

OPTIMIZER = Optimizer(adam)
KEEP_ALL = CheckpointPolicy(keep=9)


def fresh(seed=0, hidden=32, optimizer=OPTIMIZER, step=0):
  params = ToyObjective(hidden).init(jax.random.key(seed), ToyStream().batch(0))["params"]
  return create_state(params, optimizer).replace(step=jnp.int32(step))


def target_of(state):
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)


def assert_same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


def write(model_dir, steps, policy=KEEP_ALL, metrics=None):
  """Checkpoints whose parameters come from the seed = step; `metrics` holds their values of `best_metric`, or None."""
  checkpoints = Checkpoints(model_dir, policy)
  for step, value in zip(steps, metrics or [None] * len(steps), strict=True):
    checkpoints.save(step, fresh(seed=step, step=step))
    if value is not None:
      checkpoints.note_evaluation(step, {policy.best_metric: value, "other": 1.5})
  checkpoints.close()


def kept(model_dir):
  return sorted(int(path.name) for path in (model_dir / "checkpoints").iterdir())


def cut_short(checkpoint):
  """Truncates every file of the parameters' data."""
  files = [path for path in (checkpoint / "params").rglob("*") if path.is_file() and "/d/" in str(path)]
  assert files
  for path in files:
    os.truncate(path, path.stat().st_size // 2)


def begin(model_dir, state=None, **arguments):
  state = fresh() if state is None else state

  def create(given):
    def poisoned(path, leaf):
      return jnp.full_like(leaf, np.nan) if path_name(path) in given else leaf

    return state.replace(params=jax.tree_util.tree_map_with_path(poisoned, state.params))

  checkpoints = Checkpoints(model_dir)
  try:
    return starting_state(checkpoints, create, target_of(state), **arguments)
  finally:
    checkpoints.close()


def test_checkpoint_round_trip_of_train_state(tmp_path):
  state = fresh(seed=5, step=7).replace(skipped=jnp.int32(3), skipped_in_a_row=jnp.int32(2))
  checkpoints = Checkpoints(tmp_path)
  checkpoints.save(7, state)
  checkpoints.save(7, fresh())  # a second call for a step does nothing
  checkpoints.wait()
  restored = checkpoints.restore_latest(target_of(state))
  checkpoints.close()
  assert isinstance(restored, TrainState)
  assert jax.tree.structure(restored) == jax.tree.structure(state)
  assert_same(restored, state)


CIDER = {"keep": 1, "best_metric": "cider"}


@pytest.mark.parametrize(
  "starts, checkpoints, best",
  [
    ([({"keep": 2, "best_metric": "cider"}, {1: 0.1, 2: 0.9, 3: 0.2, 4: 0.3, 5: None})], [2, 4, 5], 2),
    ([({"keep": 1, "best_metric": "loss", "best_mode": "min"}, {1: 0.5, 2: 0.1, 3: 0.3})], [2, 3], 2),
    ([(CIDER, {1: 0.1, 2: 0.2})], [2], 2),
    ([(CIDER, {1: 0.9, 2: 0.2}), (CIDER, {3: 0.3, 4: 0.4})], [1, 4], 1),
    ([(CIDER, {1: 9.0}), ({"keep": 1, "best_metric": "bleu"}, {2: 0.3, 3: 0.2})], [2, 3], 2),
  ],
  ids=["newest and best", "least is best", "former best is deleted", "after a restart", "another metric"],
)
def test_newest_and_best_checkpoints_are_kept(tmp_path, starts, checkpoints, best):
  for policy, values in starts:
    write(tmp_path, values, CheckpointPolicy(**policy), list(values.values()))
  assert kept(tmp_path) == checkpoints and read.best_step(tmp_path) == best


def test_checkpoint_with_pending_evaluation_is_kept(tmp_path):
  checkpoints = Checkpoints(tmp_path, CheckpointPolicy(keep=1, best_metric="cider"))
  checkpoints.save(1, fresh(), pending=True)
  checkpoints.save(2, fresh())
  checkpoints.save(3, fresh())
  checkpoints.wait()
  assert checkpoints.steps() == [1, 3] and not checkpoints.evaluated(1)
  checkpoints.note_evaluation(1, {"cider": 0.5})
  assert checkpoints.steps() == [1, 3] and checkpoints.evaluated(1)
  checkpoints.note_evaluation(3, {"cider": 0.7})
  assert checkpoints.steps() == [3]
  checkpoints.close()


def test_partly_written_metrics_count_as_not_evaluated(tmp_path):
  policy = CheckpointPolicy(best_metric="cider")
  write(tmp_path, [1, 2], policy, [0.1, 0.2])
  note = tmp_path / "checkpoints/2/metrics/metrics"
  note.rename(note.parent / "metrics.part")
  checkpoints = Checkpoints(tmp_path, policy)
  assert checkpoints.evaluated(1) and not checkpoints.evaluated(2) and checkpoints.steps() == [1, 2]
  checkpoints.close()
  assert read.best_step(tmp_path) == 1


def test_damaged_metrics_note_is_reported_and_checkpoint_kept(tmp_path, caplog):
  policy = CheckpointPolicy(best_metric="cider")
  write(tmp_path, [1, 2], policy, [0.1, 0.2])
  note = tmp_path / "checkpoints/2/metrics/metrics"
  note.write_text(note.read_text()[:-5])
  checkpoints = Checkpoints(tmp_path, policy)
  assert not checkpoints.evaluated(2) and checkpoints.steps() == [1, 2]
  assert f"{note}: truncated or changed" in caplog.text
  checkpoints.close()


def test_best_checkpoint_ignores_non_finite_values(tmp_path, caplog):
  write(tmp_path, [1, 2], CheckpointPolicy(best_metric="cider"), [0.1, np.nan])
  assert read.best_step(tmp_path) == 1 and "cider is nan" in caplog.text


@pytest.mark.parametrize("where", ["", "checkpoints", "checkpoints/4"])
def test_load_params_from_run_checkpoints_and_step_folders(tmp_path, where):
  write(tmp_path, [3, 4])
  params = read.load_params(tmp_path / where)
  assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(params))
  assert_same(params, fresh(seed=4).params)


def test_load_params_of_a_step(tmp_path):
  write(tmp_path, [3, 4])
  assert_same(read.load_params(tmp_path, 3), fresh(seed=3).params)
  with pytest.raises(UsageError, match=r"no checkpoint of step 5: choose one of \[3, 4\]"):
    read.load_params(tmp_path, 5)
  assert read.best_step(tmp_path) is None


def test_load_params_without_a_checkpoint_is_refused(tmp_path):
  with pytest.raises(UsageError, match="no checkpoint found"):
    read.load_params(tmp_path / "nowhere")


# ---- damage --------------------------------------------------------------------------------------


def test_truncated_checkpoint_falls_back_to_the_one_before(tmp_path, caplog):
  write(tmp_path, [1, 2, 3])
  cut_short(tmp_path / "checkpoints" / "3")
  assert_same(read.load_params(tmp_path), fresh(seed=2).params)
  state, origin = begin(tmp_path)
  assert int(state.step) == 2 and "resuming from step 2" in origin
  assert "checkpoints/3/params/" in caplog.text and "when it was written" in caplog.text
  assert "taking the one before it" in caplog.text
  assert (tmp_path / "damaged" / "3" / "params").exists()
  write(tmp_path, [3])  # the run comes to that step again
  assert_same(read.load_params(tmp_path, 3), fresh(seed=3).params)


@pytest.mark.parametrize(
  "lost", ["params/_METADATA", "training/_METADATA", "params/manifest.ocdbt", "training"]
)
def test_checkpoint_with_missing_files_falls_back(tmp_path, lost):
  write(tmp_path, [1, 2])
  path = tmp_path / "checkpoints" / "2" / lost
  path.rename(tmp_path / "lost")
  assert int(begin(tmp_path)[0].step) == 1


def test_load_params_of_truncated_checkpoints_only_is_refused(tmp_path):
  write(tmp_path, [1, 2])
  for step in "12":
    cut_short(tmp_path / "checkpoints" / step)
  with pytest.raises(read.CheckpointDamaged, match=r"none of the checkpoints \[1, 2\] can be read"):
    read.load_params(tmp_path)


def test_unfinished_checkpoint_is_ignored(tmp_path):
  write(tmp_path, [1])
  (tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp").mkdir()
  assert int(begin(tmp_path)[0].step) == 1
  assert_same(read.load_params(tmp_path), fresh(seed=1).params)


def test_unfinished_checkpoint_is_deleted_on_open(tmp_path, monkeypatch):
  # A run that ends at once, by an error, would end under the thread: "cannot schedule new futures after shutdown".
  left = tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp"
  (left / "params").mkdir(parents=True)
  slow, real = threading.Event(), os.rmdir

  def rmdir(*args, **kwargs):
    slow.wait(1.0)
    return real(*args, **kwargs)

  monkeypatch.setattr(os, "rmdir", rmdir)
  before = set(threading.enumerate())
  Checkpoints(tmp_path)
  assert set(threading.enumerate()) == before and not left.exists()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
  """A run with the checkpoints 1 and 2."""
  folder = tmp_path_factory.mktemp("two")
  write(folder, [1, 2])
  return folder


WRONG_TYPES = (
  '{"item_handlers": 5, "metrics": [], "value": "1", "score": true, "performance_metrics": {"a": []}}'
)


OTHERS = {
  name: text for name, text in HOSTILE.items() if name != "nested"
}  # test_checksums.py reads them all


@pytest.mark.parametrize(
  "text",
  [WRONG_TYPES, HOSTILE["nested"], *(pytest.param(text, marks=pytest.mark.full) for text in OTHERS.values())],
  ids=["wrong types", "nested", *OTHERS],
)
@pytest.mark.parametrize("name", ["_CHECKPOINT_METADATA", "metrics/metrics", "params/crc32.json"])
def test_hostile_checkpoint_json_falls_back_or_is_ignored(tmp_path, two, name, text):
  shutil.copytree(two, tmp_path / "run")
  file = tmp_path / "run/checkpoints/2" / name
  file.parent.mkdir(exist_ok=True)
  file.write_bytes(text.encode(errors="surrogateescape"))
  state, _ = begin(tmp_path / "run")
  assert int(state.step) in ((1,) if name == "params/crc32.json" else (1, 2))


# ---- other models --------------------------------------------------------------------------------


def test_other_shape_names_the_parameter_and_both_shapes(tmp_path):
  write(tmp_path, [1])
  with pytest.raises(XmcapError, match=r"wi has shape \(16, 32\), but \(16, 40\) in this model") as error:
    begin(tmp_path, fresh(hidden=40))
  assert not isinstance(error.value, read.CheckpointDamaged)
  assert (tmp_path / "checkpoints" / "1").exists()


def test_other_optimizer_is_refused(tmp_path):
  write(tmp_path, [1])
  with pytest.raises(XmcapError, match="opt_state/.* of this model is missing"):
    begin(tmp_path, fresh(optimizer=Optimizer(adafactor)))


def test_other_parameters_are_refused(tmp_path):
  state = fresh()
  checkpoints = Checkpoints(tmp_path)
  checkpoints.save(1, state.replace(params={**state.params, "more": jnp.ones(2)}))
  checkpoints.close()
  with pytest.raises(XmcapError, match="more.* is not in this model"):
    begin(tmp_path, state)


# ---- writing -------------------------------------------------------------------------------------


def test_checkpoints_in_an_unwritable_folder_are_refused(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(XmcapError, match="cannot be written") as error:
    Checkpoints(tmp_path / "file" / "run")
  assert "\n" not in str(error.value)


def save_on_a_full_disk(folder):
  # A limit on the size of files fails the same writes as a full disk does, and needs no device of its own.
  checkpoints = Checkpoints(folder)
  kernel = np.random.default_rng(0).normal(size=(512, 512)).astype("float32")
  state = create_state({"kernel": kernel}, OPTIMIZER)
  resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
  with pytest.raises(XmcapError, match="writing failed.*is the disk full"):
    checkpoints.save(1, state)
    checkpoints.wait()
  os._exit(0)  # Python would write what it has printed


def test_full_disk_is_one_line(tmp_path):
  forked(save_on_a_full_disk, tmp_path).succeeded()


def test_checkpoint_metrics_note_is_plain_json(tmp_path):
  write(tmp_path, [1], CheckpointPolicy(best_metric="loss", best_mode="min"), [0.25])
  content = json.loads((tmp_path / "checkpoints" / "1" / "metrics" / "metrics").read_text())
  assert content == {"means": {"loss": 0.25, "other": 1.5}, "metric": "loss", "value": 0.25, "score": -0.25}
