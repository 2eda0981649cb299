"""Where a process stands among those of its run: the command's options say it, or the cluster of the machine.

jax recognises TPU VMs, GKE and SLURM.
"""

import dataclasses
from collections.abc import Sequence

from xmcap.errors import UsageError, XmcapError
from xmcap.training.hosts import jax_internals


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a process stands among those of the run.

  Attributes:
    address: HOST:PORT of process 0.
    count: processes.
    index: of this one.
    devices: numbers of this host's accelerators that are its own; None: all.
  """

  address: str
  count: int
  index: int
  devices: Sequence[int] | None = None


def find_place(
  address: str | None = None, count: int | None = None, index: int | None = None, seconds: float = 300
) -> Place | None:
  """The place that the options name, or the cluster that this machine is part of; None: a run of one process.

  Args:
    address: --coordinator_address.
    count: --num_processes; 1 alone: one process, even on a machine of a cluster.
    index: --process_id.
    seconds: to wait for the name of the first host to become known.

  Raises:
    UsageError: some options without the others, or a cluster that is not set up as jax expects.
  """
  if (address, index) == (None, None) and count == 1:
    return None
  given = [value is not None for value in (address, count, index)]
  if any(given):
    if not all(given):
      raise UsageError("give --coordinator_address, --num_processes and --process_id, all three or none")
    if count < 1 or not 0 <= index < count:
      raise UsageError(f"--process_id={index} of --num_processes={count}: processes count from 0")
    return Place(address, count, index) if count > 1 else None
  try:
    address, count, index, devices = jax_internals.find_cluster(int(seconds))
  except XmcapError:
    raise
  except Exception as error:
    said = " ".join(str(error).split())[:240]
    raise UsageError(
      f"this machine looks like one of a cluster, but its place is not to be found ({said}):"
      " give --coordinator_address, --num_processes and --process_id, or --num_processes=1 for a run of its own"
    ) from error
  return Place(address, count, index, devices) if address and count and count > 1 else None
