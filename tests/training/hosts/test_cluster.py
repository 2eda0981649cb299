"""`find_process`: which process of a run this one is. Private names of jax: tests/test_private_names.py."""

import pytest

from xmcap.errors import UsageError
from xmcap.training.hosts import cluster


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


def test_malformed_cluster_environment_is_one_line(monkeypatch):
  for name, value in {**SLURM, "SLURM_NTASKS": "four"}.items():
    monkeypatch.setenv(name, value)
  with pytest.raises(UsageError, match="looks like part of a cluster.*or --num_processes=1"):
    cluster.find_process()
