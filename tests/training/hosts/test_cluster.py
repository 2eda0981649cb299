"""Which process of a run this one is, and what is used of jax beyond its public API."""

import inspect
import re
from pathlib import Path

import jax
import pytest

from xmcap.errors import UsageError
from xmcap.training.hosts import cluster

ROOT = Path(__file__).parents[3]


def test_options_name_the_process():
  assert cluster.find_process("a:1", 4, 3) == cluster.ClusterProcess("a:1", 4, 3)
  assert cluster.find_process("a:1", 1, 0) is None


@pytest.mark.parametrize("options", [("a:1", None, None), ("a:1", 2, None), (None, 2, 0), (None, 2, None)])
def test_some_options_without_the_others(options):
  with pytest.raises(UsageError, match="give all three of"):
    cluster.find_process(*options)


@pytest.mark.parametrize("index", [-1, 2])
def test_number_out_of_range(index):
  with pytest.raises(UsageError, match="processes are numbered from 0"):
    cluster.find_process("a:1", 2, index)


SLURM = {
  "SLURM_JOB_ID": "4097",
  "SLURM_STEP_NODELIST": "node[003-006],x1",
  "SLURM_NTASKS": "4",
  "SLURM_PROCID": "2",
  "SLURM_LOCALID": "0",
}


def test_slurm_is_recognised(monkeypatch):
  for name, value in SLURM.items():
    monkeypatch.setenv(name, value)
  assert cluster.find_process() == cluster.ClusterProcess("node003:61441", 4, 2, [0])
  assert cluster.find_process("a:1", 2, 1) == cluster.ClusterProcess("a:1", 2, 1), "options come first"
  assert cluster.find_process(None, 1) is None, "a run of its own on a machine of a cluster"
  monkeypatch.setenv("SLURM_NTASKS", "1")
  assert cluster.find_process() is None


def test_gke_is_recognised(monkeypatch):
  from jax._src.clusters import cloud_tpu_cluster

  monkeypatch.setattr(cloud_tpu_cluster, "running_in_cloud_tpu_vm", True)
  for name, value in {
    "TPU_WORKER_HOSTNAMES": "localhost,b,c,d",
    "TPU_WORKER_ID": "1",
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
    "MEGASCALE_COORDINATOR_ADDRESS": "localhost:8080",
    "TPU_SKIP_MDS_QUERY": "1",
  }.items():
    monkeypatch.setenv(name, value)
  found = cluster.find_process()
  assert (found.coordinator_address, found.num_processes, found.process_id) == ("localhost:8482", 8, 5)


def test_a_cluster_that_is_set_up_by_halves_is_one_line(monkeypatch):
  for name, value in {**SLURM, "SLURM_NTASKS": "four"}.items():
    monkeypatch.setenv(name, value)
  with pytest.raises(UsageError, match="looks like part of a cluster.*or --num_processes=1"):
    cluster.find_process()


# ---- jax beyond its public API: where a release of jax breaks these, mend cluster.py


def test_the_client_has_what_the_processes_say_to_each_other_by():
  from jax._src.lib import _jax

  assert cluster.coordination_client() is None, "no processes have joined"
  for name in ("key_value_set", "key_value_dir_get", "wait_at_barrier"):
    assert callable(getattr(_jax.DistributedRuntimeClient, name)), f"jax {jax.__version__}"


def test_the_search_for_a_cluster_takes_what_it_is_given():
  from jax._src.clusters import ClusterEnv

  names = list(inspect.signature(ClusterEnv.auto_detect_unset_distributed_params).parameters)
  assert names == ["coordinator_address", "num_processes", "process_id", "local_device_ids",
                   "cluster_detection_method", "initialization_timeout"], f"jax {jax.__version__}"  # fmt: skip


def test_no_other_file_of_the_package_uses_them():
  files = [path for path in (ROOT / "xmcap").rglob("*.py") if "jax._src" in path.read_text(encoding="utf-8")]
  assert [path.name for path in files] == ["cluster.py"]


def test_setup_bounds_jax():
  ((low, high),) = re.findall(
    r'"jax>=(\d+\.\d+\.\d+),<(\d+\.\d+)"', (ROOT / "setup.py").read_text(encoding="utf-8")
  )
  numbers = [tuple(map(int, version.split("."))) for version in (low, jax.__version__, high)]
  assert numbers[0] <= numbers[1] < numbers[2], "this jax was not tried: setup.py names others"
