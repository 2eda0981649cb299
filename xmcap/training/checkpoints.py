"""Checkpoints of a run (Orbax): writing, keeping, reading.

`MODEL_DIR/checkpoints/STEP/` holds two items: `params`, the tree of parameters by name, and `training`, the
rest of the `TrainState` (step, optimizer state, counters). The data's position is a function of the step. A
checkpoint appears under its name only when it is whole (Orbax renames it into place); each item then holds the sums of
its files (see `manifest.py`), which are compared before anything is read.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin
import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmcap.errors import UsageError, XmcapError
from xmcap.training import hosts, manifest, run_folder
from xmcap.training import optimizer as optimizer_lib
from xmcap.training.step import TrainState

PARAMS, TRAINING = "params", "training"
_policies = ocp.checkpoint_managers


class CheckpointDamaged(XmcapError):
  """A checkpoint whose files are not what was written: cut short, changed or missing."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckpointPolicy:
  """Which checkpoints a run writes and keeps.

  Attributes:
    every: steps between two checkpoints; 0 writes one only at the end.
    keep: so many of the newest stay.
    best_metric: name of a metric of the evaluators; the checkpoint with the best value stays too, and every
      evaluation writes one.
    best_mode: `max` or `min`.
    asynchronous: write in the background while the training goes on.
  """

  every: int = 1000
  keep: int = 2
  best_metric: str | None = None
  best_mode: str = "max"
  asynchronous: bool = True

  def __post_init__(self):
    if self.every < 0 or self.keep < 1:
      raise UsageError(
        f"CheckpointPolicy: every {self.every}, keep {self.keep}: give every >= 0 and keep >= 1"
      )
    if self.best_mode not in ("max", "min"):
      raise UsageError(f"CheckpointPolicy.best_mode is {self.best_mode!r}: give 'max' or 'min'")


