"""Where an evaluation computes: on the mesh of its training run, or on the devices that there are."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from flax.linen import partitioning as nn_partitioning
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

  @property
  def groups(self) -> int:
    """Devices, or groups of them along `model`, that each take other pictures: they must divide a batch."""
    return sharding.axis_size(self.mesh, sharding.BATCH_AXES)

  @property
  def whole(self) -> NamedSharding:
    """Where an array lies that every device has all of."""
    return NamedSharding(self.mesh, PartitionSpec())


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


def place_for_decoding(
  params: Any, devices: Sequence[jax.Device], cast: Callable[[Any], Any] = lambda params: params
) -> Placed:
  """Parameters for a loop over tokens: gathered once and not again for each token.

  What `data` and `fsdp` cut comes together on every device; what `model` cuts stays cut. The devices hold this copy
  beside the parameters of the run, until it is let go of.

  Args:
    params, devices: see `place`.
    cast: to the dtypes that decoding computes in; leaves shapes and names alone, and is equal to itself in a later
      call, which then compiles nothing. It comes first: in bfloat16 half as much is sent and kept.
  """
  placed = place(params, devices)
  params, mesh = placed.params, placed.mesh
  rules = placed.rules if placed.rules is not None else nn_partitioning.get_axis_rules()
  lies = jax.tree.map(lambda leaf: leaf.sharding, params)
  if _types(jax.eval_shape(cast, params)) != _types(params):
    params = _jitted(cast, *_hashable(lies))(params)
  together = jax.tree.map(
    lambda lay: NamedSharding(lay.mesh, PartitionSpec(*(_of_model("", cut) for cut in lay.spec))), lies
  )
  if not _equivalent(together, params):
    params = _jitted(_same, *_hashable(together))(params)
  return Placed(params, mesh, tuple((axis, _of_model(axis, cut)) for axis, cut in rules))


def _same(params: Any) -> Any:
  return params


def _of_model(logical: str, cut: Any) -> Any:
  """The mesh axes that a dimension is cut over, without those that cut the pictures; `batch` is the pictures'."""
  if logical == "batch":
    return cut
  left = tuple(
    axis for axis in ((cut,) if isinstance(cut, str) else cut or ()) if axis not in sharding.BATCH_AXES
  )
  return left[0] if len(left) == 1 else left or None


def _equivalent(shardings: Any, params: Any) -> bool:
  """Whether parameters lie so already."""
  pairs = zip(jax.tree.leaves(shardings), jax.tree.leaves(params), strict=True)
  return all(sharding.is_equivalent_to(leaf.sharding, leaf.ndim) for sharding, leaf in pairs)


def _types(tree: Any) -> list[Any]:
  return [leaf.dtype for leaf in jax.tree.leaves(tree)]


def _hashable(tree: Any) -> tuple[Any, ...]:
  leaves, structure = jax.tree.flatten(tree)
  return tuple(leaves), structure


@functools.lru_cache(maxsize=8)
def _jitted(function: Callable[[Any], Any], shardings: tuple[NamedSharding, ...], structure: Any) -> Callable:
  """The function compiled, once for all evaluations of a run."""
  return jax.jit(function, out_shardings=jax.tree.unflatten(structure, shardings))
