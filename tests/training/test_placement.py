"""Where an evaluation computes."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from xmcap.training import placement, sharding


def test_parameters_of_a_run_stay_where_they_lie():
  mesh = sharding.Partitioning().mesh()
  params = {"a": jax.device_put(np.ones(4), NamedSharding(mesh, PartitionSpec("fsdp")))}
  placed = placement.place(params, [])
  assert placed.params is params and placed.mesh == mesh and placed.rules is None


def test_other_parameters_are_put_on_every_device_whole():
  placed = placement.place({"a": np.ones(4)}, jax.local_devices())
  lies = placed.params["a"].sharding
  assert lies.is_fully_replicated and lies.device_set == set(jax.local_devices())
  assert placed.mesh.axis_names == sharding.MESH_AXES and placed.rules


@pytest.mark.parametrize("count, cut", [(16, True), (8, True), (12, False), (1, False)])
def test_rows_are_cut_over_the_devices_that_share_pictures(count, cut):
  mesh = AbstractMesh((4, 2, 3), sharding.MESH_AXES)
  expected = PartitionSpec(("data", "fsdp")) if cut else PartitionSpec()
  assert placement.Placed({}, mesh, None).rows(count).spec == expected