class Checkpoints:
  """The checkpoints of one run, open for writing.

  Args:
    model_dir: the run's folder; made if absent.
    policy: what to keep.

  Raises:
    XmcapError: the folder cannot be written, or is not the same for all processes.
  """

  def __init__(self, model_dir: str | os.PathLike, policy: CheckpointPolicy | None = None):
    self.policy = policy = policy or CheckpointPolicy()
    self.directory = checkpoints_dir(model_dir)
    run_folder.check(self.directory)
    self._clear_unreadable()
    keep = [_policies.LatestN(policy.keep)]
    if policy.best_metric is not None:
      keep.append(_policies.BestN(get_metric_fn=_score, n=1, keep_checkpoints_without_metrics=False))
    options = ocp.CheckpointManagerOptions(
      preservation_policy=_policies.AnyPreservationPolicy(keep),
      save_decision_policy=_SaveWhenAsked(),
      # Without it Orbax does not write the metrics; which checkpoints stay is the policy's matter.
      best_fn=_score if policy.best_metric else None,
      enable_async_checkpointing=policy.asynchronous,
      cleanup_tmp_directories=True,
    )
    handlers = {item: manifest.SummedHandler() for item in (PARAMS, TRAINING)}
    with _readable_errors(f"checkpoints of {self.directory}"):
      self._manager = ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

  def steps(self) -> list[int]:
    """The steps of the checkpoints there are, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, state: TrainState, metric: float | None = None) -> None:
    """Writes the state of `step` (once: a second call for a step does nothing), in the background if so set.

    Args:
      step: equal to `state.step`, known here without a transfer.
      state: may be donated as soon as this returns.
      metric: the value of `best_metric`, if it was just measured.

    Raises:
      XmcapError: this write, or the one before it, failed: disk full, folder gone or not writable.
    """
    if step in self._manager.all_steps():
      return
    params, training = _items(state)
    metrics = None
    if metric is not None:
      metrics = {
        "value": float(metric),
        "score": float(metric) * (1 if self.policy.best_mode == "max" else -1),
      }
    items = ocp.args.Composite(
      **{PARAMS: manifest.SummedSave(params), TRAINING: manifest.SummedSave(training)}
    )
    with _readable_errors(f"checkpoint {step} in {self.directory}"):
      self._manager.save(step, args=items, metrics=metrics)

  def check(self) -> None:
    """Says at once, not at the next `save`, that a write in the background failed.

    Raises:
      XmcapError: as `save`.
    """
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.check_for_errors()

  def wait(self) -> None:
    """Returns when all that was saved is on disk.

    Raises:
      XmcapError: as `save`.
    """
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees what Orbax holds."""
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.close()

  def restore_latest(self, target: TrainState) -> TrainState | None:
    """The newest checkpoint that can be read, or None where there is none at all.

    A damaged one is said, moved aside to `MODEL_DIR/damaged/`, and the one before it is taken.

    Args:
      target: `jax.ShapeDtypeStruct`s with shardings, of any mesh.

    Raises:
      XmcapError: checkpoints are there, but none can be read; or parameters of other names or shapes.
    """
    steps = self.steps()
    for step in reversed(steps):
      try:
        return restore(self.directory / str(step), target)
      except CheckpointDamaged as error:
        logging.error("%s; taking the one before it", error)
        self._set_aside(step)
    if steps:
      raise XmcapError(
        f"{self.directory}: none of the checkpoints {steps} can be read; they are in {self._damaged_dir}"
      )
    return None

  @property
  def _damaged_dir(self) -> epath.Path:
    return self.directory.parent / "damaged"

  def _set_aside(self, step: int) -> None:
    # Its step will be reached again, and Orbax does not write over a checkpoint.
    if jax.process_index() == 0:
      self._move_aside(step)
    if jax.process_count() > 1:
      ocp.multihost.sync_global_processes(f"xmcap_set_aside_{step}")
    self._manager.reload()

  def _move_aside(self, step: int) -> None:
    with _readable_errors(f"damaged checkpoint {step} in {self.directory}"):
      self._damaged_dir.mkdir(exist_ok=True)
      place, number = self._damaged_dir / str(step), 1
      while place.exists():
        place, number = self._damaged_dir / f"{step}.{number}", number + 1
      (self.directory / str(step)).rename(place)

  def _clear_unreadable(self) -> None:
    """Moves aside what Orbax could not even list: its own notes on a checkpoint are of no other use."""
    if jax.process_index() == 0:
      for step in _steps_in(self.directory):
        for note in ("_CHECKPOINT_METADATA", "metrics/metrics"):
          file = self.directory / str(step) / note
          if file.exists() and not _is_json_object(file):
            logging.error("%s: cut short or changed; taking the one before it", file)
            self._move_aside(step)
            break
    hosts.barrier("folder of checkpoints read")


def _is_json_object(file: epath.Path) -> bool:
  try:
    return isinstance(json.loads(file.read_text()), dict)
  except ValueError:
    return False


def _score(metrics: dict[str, float]) -> float:
  return metrics["score"]


class _SaveWhenAsked(_policies.SaveDecisionPolicy):
  """The loop decides when to save."""

  def should_save(self, step, previous_steps, *, context) -> bool:
    return True


# ---- reading -------------------------------------------------------------------------------------


def restore(path: str | os.PathLike, target: TrainState) -> TrainState:
  """The state in one checkpoint, with the shardings of `target`, whatever mesh wrote it.

  Raises:
    CheckpointDamaged: its files are not what was written.
    XmcapError: its files cannot be read now, or its parameters or optimizer state have other names or shapes than
      `target`'s.
  """
  path = epath.Path(os.path.abspath(path)) if "://" not in str(path) else epath.Path(path)
  params, training = _items(target)
  whole = _check_whole(path, (PARAMS, TRAINING))
  for item, tree in ((PARAMS, params), (TRAINING, training)):
    check_same(flat(tree), flat(_shapes(path, item, whole)), str(path))
  restored = {}
  for item, tree in ((PARAMS, params), (TRAINING, training)):
    with _damage(path, whole):
      restored[item] = ocp.StandardCheckpointHandler().restore(
        path / item, args=ocp.args.StandardRestore(tree)
      )
  return TrainState(params=restored[PARAMS], **restored[TRAINING])


