"""Reads checkpoints: verifies their files, then loads the parameters or the whole state."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import addresses
from xmcap.files import orbax as orbax_tensors
from xmcap.files.bucket_paths import epath
from xmcap.models.stacking import flatten, nested, path_name
from xmcap.training.checkpoints import checksums, retention, small_json
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.checkpoints.train_state import TrainState, placed_ema
from xmcap.training.hosts import join as hosts

PARAMS, TRAINING, EMA = "params", "training", "ema"
"""The items of a checkpoint: the parameters, the rest of the `TrainState`, and, in a run with an EMA, that."""
WEIGHTS = ("ema", "raw")
"""Which weights are read: those of the EMA, or the parameters as the last update left them."""


class CheckpointDamaged(XmcapError):
  """Files of a checkpoint are truncated, changed or missing."""


def restore(
  path: str | os.PathLike,
  target: TrainState,
  settings: settings_lib.Settings | None = None,
  other_data: bool = False,
  say: Callable[[str], None] = print,
) -> TrainState:
  """Reads the state in one checkpoint with the shardings of `target`, whatever mesh wrote it.

  `target` holds `jax.ShapeDtypeStruct`s. `settings.check` compares the settings in the checkpoint with those of the
  resuming run, unless these are None: then it is the checkpoint of another run, whose EMA may be left behind. If the
  checkpoint has no EMA, and `target` has one, it begins at the parameters.

  Raises:
    CheckpointDamaged: files are truncated, changed or missing.
    UsageError: the run would go on without the EMA of its checkpoint.
    XmcapError: files cannot be read now, or names or shapes differ from those of `target`.
  """
  folder = epath.Path(addresses.absolute(path))
  averaged = has_ema(folder)
  keeps = averaged and target.ema is not None
  verified = _verify(folder, (PARAMS, TRAINING, *((EMA,) if keeps else ())), shared=True)
  if settings is not None:
    try:
      before = settings_lib.read(folder / TRAINING)
    except ValueError as error:
      raise CheckpointDamaged(str(error)) from None
    settings_lib.check(folder, before, settings, other_data, say)
  if averaged and not keeps:
    _leave_ema(folder, settings is not None, say)
  trees = items(target if keeps else target.replace(ema=None))
  for item, tree in trees.items():
    check_same(flat(tree), flat(_metadata(folder, item, verified)), str(folder))
  restored = {}
  for item, tree in trees.items():
    with _explained(folder, verified):
      arguments = ocp.args.StandardRestore(tree)
      restored[item] = ocp.StandardCheckpointHandler().restore(folder / item, args=arguments)
  state = TrainState(params=restored[PARAMS], ema=restored.get(EMA), **restored[TRAINING])
  if target.ema is not None and not keeps:
    say(f"{folder}: has no EMA of the weights: it begins at the weights of this step")
    return state.replace(ema=placed_ema(target.ema, state.params))
  return state


def _leave_ema(folder: epath.Path, is_own: bool, say: Callable[[str], None]) -> None:
  """Says that a run begins without the EMA of a checkpoint; UsageError if that is its own, which it would replace."""
  if is_own:
    raise UsageError(
      f"{folder}: has an EMA of the weights, which the run would lose: give --gin.Optimizer.ema_decay=DECAY again, or"
      f" go on without it in another MODEL_DIR, with --gin.train.initial_checkpoint={folder}"
    )
  say(f"{folder}: its EMA of the weights is left out (Optimizer.ema_decay is 0)")


def items(state: TrainState) -> dict[str, Any]:
  """Splits a state into the items of a checkpoint, by name."""
  fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
  ema = fields.pop(EMA)
  return {PARAMS: fields.pop(PARAMS), TRAINING: fields, **({} if ema is None else {EMA: ema})}


def has_ema(checkpoint: epath.Path) -> bool:
  """Whether a checkpoint was written with an EMA. CheckpointDamaged if that is gone."""
  if (checkpoint / EMA).exists():
    return True
  file = checkpoint / "_CHECKPOINT_METADATA"
  try:
    was = file.exists() and EMA in small_json.read(file).get("item_handlers", ())
  except (ValueError, TypeError):
    was = False  # Orbax says what is wrong
  if was:
    raise CheckpointDamaged(
      f"{checkpoint / EMA}: the EMA of the weights is missing: copy it too, or read the others with --weights=raw"
    )
  return False


def chosen_weights(checkpoint: epath.Path, weights: str | None) -> str:
  """Which of `WEIGHTS` are read from a checkpoint: as asked for; by default the EMA, if there is one.

  Raises:
    UsageError: the EMA is asked for, and there is none; or neither is asked for.
    CheckpointDamaged: as `has_ema`.
  """
  if weights not in (None, *WEIGHTS):
    raise UsageError(f"weights={weights!r}: give one of {', '.join(WEIGHTS)}")
  if weights == "raw" or has_ema(checkpoint):
    return weights or "ema"
  if weights == "ema":
    raise UsageError(f"{checkpoint}: has no EMA of the weights: leave --weights=ema out")
  return "raw"


def _verify(path: epath.Path, names: Sequence[str], shared: bool) -> bool:
  """Compares the files of items with their checksums; returns False if an item has none.

  If `shared`, all processes of the run must call this, and each checks a share of the files.
  """
  run = hosts.current() if shared else None
  share = (run.index, len(run.names)) if run else (0, 1)
  summed = [name for name in names if (path / name / checksums.NAME).exists()]
  damage = trouble = ""
  try:
    damage = next(filter(None, (checksums.difference(path / name, *share) for name in summed)), "")
  except OSError as error:
    trouble = f"{path}: cannot be read now ({error.strerror or one_line(error)}): start again later"
  for kind, message in ((CheckpointDamaged, damage), (XmcapError, trouble)):
    reports = hosts.agree(f"check of checkpoint {path.name}", message) if shared else [message]
    if report := next(filter(None, reports), ""):
      raise kind(report)
  if len(summed) < len(names):
    logging.warning("%s: no checksums, so the files cannot be verified", path)
  return len(summed) == len(names)


def load_params(
  model_dir: str | os.PathLike, step: int | None = None, weights: str | None = None
) -> dict[str, Any]:
  """Reads the parameters of a run at `step` (None: the newest readable ones) as a nested dict of numpy arrays.

  `model_dir` is a run's folder, its `checkpoints` folder, or one checkpoint; `weights` is as in `chosen_weights`. A
  line on stderr says which are read, if there is an EMA. Raises UsageError if there is no such checkpoint,
  CheckpointDamaged if it, or every one, is damaged.
  """
  if step is None:
    path, params = first_readable(model_dir, lambda path: _read_params(path, weights))
  else:
    root = checkpoints_dir(model_dir)
    path = root / str(step)
    if not path.exists():
      raise UsageError(f"{root}: no checkpoint of step {step}: choose one of {steps_in(root)}")
    params = _read_params(path, weights)
  say_weights(path, chosen_weights(path, weights))
  return params


def say_weights(checkpoint: epath.Path, weights: str) -> None:
  """Says on stderr, in process 0, which of `WEIGHTS` were read from a checkpoint, if it has both."""
  if (checkpoint / EMA).exists() and jax.process_index() == 0:
    read = "the EMA of the weights (--weights=raw for the last)"
    raw = "the raw weights (--weights=ema for their EMA)"
    print(terminal.shown(f"{checkpoint}: {read if weights == 'ema' else raw}", limit=None), file=sys.stderr)


def _read_params(path: epath.Path, weights: str | None) -> dict[str, Any]:
  if chosen_weights(path, weights) == "raw":
    return _read_item(path, PARAMS)
  ema = flatten(_read_item(path, EMA)[PARAMS])
  # Of the parameters only those that did not learn.
  return nested({**flatten(_read_item(path, PARAMS, ema)), **ema})


def _read_item(path: epath.Path, item: str, left_out: Collection[str] = ()) -> dict[str, Any]:
  """The arrays of an item as numpy arrays, but for those with the paths `left_out`."""
  verified = _verify(path, (item,), shared=False)
  shapes = _metadata(path, item, verified)
  with _explained(path, verified):
    orbax_tensors.check_claim_of(path / item, shapes)
    if left_out:
      shapes = nested({name: leaf for name, leaf in flatten(shapes).items() if name not in left_out})
    if not shapes:
      return {}
    as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
    arguments = ocp.args.PyTreeRestore(
      item=shapes if left_out else None, restore_args=as_numpy, partial_restore=bool(left_out)
    )
    return ocp.PyTreeCheckpointHandler().restore(path / item, args=arguments)


def first_readable(folder: str | os.PathLike, read: Callable[[epath.Path], Any]) -> tuple[epath.Path, Any]:
  """Reads one checkpoint, or those of a run, newest first, until one is not damaged; returns its path and content."""
  path = epath.Path(addresses.absolute(folder))
  if (path / PARAMS).exists():
    return path, read(path)
  root = checkpoints_dir(folder)
  steps = steps_in(root)
  if not steps:
    raise UsageError(f"{folder}: no checkpoint found (looked for {path / PARAMS} and {root}/STEP)")
  for step in reversed(steps):
    try:
      return root / str(step), read(root / str(step))
    except CheckpointDamaged as error:
      logging.error("%s; taking the one before it", error)
  raise CheckpointDamaged(f"{root}: none of the checkpoints {steps} can be read")


def notes(root: epath.Path) -> dict[int, retention.Note]:
  """The notes of evaluations in a folder of checkpoints, by step."""
  by_step = {step: retention.read_note(root / str(step)) for step in steps_in(root)}
  return {step: note for step, note in by_step.items() if note is not None}


def best_step(model_dir: str | os.PathLike) -> int | None:
  """The step of the best checkpoint by the run's `best_metric`; None if no checkpoint has a score."""
  root = checkpoints_dir(model_dir)
  with _explained(root):
    scores = {step: (note.metric, note.score) for step, note in notes(root).items() if note.score is not None}
  # The metric may have changed when the run was resumed, and values of different metrics cannot be compared.
  newest = scores[max(scores)][0] if scores else None
  return retention.best_of({step: score for step, (metric, score) in scores.items() if metric == newest})


