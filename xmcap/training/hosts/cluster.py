"""Finds which process of a run this one is: the command's options say it, or jax finds the cluster of the machine.

jax recognises TPU VMs, GKE and SLURM. What is used of jax beyond its public API is only here: `jax.distributed` finds
the cluster and joins it in one call, but the roll call comes between the two; and its coordination service holds keys,
values and barriers that work while a device hangs. setup.py bounds the jax that this was tried with.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from xmcap.errors import UsageError, one_line


@dataclasses.dataclass(frozen=True)
class ClusterProcess:
  """One process of a run, as `jax.distributed.initialize` takes it; `local_device_ids` of None are all of the host."""

  coordinator_address: str
  num_processes: int
  process_id: int
  local_device_ids: Sequence[int] | None = None


def find_process(
  address: str | None = None, count: int | None = None, index: int | None = None, seconds: float = 300
) -> ClusterProcess | None:
  """Returns what the options say, or else the cluster; None: the run has only this process.

  Args:
    address, count, index: --coordinator_address, --num_processes and --process_id. A count of 1 alone is a run of one
      process, even on a machine of a cluster.
    seconds: to wait until the name of the first host is known.
  """
  options = (address, count, index)
  if options == (None, 1, None):
    return None
  if options != (None, None, None):
    if address is None or count is None or index is None:
      raise UsageError("give --coordinator_address, --num_processes and --process_id, all three or none")
    if count < 1 or not 0 <= index < count:
      raise UsageError(f"--process_id={index} of --num_processes={count}: processes count from 0")
    return ClusterProcess(address, count, index) if count > 1 else None
  from jax._src.clusters import ClusterEnv

  try:
    address, count, index, devices = ClusterEnv.auto_detect_unset_distributed_params(
      None, None, None, None, None, int(seconds)
    )
  except Exception as error:  # each cluster has its own errors
    raise UsageError(
      f"this machine looks like one of a cluster, but its place is not to be found ({one_line(error)}):"
      " give --coordinator_address, --num_processes and --process_id, or --num_processes=1 for a run of its own"
    ) from error
  if not address or count is None or count <= 1:
    return None
  assert index is not None  # as a cluster that counts its processes numbers them
  return ClusterProcess(address, count, index, devices)


def coordination_client() -> Any:
  """The client of the coordination service that `jax.distributed.initialize` connected; None before that."""
  from jax._src import distributed

  return distributed.global_state.client