def _check_whole(path: epath.Path, items: Sequence[str], shared: bool = True) -> bool:
  """Whether the files of these items are known to be what was written; False where nothing was noted of them.

  Args:
    path: of a checkpoint.
    items: names.
    shared: all processes of the run ask, and each reads a share.

  Raises:
    CheckpointDamaged: they are not.
    XmcapError: they cannot be read now.
  """
  run = hosts.current() if shared else None
  index, count = (run.index, len(run.names)) if run else (0, 1)
  noted = [item for item in items if (path / item / manifest.NAME).exists()]
  report = ""
  try:
    for item in noted:
      if found := manifest.difference(path / item, index, count):
        report = f"damaged {found}"
        break
  except OSError as error:
    report = (
      f"unreadable {path}: cannot be read now ({error.strerror or _one_line(error)}): start again when it can"
    )
  reports = hosts.agree(f"check of checkpoint {path.name}", report) if shared else [report]
  for kind, _, text in (report.partition(" ") for report in reports if report):
    raise (CheckpointDamaged if kind == "damaged" else XmcapError)(text)
  if len(noted) < len(items):
    logging.warning("%s: no sums of its files were written; they cannot be checked", path)
  return len(noted) == len(items)


def load_params(
  model_dir: str | os.PathLike, step: int | str | None = None, log: bool = True
) -> dict[str, Any]:
  """The parameters of a run, a nested dict of numpy arrays: for evaluation, and for other runs to start from.

  Args:
    model_dir: a run's folder, its `checkpoints`, or one checkpoint.
    step: a number; `"best"` for the best by the run's metric; None for the newest that can be read.
    log: says which was read.

  Raises:
    UsageError: no such checkpoint.
    CheckpointDamaged: it, or every one, cannot be read.
  """
  root = checkpoints_dir(model_dir)
  if step is None:
    path, params = first_readable(model_dir, _read_params)
  else:
    if step == "best":
      step = best_step(model_dir)
    path = root / str(step)
    if not path.exists():
      raise UsageError(f"{root}: no checkpoint of step {step}; there are {_steps_in(root)}")
    params = _read_params(path)
  if log:
    logging.info("parameters from %s", path)
  return params


def best_step(model_dir: str | os.PathLike) -> int:
  """The step of the best checkpoint by the metric that the run kept checkpoints by.

  Raises:
    UsageError: none was kept by a metric.
  """
  root = checkpoints_dir(model_dir)
  scores = {}
  for step in _steps_in(root):
    record = root / str(step) / "metrics" / "metrics"
    if record.exists():
      with _damage(root / str(step)):
        noted = json.loads(record.read_text())
        if abs(noted["score"]) != abs(noted["value"]):
          raise ValueError(f"{record}: score {noted['score']} is not value {noted['value']}")
        scores[step] = noted["score"]
  if not scores:
    raise UsageError(
      f"{root}: no checkpoint was kept by a metric; set CheckpointPolicy.best_metric, or name a step"
    )
  return max(scores, key=lambda step: (scores[step], step))


def checkpoints_dir(model_dir: str | os.PathLike) -> epath.Path:
  """`MODEL_DIR/checkpoints`, absolute (Orbax asks for that); also where that folder itself is given."""
  path = epath.Path(os.fspath(model_dir))
  path = path if "://" in str(path) else epath.Path(os.path.abspath(path))
  return path if path.name == "checkpoints" else path / "checkpoints"


def _steps_in(root: epath.Path) -> list[int]:
  if not root.exists():
    return []
  names = [path.name for path in root.iterdir() if path.name.isdigit()]
  return sorted(int(name) for name in names if ocp.utils.is_checkpoint_finalized(root / name))