def checkpoints_dir(model_dir: str | os.PathLike) -> epath.Path:
  """`MODEL_DIR/checkpoints`, absolute as Orbax requires; `model_dir` may be that folder itself."""
  path = epath.Path(addresses.absolute(model_dir))
  return path if path.name == "checkpoints" else path / "checkpoints"


def damaged_dir(checkpoints: epath.Path) -> epath.Path:
  """The folder that a run moves damaged checkpoints to."""
  return checkpoints.parent / "damaged"


def damaged_steps(checkpoints: epath.Path) -> list[int]:
  """The steps of the checkpoints in `damaged_dir`."""
  folder = damaged_dir(checkpoints)
  names = [path.name.split(".")[0] for path in folder.iterdir()] if folder.exists() else []
  return sorted({int(name) for name in names if name.isdecimal()})


def steps_in(root: epath.Path) -> list[int]:
  """The steps of the finished checkpoints in a folder, oldest first."""
  if not root.exists():
    return []
  names = [path.name for path in root.iterdir() if path.name.isdecimal()]
  return sorted(int(name) for name in names if is_finished(root / name))


def is_finished(checkpoint: epath.Path) -> bool:
  """Whether a checkpoint was written to its end.

  On a disk it then has its name. A bucket cannot rename a folder at once, so there Orbax marks it by a file. A
  checkpoint that was copied to a bucket has no such file, but the sums of its items, which are written last; and its
  metadata, which go first when it is deleted.
  """
  names = (PARAMS, TRAINING, *((EMA,) if (checkpoint / EMA).exists() else ()))
  last = ("_CHECKPOINT_METADATA", *(f"{item}/{checksums.NAME}" for item in names))
  if ocp.utils.is_checkpoint_finalized(checkpoint):
    return True
  return checkpoint.name.isdecimal() and all((checkpoint / name).exists() for name in last)


