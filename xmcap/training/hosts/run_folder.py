"""Whether a run's folder will do: it can be written, and all hosts see the same one."""

import os
import time

import jax
from etils import epath

from xmcap.errors import XmcapError
from xmcap.training.hosts import join as hosts

_SHARED_SECONDS = 15


def check(directory: epath.Path) -> None:
  """Makes the folder, and tries it; all processes of the run must call it.

  Args:
    directory: a folder in the run's folder.

  Raises:
    XmcapError: it cannot be written, or some host does not see what process 0 writes there.
  """
  _check_writable(directory)
  _check_shared(directory)


def _check_writable(directory: epath.Path) -> None:
  try:
    directory.mkdir(parents=True, exist_ok=True)
    probe = directory.parent / f".write-test-{jax.process_index()}-{os.getpid()}"
    probe.write_text("")
    probe.unlink()
  except OSError as error:
    raise XmcapError(
      f"{directory}: cannot be written ({error.strerror or error}): give a folder that can"
    ) from None


def _check_shared(directory: epath.Path) -> None:
  """Each host with a folder of its own would leave shares of checkpoints that nobody can put together."""
  run = hosts.current()
  if run is None:
    return
  name = run.agree("name of a test file", f".shared-test-{os.getpid()}-{time.time_ns()}")[0]
  file = directory.parent / name
  if run.index == 0:
    file.write_text("")
  run.barrier("test file written")
  deadline = time.monotonic() + _SHARED_SECONDS
  while not (seen := file.exists()) and time.monotonic() < deadline:
    time.sleep(0.2)
  blind = [number for number, said in enumerate(run.agree("test file seen", str(seen))) if said != "True"]
  if run.index == 0:
    file.unlink()
  if blind:
    raise XmcapError(
      f"{directory.parent}: {run.describe(blind)} does not see what process 0 ({run.names[0]}) writes there: give a"
      " folder that all hosts share, such as gs://... or a network disk"
    )