def first_readable(folder: str | os.PathLike, read: Callable[[epath.Path], Any]) -> tuple[epath.Path, Any]:
  """(path, what was read) of one checkpoint, or of the newest readable one in a run's folder."""
  path = epath.Path(os.fspath(folder))
  path = path if "://" in str(path) else epath.Path(os.path.abspath(path))
  if (path / PARAMS).exists():
    return path, read(path)
  root = checkpoints_dir(folder)
  steps = _steps_in(root)
  if not steps:
    raise UsageError(f"{folder}: no checkpoint there (looked for {path / PARAMS} and for {root}/STEP)")
  for step in reversed(steps):
    try:
      return root / str(step), read(root / str(step))
    except CheckpointDamaged as error:
      logging.error("%s; taking the one before it", error)
  raise CheckpointDamaged(f"{root}: none of the checkpoints {steps} can be read")


def _read_params(path: epath.Path) -> dict[str, Any]:
  whole = _check_whole(path, (PARAMS,), shared=False)
  shapes = _shapes(path, PARAMS, whole)
  with _damage(path, whole):
    as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
    return ocp.PyTreeCheckpointHandler().restore(
      path / PARAMS, args=ocp.args.PyTreeRestore(restore_args=as_numpy)
    )


def _shapes(path: epath.Path, item: str, whole: bool) -> Any:
  """The tree of an item, with what Orbax notes of each array (its shape) in the array's place."""
  with _damage(path, whole):
    return ocp.PyTreeCheckpointHandler().metadata(path / item).tree


def _items(state: TrainState) -> tuple[Any, dict[str, Any]]:
  rest = {
    field.name: getattr(state, field.name) for field in dataclasses.fields(state) if field.name != PARAMS
  }
  return state.params, rest


def flat(tree: Any) -> dict[str, Any]:
  """{path: leaf} of a tree; a path is `decoder/decoder_norm/scale`."""
  return {optimizer_lib.path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def check_same(
  wanted: Mapping[str, Any], given: Mapping[str, Any], where: str, allow_extra: bool = False
) -> None:
  """Compares {path: leaf} of a model and of a checkpoint by path and shape.

  Raises:
    XmcapError: naming the first that differs, with both shapes.
  """
  for path, leaf in wanted.items():
    if path not in given:
      raise XmcapError(
        f"{where}: no {path}, which this model has {_shape(leaf)}: it was made with another configuration"
      )
    if _shape(given[path]) != _shape(leaf):
      raise XmcapError(
        f"{where}: {path} has shape {_shape(given[path])}, and this model's has {_shape(leaf)}: "
        "use the configuration it was trained with, or another model_dir"
      )
  extra = sorted(set(given) - set(wanted))
  if extra and not allow_extra:
    raise XmcapError(
      f"{where}: {extra[0]} (and {len(extra) - 1} more) has no place in this model or its optimizer"
    )


def _shape(leaf: Any) -> tuple[int, ...]:
  return tuple(leaf.shape)


@contextlib.contextmanager
def _readable_errors(what: str) -> Iterator[None]:
  try:
    yield
  except XmcapError:
    raise
  except (OSError, ValueError, RuntimeError) as error:
    if lost := hosts.as_lost(error):
      raise lost from error
    raise XmcapError(
      f"{what}: writing failed ({_one_line(error)}): is the disk full, or the folder read-only?"
      " What was saved before stays"
    ) from error


@contextlib.contextmanager
def _damage(path: epath.Path, whole: bool = False) -> Iterator[None]:
  try:
    yield
  # Orbax, TensorStore and JSON each have their own errors for a file that is short or missing.
  except Exception as error:
    if lost := hosts.as_lost(error):
      raise lost from error
    if whole:
      # Whatever failed, memory or network, another checkpoint would not be read better.
      raise XmcapError(
        f"{path}: cannot be read, though its files are what was written ({_one_line(error)})"
      ) from error
    raise CheckpointDamaged(
      f"{path}: cannot be read, it was cut short or files are missing ({_one_line(error)})"
    ) from error


def _one_line(error: BaseException) -> str:
  text = " ".join(str(error).split()) or type(error).__name__
  return text if len(text) <= 200 else text[:197] + "..."
