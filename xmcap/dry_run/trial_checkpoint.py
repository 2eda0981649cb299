"""Writes, reads and removes a small checkpoint in the model folder, to check that a run can store its own there."""

import contextlib
import os
import shutil

import jax.numpy as jnp
import numpy as np

from xmcap.errors import XmcapError
from xmcap.files import addresses, buckets, outputs
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints.read import checkpoints_dir, restore
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.checkpoints.write import Checkpoints


def write_and_read(run_dir: str, num_bytes: int) -> str:
  """Checks a model folder, which need not exist, and leaves it unchanged; returns a line with the result.

  `num_bytes` is the most that the run's checkpoints will take.

  Raises:
    UsageError: the path is empty.
    XmcapError: the folder cannot be written, is too small, or returns other numbers than were written.
  """
  outputs.check_path(run_dir, "MODEL_DIR")
  root = checkpoints_dir(run_dir).parent
  is_remote = addresses.is_remote(run_dir)
  if is_remote:
    buckets.check_writable(run_dir)
  # A bucket has no folders but for markers, and its own parents cannot be asked for.
  places = (root, *root.parents)[: len(root.parts) - 3] if is_remote else (root, *root.parents)
  made = [folder for folder in places if not folder.exists()]
  scratch = root / f".dry-run-{os.getpid()}"
  taken = f"the run's checkpoints take {_size(num_bytes)}"
  try:
    try:
      scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      reason = error.strerror or error
      raise XmcapError(f"{run_dir}: cannot be written ({reason}): give a writable folder") from None
    if not is_remote:
      free = shutil.disk_usage(root).free
      if free < num_bytes:
        raise XmcapError(
          f"{run_dir}: {_size(free)} are free, but {taken}: free some space, use another disk, or lower"
          " CheckpointPolicy.keep"
        )
      taken += f"; {_size(free)} are free"
    _there_and_back(scratch)
  finally:
    # An error here would hide the one that is being raised.
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
    raise XmcapError(f"{scratch}: the numbers read differ from those written: check the disk")


def _size(count: int) -> str:
  return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
