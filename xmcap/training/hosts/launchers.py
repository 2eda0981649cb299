"""What launchers leave in the environment of a process: which of how many it is, and where process 0 listens.

jax reads TPU VMs, GKE's TPUs, steps of SLURM and Open MPI 4 itself, and jobs of Kubernetes with the package kubernetes.
`LAUNCHERS` has what starts a run besides. `SEVERAL` has what tells of other processes: a process that has joined none
would write into the folder of the others.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from xmcap.errors import UsageError
from xmcap.terminal import shown

PORT = 8482
"""Where process 0 listens if only its host is named; jax has this port for TPU VMs."""

_OPTIONS = "--coordinator_address=HOST:PORT of process 0, --num_processes=N and --process_id=I"
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")


class Launcher(NamedTuple):
  """Variables with the host of process 0, or its address; the number of processes; that of this one; and the port.

  `index` is one variable, or three: the job, the processes of a job, and the process in its job.
  """

  name: str
  address: str
  count: str
  index: tuple[str, ...]
  port: str = "JAX_COORDINATOR_PORT"


_IN_JOB = ("JOB_INDEX", "PROCESSES_IN_JOB", "JOB_COMPLETION_INDEX")
LAUNCHERS = (
  Launcher("Kubeflow Trainer", "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", ("JAX_PROCESS_ID",)),
  Launcher("JAX_PROCESS_INDEX", "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_COUNT", ("JAX_PROCESS_INDEX",)),
  Launcher("XPK on CPUs", "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_COUNT", _IN_JOB),
  Launcher("an indexed job", "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", ("JOB_COMPLETION_INDEX",)),
  Launcher("XPK on GPUs", "JAX_COORDINATOR_ADDRESS", "NNODES", ("NODE_RANK",)),
  Launcher("MaxText", "JAX_COORDINATOR_IP", "NNODES", ("NODE_RANK",)),
  Launcher("JAXJob", "COORDINATOR_ADDRESS", "NUM_PROCESSES", ("PROCESS_ID",), "COORDINATOR_PORT"),
)
"""The first whose variables are all set, but for the port, counts."""


class Several(NamedTuple):
  """Variables that tell of other processes, and what to do then.

  Attributes:
    counts: number of processes or nodes, or a list of their hosts; the first that is set counts.
    index: the number of this process or node, from 0.
  """

  name: str
  counts: tuple[str, ...]
  index: str = ""
  instead: str = f"start one process a node, with {_OPTIONS}"


_MPI = f"install mpi4py for this MPI, or give {_OPTIONS}"
_TPU = "jax sees no TPU: install jax[tpu], and give the chips to this container"
_SKYPILOT = (
  'give --coordinator_address=$(echo "$SKYPILOT_NODE_IPS" | head -n1):8482 --num_processes=$SKYPILOT_NUM_NODES'
  " --process_id=$SKYPILOT_NODE_RANK"
)
SEVERAL = (
  *(Several("MPI", (size,), instead=_MPI) for size in _MPI_SIZES),
  Several("MPI", (), "PMIX_RANK", _MPI),
  Several("MPI", (), "PMI_RANK", _MPI),
  Several("SLURM", ("SLURM_NNODES", "SLURM_NTASKS"), "SLURM_PROCID", "start it by srun"),
  Several("torchrun, DeepSpeed, Accelerate", ("WORLD_SIZE", "PET_NNODES")),
  Several("Kubeflow Trainer", ("JAX_NUM_PROCESSES",), "JAX_PROCESS_ID"),
  Several("XPK on CPUs", ("JAX_PROCESS_COUNT",), "JAX_PROCESS_INDEX"),
  Several("XPK on GPUs", ("NNODES",), "NODE_RANK"),
  Several("SkyPilot", ("SKYPILOT_NUM_NODES",), "SKYPILOT_NODE_RANK", _SKYPILOT),
  Several("a TPU slice", ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"), "TPU_WORKER_ID", _TPU),
  Several("TPU slices", ("MEGASCALE_NUM_SLICES",), "MEGASCALE_SLICE_ID", _TPU),
  Several("SageMaker", ("SM_HOSTS",)),
  Several("Flux", ("FLUX_JOB_SIZE",)),
  Several("PBS", ("PBS_NUM_NODES",)),
  Several("Grid Engine", ("NHOSTS",)),
)
_UNCOUNTED = ("JOB_COMPLETION_INDEX", "JAX_COORDINATOR_ADDRESS")
_HOSTS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES", "SM_HOSTS")


def launched(environment: Mapping[str, str] = os.environ) -> tuple[str, int, int] | None:
  """Returns the address of process 0, the number of processes, and that of this one; None: as no launcher says.

  UsageError if a launcher's numbers are not numbers, or contradict each other.
  """
  for launcher in LAUNCHERS:
    names = (launcher.count, *launcher.index)
    if not all(environment.get(name) for name in (launcher.address, *names)):
      continue
    values = ", ".join(f"{name}={shown(environment[name])}" for name in names)
    try:
      count, *index = (int(environment[name]) for name in names)
    except ValueError:
      raise UsageError(f"{values}: these are no numbers of {launcher.name}: give {_OPTIONS}") from None
    number = index[0] if len(index) == 1 else index[0] * index[1] + index[2]
    if not 0 <= number < count:
      raise UsageError(f"{values}: there is no process {number} of {count}, counted from 0: give {_OPTIONS}")
    return with_port(environment[launcher.address], environment.get(launcher.port)), count, number
  return None


def with_port(address: str, port: str | None = None) -> str:
  """Returns the address HOST:PORT of a host, or of an address, which keeps its port."""
  has_port = re.fullmatch(r"([^:]*|\[.*\]):\d+", address)
  bare_ipv6 = address.count(":") > 1 and not address.startswith("[")
  return address if has_port else f"{f'[{address}]' if bare_ipv6 else address}:{port or PORT}"


def is_shell_of_slurm(environment: Mapping[str, str] = os.environ) -> bool:
  """Whether this is the shell of an allocation of SLURM: a step of one task, with the variables of the whole job."""
  tasks = environment.get("SLURM_NTASKS", "1")
  return (
    environment.get("SLURM_STEP_NUM_TASKS") == "1" != tasks and "OMPI_MCA_orte_hnp_uri" not in environment
  )


def is_mpi(environment: Mapping[str, str] = os.environ) -> bool:
  """Whether this is one of several processes of an MPI."""
  return any(_number(name, environment) > 1 for name in _MPI_SIZES if environment.get(name))


def refuse_several(is_counted: bool, environment: Mapping[str, str] = os.environ) -> None:
  """UsageError if a variable tells of other processes; it names the variable, and the ways on.

  `is_counted`: whether this is known to be the one process of a run. Else a variable that says that there may be others
  is refused too: each pod of an indexed job has a number, also the only one.
  """
  for launcher in SEVERAL:
    name = next((name for name in launcher.counts if environment.get(name)), "")
    is_counted = is_counted or bool(name)
    if name and _number(name, environment) != 1:
      _refuse(name, "are", launcher, environment)
    if environment.get(launcher.index) and _number(launcher.index, environment) != 0:
      _refuse(launcher.index, "are", launcher, environment)
  indexed = Several(
    "an indexed job", (), instead="set JAX_COORDINATOR_ADDRESS, to pod 0, and JAX_NUM_PROCESSES"
  )
  for name in _UNCOUNTED:
    if environment.get(name) and not is_counted:
      _refuse(name, "may be", indexed, environment)


def _number(name: str, environment: Mapping[str, str]) -> int:
  """The number in a variable, the most of a range `1:4`, or the number of hosts in a list; -1 if it has none."""
  text = environment[name].strip()
  if name in _HOSTS:
    return text.count(",") + 1
  last = text.rpartition(":")[2]
  return int(last) if last.isascii() and last.isdigit() else -1


def _refuse(name: str, are: str, launcher: Several, environment: Mapping[str, str]) -> None:
  raise UsageError(
    f"{name}={shown(environment[name])} ({launcher.name}): there {are} several processes or nodes, and this process has"
    f" not joined the others: {launcher.instead}; or give --num_processes=1 to run it alone, in a folder of its own"
  )
