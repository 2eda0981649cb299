"""`find_process`: which process of a run this one is. Private names of jax: tests/test_private_names.py."""

import importlib.machinery
import os
import sys
import types

import pytest

from xmcap.errors import UsageError
from xmcap.training.hosts import cluster, launchers, proxies


def test_find_process_from_options():
  assert cluster.find_process("a:1", 4, 3) == cluster.ClusterProcess("a:1", 4, 3)
  assert cluster.find_process("a:1", 1, 0) is None


@pytest.mark.parametrize("options", [("a:1", None, None), ("a:1", 2, None), (None, 2, 0), (None, 2, None)])
def test_find_process_refuses_incomplete_options(options):
  with pytest.raises(UsageError, match="give all three of"):
    cluster.find_process(*options)


@pytest.mark.parametrize("index", [-1, 2])
def test_process_id_out_of_range_is_refused(index):
  with pytest.raises(UsageError, match="processes are numbered from 0"):
    cluster.find_process("a:1", 2, index)


SLURM = {
  "SLURM_JOB_ID": "4097",
  "SLURM_STEP_NODELIST": "node[003-006],x1",
  "SLURM_NTASKS": "4",
  "SLURM_PROCID": "2",
  "SLURM_LOCALID": "0",
}
GKE = {
  "TPU_WORKER_HOSTNAMES": "localhost,b,c,d",
  "TPU_WORKER_ID": "1",
  "MEGASCALE_NUM_SLICES": "2",
  "MEGASCALE_SLICE_ID": "1",
  "MEGASCALE_COORDINATOR_ADDRESS": "localhost:8080",
  "TPU_SKIP_MDS_QUERY": "1",
}
OPEN_MPI_4 = {
  "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
  "OMPI_COMM_WORLD_SIZE": "4",
  "OMPI_COMM_WORLD_RANK": "3",
  "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}
# Environments as the launchers write them: xpk/core/docker_resources.py of XPK, MaxText's gpu_multi_process_run.sh,
# plugins/jax of Kubeflow Trainer 2, JAXJob of Kubeflow's training-operator.
XPK = {"JAX_COORDINATOR_ADDRESS": "bb-slice-job-0-0.bb", "JOB_COMPLETION_INDEX": "1"}
XPK_GPU = {**XPK, "JAX_COORDINATOR_PORT": "6002", "NNODES": "2", "NODE_RANK": "1", "GPUS_PER_NODE": "8"}
XPK_CPU = {**XPK, "JOB_INDEX": "1", "PROCESSES_IN_JOB": "2", "JAX_PROCESS_COUNT": "4"}
MAXTEXT = {"JAX_COORDINATOR_IP": "10.0.0.1", "JAX_COORDINATOR_PORT": "1234", "NNODES": "8", "NODE_RANK": "7"}
KUBEFLOW = {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1", "JOB_COMPLETION_INDEX": "1"}
JAXJOB = {
  "COORDINATOR_ADDRESS": "b-worker-0",
  "COORDINATOR_PORT": "6666",
  "NUM_PROCESSES": "3",
  "PROCESS_ID": "2",
}
NAMES = {
  name for launcher in launchers.LAUNCHERS for name in (launcher.address, launcher.count, *launcher.index)
}
NAMES |= {name for launcher in launchers.SEVERAL for name in (*launcher.counts, launcher.index)}


@pytest.fixture
def environment(monkeypatch):
  """Sets variables, and those of no other launcher."""
  for name in filter(os.environ.get, NAMES):
    monkeypatch.delenv(name)

  def write(variables):
    for name, value in variables.items():
      monkeypatch.setenv(name, value)

  return write


@pytest.mark.parametrize(
  ("variables", "process"),
  [
    (SLURM, ("node003:61441", 4, 2, [0])),
    (SLURM | {"SLURM_STEP_NUM_TASKS": "4", "JAX_COORDINATOR_ADDRESS": "ib3"}, ("ib3:8482", 4, 2, [0])),
    (OPEN_MPI_4, ("10.96.0.1:62624", 4, 3, [1])),
    (XPK_GPU, ("bb-slice-job-0-0.bb:6002", 2, 1)),
    (XPK_CPU, ("bb-slice-job-0-0.bb:8482", 4, 3)),
    (MAXTEXT, ("10.0.0.1:1234", 8, 7)),
    (KUBEFLOW | {"JAX_COORDINATOR_ADDRESS": "bb-node-0-0.bb:29500"}, ("bb-node-0-0.bb:29500", 2, 1)),
    (XPK | {"JAX_NUM_PROCESSES": "2"}, ("bb-slice-job-0-0.bb:8482", 2, 1)),
    (JAXJOB, ("b-worker-0:6666", 3, 2)),
    (MAXTEXT | {"JAX_COORDINATOR_IP": "fd00::7"}, ("[fd00::7]:1234", 8, 7)),
    (XPK_GPU | {"NNODES": "1", "NODE_RANK": "0"}, None),
    ({"JOB_COMPLETION_INDEX": "0", "PET_NNODES": "1"}, None),
    ({"SLURM_NNODES": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),  # sbatch -n 8, without srun
    (SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NNODES": "1", "SLURM_PROCID": "0"}, None),  # salloc -n 4
    (SLURM | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_JOB_NUM_NODES": "4"}, None),  # srun -n 1
    ({"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0", "JOB_COMPLETION_INDEX": "0"}, None),
    ({"WORLD_SIZE": "1", "RANK": "0", "PMI_SIZE": "1", "PMI_RANK": "0", "SM_HOSTS": '["algo-1"]'}, None),
    ({"WORLD_SIZE": ""}, None),
  ],
)
def test_process_is_the_one_that_the_launcher_says(environment, variables, process):
  environment(variables)
  assert cluster.find_process() == (process and cluster.ClusterProcess(*process))


@pytest.mark.parametrize(
  ("variables", "message"),
  [
    ({"SLURM_NNODES": "2", "SLURM_PROCID": "0"}, "SLURM_NNODES=2 .SLURM.*start it by srun"),
    (SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NNODES": "2"}, "SLURM_NNODES=2 "),
    ({"SLURM_NTASKS": "2"}, "SLURM_NTASKS=2 "),
    ({"SLURM_NNODES": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "3"}, "SLURM_PROCID=3 "),
    ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE=2 .MPI.*mpi4py"),
    ({"PMI_SIZE": "4", "PMI_RANK": "0"}, "PMI_SIZE=4 .MPI"),
    ({"MV2_COMM_WORLD_SIZE": "4"}, "MV2_COMM_WORLD_SIZE=4 .MPI"),
    ({"PMIX_RANK": "1"}, "PMIX_RANK=1 .MPI"),
    ({"WORLD_SIZE": "2", "RANK": "0"}, "WORLD_SIZE=2 .torchrun.*HOST:PORT of process 0"),
    ({"PET_NNODES": "1:4"}, "PET_NNODES=1:4 "),
    ({"NNODES": "2"}, "NNODES=2 .XPK"),
    ({"NNODES": "two"}, "NNODES=two .XPK"),
    (KUBEFLOW, "JAX_NUM_PROCESSES=2 .Kubeflow"),
    ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX=0 .*there may be.*JAX_COORDINATOR_ADDRESS"),
    ({"JAX_COORDINATOR_ADDRESS": "a:1"}, "JAX_COORDINATOR_ADDRESS=a:1 .*there may be"),
    ({"TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_HOSTNAMES=a,b .a TPU slice.*jax.tpu"),
    ({"TPU_PROCESS_ADDRESSES": "a:8476,b:8476"}, "TPU_PROCESS_ADDRESSES=a:8476,b:8476 "),
    ({"MEGASCALE_NUM_SLICES": "2"}, "MEGASCALE_NUM_SLICES=2 .TPU slices"),
    ({"MEGASCALE_SLICE_ID": "1"}, "MEGASCALE_SLICE_ID=1 "),
    ({"SKYPILOT_NUM_NODES": "2"}, "SKYPILOT_NUM_NODES=2 .*SKYPILOT_NODE_RANK;"),
    ({"SM_HOSTS": '["algo-1","algo-2"]'}, "SM_HOSTS="),
    ({"FLUX_JOB_SIZE": "2"}, "FLUX_JOB_SIZE=2 "),
  ],
)
def test_process_that_is_one_of_several_does_not_run_alone(environment, variables, message):
  environment(variables)
  with pytest.raises(UsageError, match=f"^{message}.*or give --num_processes=1 to run it alone"):
    cluster.find_process()
  assert cluster.find_process(None, 1) is None
  assert cluster.find_process("a:1", 2, 1) == cluster.ClusterProcess("a:1", 2, 1)


@pytest.mark.parametrize(
  ("variables", "message"),
  [
    ({"NODE_RANK": "2"}, "NNODES=2, NODE_RANK=2: there is no process 2 of 2"),
    ({"NODE_RANK": "b"}, "no numbers of XPK"),
  ],
)
def test_contradictory_launcher_is_one_line(environment, variables, message):
  environment(XPK_GPU | variables)
  with pytest.raises(UsageError, match=message):
    cluster.find_process()


def test_mpi_is_asked_through_mpi4py(environment, monkeypatch):
  """As jax does only when told to: Open MPI 5 and MPICH leave no address of process 0."""

  class World:
    Get_rank, Get_size, Split_type = lambda _: 1, lambda _: 2, lambda _, kind: World()
    bcast = staticmethod(lambda host, root: "node003:61441")

  stub = types.ModuleType("mpi4py")
  stub.__spec__ = importlib.machinery.ModuleSpec("mpi4py", None)
  monkeypatch.setitem(sys.modules, "mpi4py", stub)
  monkeypatch.setattr(
    stub, "MPI", types.SimpleNamespace(COMM_WORLD=World(), COMM_TYPE_SHARED=0), raising=False
  )
  environment({"PMI_SIZE": "2", "PMI_RANK": "1"})
  assert cluster.find_process() == cluster.ClusterProcess("node003:61441", 2, 1, [1])


def test_gke_is_recognised(environment, monkeypatch):
  from jax._src.clusters import cloud_tpu_cluster

  monkeypatch.setattr(cloud_tpu_cluster, "running_in_cloud_tpu_vm", True)
  environment(GKE)
  process = cluster.find_process()
  assert (process.coordinator_address, process.num_processes, process.process_id) == ("localhost:8482", 8, 5)


@pytest.mark.parametrize(
  ("variables", "variable", "exceptions"),
  [
    ({}, "no_grpc_proxy", None),
    ({"http_proxy": "http://p"}, "no_grpc_proxy", "10.0.0.1"),
    ({"HTTPS_PROXY": "http://p", "NO_PROXY": "a,b"}, "no_grpc_proxy", "a,b,10.0.0.1"),
    ({"grpc_proxy": "http://p", "no_grpc_proxy": "c", "no_proxy": "a"}, "no_grpc_proxy", "c,10.0.0.1"),
    ({"http_proxy": "http://p", "no_proxy": "*"}, "no_grpc_proxy", "*,10.0.0.1"),
    ({"http_proxy": "http://p", "no_proxy": "*"}, "no_proxy", "*"),
  ],
)
def test_host_is_reached_without_a_proxy(monkeypatch, variables, variable, exceptions):
  monkeypatch.setattr(os, "environ", dict(variables))
  proxies.go_past("10.0.0.1", variable)
  assert os.environ.get(variable) == exceptions


def test_malformed_cluster_environment_is_one_line(environment):
  environment({**SLURM, "SLURM_NTASKS": "four"})
  with pytest.raises(UsageError, match="looks like part of a cluster.*or --num_processes=1"):
    cluster.find_process()
