"""The checks of a dry run of what a run stands on: mesh, model folder, weights.

Each returns what to say about it and a value for those that come after; what is wrong is raised.
"""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.sharding import Mesh

from xmcap.data import vocabulary as vocabulary_lib
from xmcap.data.vocabulary import ROW_MULTIPLE
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.storage import outputs
from xmcap.training import sharding
from xmcap.training import step as step_lib
from xmcap.training.checkpoints import read as saved
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.checkpoints import start as start_lib
from xmcap.training.checkpoints import weights as weights_lib
from xmcap.training.checkpoints import write as checkpoints_lib
from xmcap.training.state import StatePlan

_TEXT_PARTS = ("token_embedder", "encoder", "decoder")


def size(tree: Any) -> int:
  """Numbers in all leaves."""
  return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def mesh(partitioning: sharding.Partitioning, stream: Any, microbatches: int) -> tuple[str, Mesh]:
  """The run's mesh; where it has more devices than are here, that is said, and the mesh of those here is taken.

  What a process of the pod will feed depends on the slice: `xmcap plan --topology` says it.

  Raises:
    UsageError: there is no such mesh, or it or the microbatches do not divide a batch.
  """
  devices = len(jax.devices())
  sizes = {"data": partitioning.data, "fsdp": partitioning.fsdp, "model": partitioning.model}
  shape = " x ".join(f"{axis} {count}" for axis, count in sizes.items())
  known = int(np.prod([count for count in sizes.values() if count != -1]))
  here = f"{devices} device{'' if devices == 1 else 's'} here"
  pictures = getattr(stream, "pictures", None)
  partitioning.logical_rules()
  try:
    found = partitioning.mesh()
    groups = sharding.axis_size(found, sharding.BATCH_AXES)
    text = f"{here}: {' x '.join(f'{axis} {found.shape[axis]}' for axis in sharding.MESH_AXES)}"
    if pictures is not None and pictures % groups == 0:
      fed = len(sharding.process_rows(found, pictures))
      text += f"; each process feeds {fed:,} of {pictures:,} pictures a step" if fed < pictures else ""
  except UsageError:
    if known <= devices:
      raise
    found = dataclasses.replace(partitioning, data=-1, fsdp=1, model=1).mesh()
    groups = int(np.prod([count for count in (partitioning.data, partitioning.fsdp) if count != -1]))
    amount = f"a multiple of {known}" if -1 in sizes.values() else str(known)
    text = f"{shape} needs {amount} devices, which the pod must have; {here}, and one step is tried on that"
  if pictures is not None and (pictures % groups or pictures % microbatches):
    raise UsageError(
      f"{pictures:,} pictures a batch do not divide over data x fsdp = {groups} devices and {microbatches} "
      "microbatches: change one of them"
    )
  return text, found


def folder(run_dir: str, num_bytes: int) -> str:
  """Writes a small checkpoint below the model folder, reads it, and leaves all as it was.

  Args:
    run_dir: of the run; need not be there.
    num_bytes: what the run will keep there at most.

  Raises:
    UsageError: its path is empty.
    XmcapError: it cannot be written, has not room enough, or what was written is not what is read.
  """
  outputs.check_path(run_dir, "MODEL_DIR")
  root = saved.checkpoints_dir(run_dir).parent
  made = [place for place in (root, *root.parents) if not place.exists()]
  scratch = root / f".dry-run-{os.getpid()}"
  try:
    try:
      scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise XmcapError(
        f"{run_dir}: cannot be written ({error.strerror or error}): give a folder that can"
      ) from None
    free = None if "://" in str(root) else shutil.disk_usage(root).free
    if free is not None and free < num_bytes:
      raise XmcapError(
        f"{run_dir}: {_gigabytes(free)} are free, and the run's checkpoints take {_gigabytes(num_bytes)}: free or "
        "change the place, or lower CheckpointPolicy.keep"
      )
    _checkpoint_there_and_back(scratch)
  finally:
    # What is wrong with the folder has been said; that it could not be removed would hide it.
    _remove(scratch, made)
  room = "" if free is None else f"; {_gigabytes(free)} free"
  return f"{run_dir}: a small checkpoint was written and read; the run's take {_gigabytes(num_bytes)}{room}"


