"""Places parameters for an evaluation: on the mesh of the training run, or on the available devices."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmcap.training import sharding


@dataclasses.dataclass(frozen=True)
class ShardedParams:
  """Parameters on the mesh of an evaluation.

  Attributes:
    params: arrays on `mesh`.
    mesh: the devices that share the images.
    rules: axis rules for the computation; None: those that the training run has set.
  """

  params: Any
  mesh: Mesh
  rules: sharding.Rules | None

  def computing(self) -> contextlib.AbstractContextManager:
    """The context in which to call programs."""
    return contextlib.nullcontext() if self.rules is None else sharding.use(self.mesh, self.rules)

  def compute(
    self,
    compiled: Callable[[Any, Any], Any],
    batch: Mapping[str, np.ndarray],
    rows: int | None = None,
    fed: np.ndarray | None = None,
  ) -> Any:
    """Calls `compiled(params, batch)`; returns its arrays with the rows of all processes, as numpy arrays.

    `batch`, `rows` and `fed` are as in `sharding.put_batch`.
    """
    placed = sharding.put_batch(batch, self.mesh, rows, fed)
    with self.computing():
      arrays = compiled(self.params, placed)
    return jax.device_get(jax.device_put(arrays, self.replicated))

  @property
  def groups(self) -> int:
    """The number of devices (or groups of them along `model`) that share a batch; it must divide the batch size."""
    return sharding.axis_size(self.mesh, sharding.BATCH_AXES)

  def rounded(self, batch_size: int) -> int:
    """The smallest multiple of `groups` that is not below `batch_size`."""
    return -(-batch_size // self.groups) * self.groups

  @property
  def replicated(self) -> NamedSharding:
    """The sharding of an array that is replicated on every device."""
    return NamedSharding(self.mesh, PartitionSpec())


def for_evaluation(params: Any, devices: Sequence[Any]) -> ShardedParams:
  """Leaves the parameters of a training run on their mesh, and replicates others on all `devices`."""
  for leaf in jax.tree.leaves(params):
    is_named = isinstance(getattr(leaf, "sharding", None), NamedSharding)
    if is_named and leaf.sharding.mesh.axis_names == sharding.MESH_AXES:
      return ShardedParams(params, leaf.sharding.mesh, None)
  # Not the configured mesh, which may need more devices than there are now.
  partitioning = sharding.Partitioning(data=-1, fsdp=1, model=1, fsdp_limit=None)
  mesh = partitioning.mesh(devices)
  params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
  return ShardedParams(params, mesh, partitioning.logical_rules())


def for_decoding(
  params: Any, devices: Sequence[Any], cast: Callable[[Any], Any] = lambda params: params
) -> ShardedParams:
  """Gathers parameters once for decoding, instead of once per token.

  They are gathered over `data` and `fsdp`, and stay sharded over `model`. The devices hold this copy in addition to the
  run's parameters until it is freed. `cast`, to the dtypes of decoding, comes first: bfloat16 halves traffic and
  memory.
  """
  sharded = for_evaluation(params, devices)
  params = sharded.params
  rules = sharded.rules if sharded.rules is not None else nn.get_logical_axis_rules()
  gathered = jax.tree.map(
    lambda leaf: NamedSharding(
      leaf.sharding.mesh, PartitionSpec(*map(_without_batch_axes, leaf.sharding.spec))
    ),
    params,
  )
  rules = tuple((axis, axes if axis == "batch" else _without_batch_axes(axes)) for axis, axes in rules)
  return ShardedParams(jax.device_put(cast(params), gathered), sharded.mesh, rules)


def _without_batch_axes(axes: str | Sequence[str] | None) -> Any:
  """The mesh axes of one dimension, without those over which the images are sharded."""
  axes = (axes,) if isinstance(axes, str) else axes or ()
  left = tuple(axis for axis in axes if axis not in sharding.BATCH_AXES)
  return left[0] if len(left) == 1 else left or None
