"""Where an evaluation computes: on the mesh of its training run, or on the devices that there are."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmcap.training import sharding


@dataclasses.dataclass(frozen=True)
class Placed:
  """Parameters where an evaluation computes with them.

  Attributes:
    params: as they lie on `mesh`.
    mesh: its devices share the pictures.
    rules: to be set for the computation; None where the training run that the parameters belong to has set its own.
  """

  params: Any
  mesh: Mesh
  rules: sharding.Rules | None

  def computing(self) -> contextlib.AbstractContextManager:
    """Within it programs are to be called."""
    return contextlib.nullcontext() if self.rules is None else sharding.use(self.mesh, self.rules)

  def rows(self, count: int) -> NamedSharding:
    """Where an array of so many rows is to lie: cut over the devices that share pictures, if they divide it."""
    cut = count % sharding.axis_size(self.mesh, sharding.BATCH_AXES) == 0
    return NamedSharding(self.mesh, PartitionSpec(sharding.BATCH_AXES) if cut else PartitionSpec())


def place(params: Any, devices: Sequence[jax.Device]) -> Placed:
  """Parameters for an evaluation: those of a training run stay where they lie, others are put whole on every device.

  Args:
    params: of a run, or read from a checkpoint.
    devices: that share the pictures, if the parameters lie on no mesh yet.
  """
  for leaf in jax.tree.leaves(params):
    lies = getattr(leaf, "sharding", None)
    if isinstance(lies, NamedSharding) and lies.mesh.axis_names == sharding.MESH_AXES:
      return Placed(params, lies.mesh, None)
  # Not as the run was: its mesh may need more devices than there are now.
  partitioning = sharding.Partitioning(data=-1, fsdp=1, model=1, fsdp_limit=None)
  mesh = partitioning.mesh(devices)
  whole = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
  return Placed(whole, mesh, partitioning.logical_rules())