class StepFolders(ocp.path.step.NameFormat[ocp.path.step.Metadata]):
  """The folders of checkpoints, named by their steps, as Orbax is to find them.

  Orbax's own class asks Google's client for the bucket before it lists one, and needs its credentials and
  `storage.buckets.get` for a list that needs neither.
  """

  def build_name(self, step: int) -> str:
    return str(step)

  def find_all(self, base_path: epath.PathLike) -> Iterator[ocp.path.step.Metadata]:
    root = epath.Path(base_path)
    for step in steps_in(root):
      yield ocp.path.step.Metadata(step, root / str(step))

  def find_step(self, base_path: epath.PathLike, step: int) -> ocp.path.step.Metadata:
    path = epath.Path(base_path) / str(step)
    if not (path.exists() and is_finished(path)):
      raise ValueError(f"{path}: no finished checkpoint")
    return ocp.path.step.Metadata(step, path)


def _metadata(path: epath.Path, item: str, verified: bool) -> Any:
  """The tree of an item, with Orbax's metadata (shape and dtype) in place of each array."""
  with _explained(path, verified):
    orbax_tensors.check_metadata(path / item)
    return ocp.PyTreeCheckpointHandler().metadata(path / item).tree


def flat(tree: Any) -> dict[str, Any]:
  """Flattens a tree to {path: leaf}, with paths such as `decoder/decoder_norm/scale`."""
  return {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def check_same(
  model: Mapping[str, Any], checkpoint: Mapping[str, Any], where: str, allow_extra: bool = False
) -> None:
  """Compares the {path: leaf} of a model and of a checkpoint; XmcapError names the first difference."""
  for path, leaf in model.items():
    shape = tuple(leaf.shape)
    if path in checkpoint:
      if tuple(checkpoint[path].shape) == shape:
        continue
      raise XmcapError(
        f"{where}: {path} has shape {tuple(checkpoint[path].shape)}, but {shape} in this model: "
        "use the configuration it was trained with, or another model_dir"
      )
    raise XmcapError(
      f"{where}: {path} {shape} of this model is missing: use the configuration it was trained with"
    )
  extra = sorted(set(checkpoint) - set(model))
  if extra and not allow_extra:
    raise XmcapError(
      f"{where}: {extra[0]} (and {len(extra) - 1} more) is not in this model or its optimizer: use the configuration "
      "it was trained with"
    )


@contextlib.contextmanager
def _explained(path: epath.Path, verified: bool = False) -> Iterator[None]:
  """Converts the many errors of Orbax, TensorStore and JSON for a truncated or missing file into ours."""
  try:
    yield
  except Exception as error:
    if lost := hosts.as_lost(error):
      raise lost from error
    if verified:
      # The cause is memory or network, so an older checkpoint would fail too.
      raise XmcapError(
        f"{path}: cannot be read, though its checksums are right ({one_line(error)})"
      ) from error
    raise CheckpointDamaged(
      f"{path}: cannot be read: files are truncated or missing ({one_line(error)})"
    ) from error
