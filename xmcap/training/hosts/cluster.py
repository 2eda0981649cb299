"""Finds which process of a run this one is, from the command's options, a launcher or the cluster that jax detects.

Only this file uses jax beyond its public API, for two reasons: `jax.distributed` detects and joins a cluster in one
call, but the roll call has to come in between; and jax's coordination service has keys, values and barriers that work
while a device hangs. tests/test_private_names.py lists what is used, and how.
"""

import dataclasses
import importlib.util
import os
import warnings
from collections.abc import Sequence
from typing import Any

from xmcap.errors import UsageError, one_line
from xmcap.training.hosts import launchers, proxies


@dataclasses.dataclass(frozen=True)
class ClusterProcess:
  """One process of a run: arguments of `jax.distributed.initialize`; `local_device_ids` None: all of the host."""

  coordinator_address: str
  num_processes: int
  process_id: int
  local_device_ids: Sequence[int] | None = None


def find_process(
  address: str | None = None, count: int | None = None, index: int | None = None, seconds: float = 300
) -> ClusterProcess | None:
  """Returns this process as given by the options, else as detected; None: the run has only this process.

  UsageError if the environment tells of other processes that this one cannot join.

  Args:
    address, count, index: --coordinator_address, --num_processes and --process_id. A count of 1 alone means a run of
      one process, even on a machine of a cluster.
    seconds: how long to wait for the name of the first host.
  """
  options = (address, count, index)
  if options == (None, 1, None):
    return None
  if options != (None, None, None):
    if address is None or count is None or index is None:
      raise UsageError("give all three of --coordinator_address, --num_processes and --process_id, or none")
    if count < 1 or not 0 <= index < count:
      raise UsageError(f"--process_id={index} of --num_processes={count}: processes are numbered from 0")
    return ClusterProcess(address, count, index) if count > 1 else None
  if launched := launchers.launched():
    process = ClusterProcess(*launched)
  else:
    process = None if launchers.is_shell_of_slurm() else _detected(seconds)
    if (process is None or process.num_processes == 1) and launchers.is_mpi():
      process = _detected(seconds, "mpi4py") if importlib.util.find_spec("mpi4py") else process
  if process and process.num_processes > 1:
    return process
  launchers.refuse_several(is_counted=process is not None)
  return None


def _detected(seconds: float, method: str | None = None) -> ClusterProcess | None:
  """This process as jax detects it, of its own accord or by a `method` that it leaves to the user."""
  from jax._src.clusters import ClusterEnv

  address = os.environ.get("JAX_COORDINATOR_ADDRESS")
  if address:
    address = launchers.with_port(address, os.environ.get("JAX_COORDINATOR_PORT"))
  proxies.go_past(os.environ.get("GCE_METADATA_IP", "metadata.google.internal"), "no_proxy")
  try:
    with warnings.catch_warnings():
      # On Kubernetes jax warns that its package is missing; `launchers` says what to do.
      warnings.simplefilter("ignore")
      address, count, index, devices = ClusterEnv.auto_detect_unset_distributed_params(
        address or None, None, None, None, method, int(seconds)
      )
  except Exception as error:  # each cluster has its own errors
    raise UsageError(
      f"this machine looks like part of a cluster, but its process number cannot be found ({one_line(error)}):"
      " give --coordinator_address, --num_processes and --process_id, or --num_processes=1 to run on it alone"
    ) from error
  if not address or count is None:
    return None
  assert index is not None  # a cluster that knows the number of processes also numbers them
  return ClusterProcess(address, count, index, devices)


def coordination_client() -> Any:
  """The client of the coordination service that `jax.distributed.initialize` connected; None before that."""
  from jax._src import distributed

  return distributed.global_state.client
