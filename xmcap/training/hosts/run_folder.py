"""Checks that a run's folder can be written, and that all hosts see the same one."""

import os
import time

from etils import epath

from xmcap.errors import XmcapError
from xmcap.training.hosts import join as hosts

_SECONDS = 15  # for a network disk to show a new file


def check(directory: epath.Path) -> None:
  """Makes a folder inside the run's folder and tries it; all processes of the run must call this.

  Raises:
    XmcapError: it cannot be written, or a host does not see what process 0 writes there.
  """
  run, run_folder = hosts.current(), directory.parent
  name = hosts.agree("name of a test file", f".write-test-{os.getpid()}-{time.time_ns()}")[0]
  file = run_folder / name
  try:
    directory.mkdir(parents=True, exist_ok=True)
    if run is None or run.index == 0:
      file.write_text("")
  except OSError as error:
    raise XmcapError(
      f"{directory}: cannot be written ({error.strerror or error}): give a folder that can"
    ) from None
  hosts.barrier("test file written")
  deadline = time.monotonic() + _SECONDS
  while not (seen := file.exists()) and time.monotonic() < deadline:
    time.sleep(0.2)
  reports = hosts.agree("test file seen", str(seen))
  if run is None or run.index == 0:
    file.unlink()
  # Shares of checkpoints in folders of their own could never be put together.
  blind = [number for number, report in enumerate(reports) if report != "True"]
  if blind:
    raise XmcapError(
      f"{run_folder}: {run.describe(blind)} does not see what process 0 ({run.names[0]}) writes there: give a"
      " folder that all hosts share, such as gs://... or a network disk"
    )
