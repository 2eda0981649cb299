"""The mesh over nodes of GPUs and slices of TPUs, with stand-ins for devices."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from flax.linen.partitioning import AxisMetadata
from jax.sharding import AbstractMesh, PartitionSpec

from xmcap.errors import UsageError
from xmcap.training.sharding import MESH_AXES, Partitioning, fast_domains, parameter_shardings, process_rows

# What the model files of BB, Bg and Lg say.
BB = Partitioning(fsdp=-1, fsdp_limit=16)


@dataclasses.dataclass(frozen=True)
class Device:
  """The attributes of a jax GPU device that a mesh asks for."""

  id: int
  process_index: int
  slice_index: int
  platform: str = "gpu"
  device_kind: str = "NVIDIA H100 80GB HBM3"


def gpus(nodes, each=8, processes=None):
  """`nodes` machines with `each` GPUs and one process, or with so many processes; as XLA numbers them."""
  processes = processes or 1
  return [
    Device(
      node * each + gpu,
      node * processes + gpu * processes // each,
      node,
    )
    for node in range(nodes)
    for gpu in range(each)
  ]


def kernel_place(mesh, rules):
  params = {"kernel": jax.ShapeDtypeStruct((768, 2048), jnp.float32)}
  axes = {"kernel_axes": AxisMetadata(("embed", "mlp"))}
  return parameter_shardings(params, axes, mesh, rules)["kernel"].spec


@pytest.mark.parametrize("processes", [1, 8])
def test_fast_domains_of_gpu_nodes_of_any_number_of_processes(processes):
  assert fast_domains(gpus(1, processes=processes)) == 1
  assert fast_domains(gpus(4, processes=processes)) == 4


def test_cpus_of_several_hosts_are_one_domain():
  assert fast_domains([dataclasses.replace(one, platform="cpu") for one in gpus(2)]) == 1
  assert fast_domains(jax.devices()) == 1


def test_slices_of_tpus_are_domains():
  assert fast_domains([dataclasses.replace(one, platform="tpu") for one in gpus(2)]) == 2


def test_nodes_of_different_sizes_are_refused():
  with pytest.raises(UsageError, match="have 8, 4 devices: a mesh needs the same number from each"):
    BB.mesh([*gpus(1), *(dataclasses.replace(one, id=8 + one.id, slice_index=1) for one in gpus(1, 4))])


@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize(
  "partitioning, sizes",
  [
    (BB, (2, 8, 1)),
    (Partitioning(), (16, 1, 1)),
    (Partitioning(model=4), (4, 1, 4)),
    (Partitioning(fsdp=4), (4, 4, 1)),
  ],
)
def test_data_alone_crosses_nodes(partitioning, sizes, processes):
  devices = gpus(2, processes=processes)
  # Not in order: jax lists devices by process, and a launcher may number processes over the nodes in turn.
  mesh = partitioning.mesh(devices[::-1])
  assert mesh.devices.shape == sizes
  of_node = [{device.slice_index for device in row.flat} for row in mesh.devices]
  assert all(len(nodes) == 1 for nodes in of_node)
  # The first half of `data` is one node, the second the other.
  assert of_node == sorted(of_node, key=min)


def test_parameters_are_cut_over_data_within_a_node_only():
  rules = Partitioning().logical_rules()
  one = Partitioning(data=2, fsdp=4).mesh(gpus(1))
  assert kernel_place(one, rules) == PartitionSpec("fsdp", ("model", "data"))
  assert kernel_place(one, rules) == kernel_place(AbstractMesh((2, 4, 1), MESH_AXES), rules)
  two = BB.mesh(gpus(2))
  assert kernel_place(two, rules) == PartitionSpec("fsdp", "model")


def test_fsdp_does_not_cross_nodes_unless_they_are_said_to_be_one():
  with pytest.raises(UsageError, match="only `data` may span the 2 slices \\(GPUs: nodes\\)"):
    Partitioning(data=1, fsdp=16).mesh(gpus(2))
  # JAX_PARTITION_INDEX=0 in all processes.
  joined = [dataclasses.replace(one, slice_index=0) for one in gpus(2)]
  assert Partitioning(data=1, fsdp=16).mesh(joined).devices.shape == (1, 16, 1)
  assert BB.mesh(joined).devices.shape == (1, 16, 1)


def test_each_process_of_a_node_feeds_the_rows_of_its_gpus():
  mesh = BB.mesh(gpus(2, processes=8))
  fed = [process_rows(mesh, 32, process).tolist() for process in range(16)]
  assert fed == [[2 * process, 2 * process + 1] for process in range(16)]
  assert process_rows(BB.mesh(gpus(2)), 32, 1).tolist() == list(range(16, 32))
