"""`process_rows`: the rows of a batch that a process feeds, on slices of libtpu and devices in any order."""

import numpy as np
import pytest
from jax.sharding import Mesh

from xmcap.errors import UsageError
from xmcap.planning import topologies
from xmcap.training import sharding
from xmcap.training.sharding import MESH_AXES, Partitioning, process_rows

SLICES = ("v4-8", "v4-32", "v4-128", "v5p-64", "v5e-16", "v6e-32", "2*v4-16", "4*v5e-64")
OTHER_SLICES = (
  "v4-16", "v4-64", "v4-256", "v4-512", "v5p-8", "v5p-32", "v5p-128", "v5p-256", "v5p-512", "v5e-4", "v5e-32",
  "v5e-64", "v5e-128", "v5e-256", "v6e-4", "v6e-16", "v6e-64", "v6e-128", "v6e-256", "2*v4-128", "4*v4-32",
  "2*v5p-64", "4*v5p-128", "2*v5e-16", "2*v6e-64", "4*v6e-16",
)  # fmt: skip


def devices_of(name):
  pytest.importorskip("libtpu")
  topologies.prepare_host()
  return topologies.parse(name).devices()


def meshes(devices, slices):
  """Every mesh of powers of two over the devices."""
  count = len(devices)
  sizes = [2**power for power in range(count.bit_length())]
  for model in sizes:
    for fsdp in sizes:
      data = count // (model * fsdp)
      if data >= 1 and data % slices == 0 and count // slices % (fsdp * model) == 0:
        yield Partitioning(data=data, fsdp=fsdp, model=model).mesh(devices)


def rows_by_jax(mesh, rows):
  """{process: the rows that its devices hold}, as jax itself places an array of so many rows."""
  held = {}
  for device, (index,) in sharding.batch_sharding(mesh).devices_indices_map((rows,)).items():
    held.setdefault(device.process_index, set()).update(range(*index.indices(rows)))
  return held


@pytest.mark.parametrize(
  "name", [*SLICES, *(pytest.param(name, marks=pytest.mark.full) for name in OTHER_SLICES)]
)
def test_process_rows_are_those_that_devices_hold(name):
  devices = devices_of(name)
  topology, tried = topologies.parse(name), 0
  for mesh in meshes(devices, topology.slices):
    rows = 2 * sharding.axis_size(mesh, sharding.BATCH_AXES)
    held = rows_by_jax(mesh, rows)
    assert len(held) == topology.hosts
    for process, expected in held.items():
      fed = process_rows(mesh, rows, process)
      assert fed.dtype == np.int64 and fed.tolist() == sorted(expected)
    assert set().union(*held.values()) == set(range(rows))
    tried += 1
  assert tried >= len(devices).bit_length()


@pytest.mark.parametrize("gin_file", ["bb", "bg", "lg"])
def test_process_rows_of_v4_128_for_the_papers_models(gin_file):
  from xmcap import configuration

  devices = devices_of("v4-128")
  configuration.parse([f"models/{gin_file}.gin"], [])
  mesh = Partitioning().mesh(devices)
  assert tuple(mesh.shape.values()) == (4, 16, 1)
  fed = [process_rows(mesh, 2048, process) for process in range(16)]
  assert [len(rows) for rows in fed] == [128] * 16
  assert sorted(np.concatenate(fed).tolist()) == list(range(2048))
  # A host's four chips are a square of the torus: its rows are no one block.
  assert any((np.diff(rows) > 1).any() for rows in fed)


class Device:
  def __init__(self, process_index):
    self.process_index = process_index


def mesh_of(processes):
  return Mesh(np.vectorize(Device, otypes=[object])(np.asarray(processes)), MESH_AXES)


def test_rows_of_interleaved_devices():
  mesh = mesh_of([[[0], [1]], [[1], [0]]])
  assert process_rows(mesh, 8, 0).tolist() == [0, 1, 6, 7]
  assert process_rows(mesh, 8, 1).tolist() == [2, 3, 4, 5]


def test_processes_along_model_feed_the_same_rows():
  mesh = mesh_of([[[0, 1]], [[1, 0]]])
  assert process_rows(mesh, 4, 0).tolist() == process_rows(mesh, 4, 1).tolist() == [0, 1, 2, 3]


def test_process_rows_refuses_indivisible_batches_and_absent_processes():
  mesh = mesh_of([[[0], [0]], [[0], [0]]])
  with pytest.raises(
    UsageError, match="a batch of 6 pictures .* data x fsdp = 4 devices: .*nearest batch: 8 pictures"
  ):
    process_rows(mesh, 6, 0)
  with pytest.raises(UsageError, match="process 1 holds no device of the mesh"):
    process_rows(mesh, 8, 1)
