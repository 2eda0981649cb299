"""A small checkpoint, written below the model folder, read and removed: whether a run can keep its own there."""

import contextlib
import os
import shutil

import jax.numpy as jnp
import numpy as np
from etils import epath

from xmcap.errors import XmcapError
from xmcap.storage import outputs
from xmcap.training.checkpoints.read import checkpoints_dir, restore
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.step import TrainState


def write_and_read(run_dir: str, num_bytes: int) -> str:
  """Says what was found about a model folder, which need not exist, and leaves it as it was.

  `num_bytes` is the most that the run will keep there.

  Raises:
    UsageError: its path is empty.
    XmcapError: it cannot be written, is too small, or gives back other numbers than were written.
  """
  outputs.check_path(run_dir, "MODEL_DIR")
  root = checkpoints_dir(run_dir).parent
  made = [folder for folder in (root, *root.parents) if not folder.exists()]
  scratch = root / f".dry-run-{os.getpid()}"
  taken = f"the run's checkpoints take {_size(num_bytes)}"
  try:
    try:
      scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      reason = error.strerror or error
      raise XmcapError(f"{run_dir}: cannot be written ({reason}): give a folder that can") from None
    if "://" not in str(root):
      free = shutil.disk_usage(root).free
      if free < num_bytes:
        raise XmcapError(
          f"{run_dir}: {_size(free)} are free, and {taken}: free or change the place, or lower CheckpointPolicy.keep"
        )
      taken += f"; {_size(free)} are free"
    _there_and_back(scratch)
  finally:
    # An error here would hide what is wrong with the folder, which is being raised.
    with contextlib.suppress(OSError):
      if scratch.exists():
        scratch.rmtree()
      for folder in made:
        folder.rmdir()
  return f"{run_dir}: a small checkpoint was written and read; {taken}"


def _there_and_back(scratch: epath.Path) -> None:
  count = jnp.zeros((), jnp.int32)
  numbers = {"kernel": jnp.arange(64, dtype=jnp.float32)}
  state = TrainState(count, numbers, dict(numbers), count, count)
  with contextlib.closing(Checkpoints(scratch, CheckpointPolicy(asynchronous=False))) as checkpoints:
    checkpoints.save(0, state)
    checkpoints.wait()
    restored = restore(checkpoints.directory / "0", state)
  if not np.array_equal(restored.params["kernel"], numbers["kernel"]):
    raise XmcapError(f"{scratch}: what was read is not what was written: check the disk")


def _size(count: int) -> str:
  return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