def _checkpoint_there_and_back(scratch: epath.Path) -> None:
  count = jnp.zeros((), jnp.int32)
  numbers = {"kernel": jnp.arange(64, dtype=jnp.float32)}
  state = step_lib.TrainState(count, numbers, dict(numbers), count, count)
  checkpoints = checkpoints_lib.Checkpoints(scratch, checkpoints_lib.CheckpointPolicy(asynchronous=False))
  try:
    checkpoints.save(0, state)
    checkpoints.wait()
    target = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state
    )
    restored = saved.restore(checkpoints.directory / "0", target)
  finally:
    checkpoints.close()
  if not np.array_equal(restored.params["kernel"], numbers["kernel"]):
    raise XmcapError(f"{scratch}: what was read is not what was written: check the disk")


def _remove(scratch: epath.Path, made: list[epath.Path]) -> None:
  try:
    if scratch.exists():
      scratch.rmtree()
    for place in made:
      place.rmdir()
  except OSError:
    pass


def weights(
  plan: StatePlan, own: "ReadOnly", vocabulary: Any, **begins: Any
) -> tuple[str, step_lib.TrainState]:
  """The state that the run would begin with, made as the run makes it; every parameter of it is finite.

  Args:
    plan: of the state.
    own: the run's checkpoints.
    vocabulary: of the run; None: not known.
    begins: as for `start.starting_state`.

  Raises:
    UsageError: a checkpoint is not there, or is of a model with another vocabulary.
    XmcapError: a name or a shape does not fit, or a parameter holds NaN or infinity.
  """
  if not own.begun():
    given = begins["pretrained"] or ([begins["initial_checkpoint"]] if begins["initial_checkpoint"] else ())
    _check_same_vocabulary(given, vocabulary)
  state, origin = start_lib.starting_state(own, plan.create, plan.target, **begins)
  finite = jax.jit(lambda params: jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), params))(
    state.params
  )
  bad = [path for path, good in saved.flat(jax.device_get(finite)).items() if not good]
  if bad:
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    raise XmcapError(f"{origin}: {bad[0]}{more} holds NaN or infinity: take weights from before that")
  return origin, state


class ReadOnly:
  """The checkpoints of a run as `starting_state` asks for them; a damaged one is not moved aside.

  Args:
    run_dir: of the run; need not be there.
    settings: of the run; None: its data are not there.
    from_scratch: damaged ones may be given up.
  """

  def __init__(self, run_dir: str, settings: settings_lib.Settings | None, from_scratch: bool):
    self.directory = saved.checkpoints_dir(run_dir)
    self.settings = settings
    self._from_scratch = from_scratch

  def begun(self) -> bool:
    return self.directory.exists() and any(place.name.isdigit() for place in self.directory.iterdir())

  def restore_latest(
    self, target: step_lib.TrainState, other_data: bool, say: Callable[[str], None]
  ) -> step_lib.TrainState | None:
    if not self.begun():
      return None

    def read(path: epath.Path) -> step_lib.TrainState:
      return saved.restore(path, target, self.settings, other_data, say)

    try:
      return saved.first_readable(self.directory, read)[1]
    except saved.CheckpointDamaged:
      if not self._from_scratch:
        raise
      return None


def _check_same_vocabulary(pretrained: Any, vocabulary: Any) -> None:
  """Text weights must be of this vocabulary: a run's folder holds its own, else the rows must be as many."""
  for item in [pretrained] if isinstance(pretrained, str) else pretrained:
    place, prefix = (item, "") if isinstance(item, str | os.PathLike) else item
    if vocabulary is None or (prefix and prefix.split("/")[0] not in _TEXT_PARTS):
      continue
    folder = pathlib.Path(place)
    # A run's folder, its `checkpoints`, or one of these.
    others = [
      path for path in (folder, *folder.absolute().parents[:2]) if (path / model_dir.VOCABULARY).is_file()
    ]
    if others:
      other = others[0] / model_dir.VOCABULARY
      if other.read_bytes() != vocabulary_lib.read_model(vocabulary.path):
        raise UsageError(
          f"{place}: was trained with another vocabulary than {vocabulary.path}: give --gin.VOCABULARY={other}"
        )
      continue
    embedding = weights_lib.open_weights(place).tensors.get("token_embedder/embedding")
    if embedding is not None and embedding.shape[0] - vocabulary.size >= ROW_MULTIPLE:
      raise UsageError(
        f"{place}: its embedding has {embedding.shape[0]:,} rows, and {vocabulary.path} {vocabulary.size:,} pieces: "
        "give the vocabulary of these weights, --gin.VOCABULARY=PATH"
      )


def _gigabytes(count: int) -> str:
  return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
