"""Reading checkpoints: whether their files are whole, the parameters, a state; `checkpoints.py` writes them."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.tensors import orbax as orbax_tensors
from xmcap.training import optimizer as optimizer_lib
from xmcap.training.checkpoints import retention, scores
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.checkpoints import verify as manifest
from xmcap.training.hosts import join as hosts
from xmcap.training.step import TrainState

PARAMS, TRAINING = "params", "training"


class CheckpointDamaged(XmcapError):
  """A checkpoint whose files are not what was written: cut short, changed or missing."""


def restore(
  path: str | os.PathLike,
  target: TrainState,
  settings: settings_lib.Settings | None = None,
  other_data: bool = False,
  say: Callable[[str], None] = print,
) -> TrainState:
  """The state in one checkpoint, with the shardings of `target`, whatever mesh wrote it.

  Args:
    path: of the checkpoint.
    target: `jax.ShapeDtypeStruct`s with shardings.
    settings: of the run that goes on from it, to be compared with its own before anything is read; None: of no run.
    other_data, say: see `settings.check`.

  Raises:
    CheckpointDamaged: its files are not what was written.
    UsageError: see `settings.check`.
    XmcapError: its files cannot be read now, or its parameters or optimizer state have other names or shapes than
      `target`'s.
  """
  path = epath.Path(os.path.abspath(path)) if "://" not in str(path) else epath.Path(path)
  params, training = items(target)
  whole = _check_whole(path, (PARAMS, TRAINING))
  if settings is not None:
    try:
      before = settings_lib.read(path / TRAINING)
    except ValueError as error:
      raise CheckpointDamaged(str(error)) from None
    settings_lib.check(path, before, settings, other_data, say)
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
      f"unreadable {path}: cannot be read now ({error.strerror or one_line(error)}): start again when it can"
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
      raise UsageError(f"{root}: no checkpoint of step {step}; there are {steps_in(root)}")
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
  notes = {}
  for step in steps_in(root):
    with _damage(root / str(step)):
      note = scores.read(root / str(step))
    if note is not None and note.score is not None:
      notes[step] = note
  if not notes:
    raise UsageError(
      f"{root}: no checkpoint was kept by a metric; set CheckpointPolicy.best_metric, or name a step"
    )
  # A run that went on with another metric has no other way to compare.
  metric = notes[max(notes)].metric
  return retention.best_of({step: note.score for step, note in notes.items() if note.metric == metric})


def checkpoints_dir(model_dir: str | os.PathLike) -> epath.Path:
  """`MODEL_DIR/checkpoints`, absolute (Orbax asks for that); also where that folder itself is given."""
  path = epath.Path(os.fspath(model_dir))
  path = path if "://" in str(path) else epath.Path(os.path.abspath(path))
  return path if path.name == "checkpoints" else path / "checkpoints"


def damaged_dir(checkpoints: epath.Path) -> epath.Path:
  """Where a run's checkpoints go that cannot be read."""
  return checkpoints.parent / "damaged"


def damaged_steps(checkpoints: epath.Path) -> list[int]:
  """The steps of the checkpoints of a run that could not be read, and are still there."""
  folder = damaged_dir(checkpoints)
  names = [path.name.split(".")[0] for path in folder.iterdir()] if folder.exists() else []
  return sorted({int(name) for name in names if name.isdigit()})


def steps_in(root: epath.Path) -> list[int]:
  """The steps of the whole checkpoints in a folder, oldest first."""
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
  steps = steps_in(root)
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
    orbax_tensors.check_claim_of(path / PARAMS, shapes)
    as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
    return ocp.PyTreeCheckpointHandler().restore(
      path / PARAMS, args=ocp.args.PyTreeRestore(restore_args=as_numpy)
    )


def _shapes(path: epath.Path, item: str, whole: bool) -> Any:
  """The tree of an item, with what Orbax notes of each array (its shape) in the array's place."""
  with _damage(path, whole):
    orbax_tensors.check_metadata(path / item)
    return ocp.PyTreeCheckpointHandler().metadata(path / item).tree


def items(state: TrainState) -> tuple[Any, dict[str, Any]]:
  """The two items of a checkpoint: the parameters, and the rest of the state by name."""
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
        f"{path}: cannot be read, though its files are what was written ({one_line(error)})"
      ) from error
    raise CheckpointDamaged(
      f"{path}: cannot be read, it was cut short or files are missing ({one_line(error)})"
    ) from error
