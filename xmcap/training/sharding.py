"""Sharding: the mesh of devices, and one table from logical axes to mesh axes.

A single device is a mesh of 1 x 1 x 1, so no code needs a special case for it.
"""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gin
import jax
import numpy as np
from absl import logging
from flax import linen as nn
from flax.linen import partitioning
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmcap.errors import UsageError, XmcapError
from xmcap.models import layers, stacking

MESH_AXES = ("data", "fsdp", "model")
BATCH_AXES = ("data", "fsdp")

# A logical axis takes the first rule whose mesh axes are still free in that array, see `layers.mesh_axes`; None: not
# sharded.
# In activations `batch` already uses `data` and `fsdp`, so only the later rules apply there. Parameters are sharded
# over both (Rajbhandari et al., "ZeRO", 2020, stage 3): every device keeps its shard of them and of the optimizer
# state.
# The logits come first, and leave `data` to `batch`. The devices of `fsdp` compute them for the tokens of all, each for
# its part of the vocabulary. So the largest kernel is gathered and its gradient summed over `data` alone.
DEFAULT_RULES = (
  ("logits", ("model", "fsdp")),
  ("batch", BATCH_AXES),
  ("batch", "data"),
  ("head_vocab", ("model", "fsdp", "data")),
  ("head_embed", "fsdp"),
  ("vocab", ("model", "data")),
  ("vocab", "model"),
  ("mlp", ("model", "data")),
  ("mlp", "model"),
  ("joined_kv", ("model", "data")),
  ("joined_kv", "model"),
  ("heads", "model"),
  ("kv", None),
  ("embed", "fsdp"),
  ("relpos_buckets", None),
  ("layers", None),
  ("length", None),
  ("image_embed", None),
  ("position", None),
  ("height", None),
  ("width", None),
  ("channel", None),
  ("classes", None),
)

Rules = Sequence[tuple[str, str | tuple[str, ...] | None]]


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Partitioning:
  """The shape of the mesh, and the rules that map logical axes to it.

  Attributes:
    data: number of data-parallel groups, each with its own images, whose parameters are gathered for each layer; -1:
      all remaining devices.
    fsdp: number of devices, each with its own images, that keep a layer's parameters sharded while it is computed;
      -1: all remaining devices of one slice or node (see `fast_domains`), up to `fsdp_limit`.
    model: number of devices that share the work on each image (heads, MLP and vocabulary are sharded).
    fsdp_limit: where `fsdp` is -1, its upper limit, of which it is a divisor; the remaining devices go to `data`.
    rules: replace `DEFAULT_RULES`; the meaning is t5x's.
    extra_rules: put before `rules`.
  """

  data: int = -1
  fsdp: int = 1
  model: int = 1
  fsdp_limit: int | None = None
  rules: Rules = DEFAULT_RULES
  extra_rules: Rules = ()

  def mesh(self, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh over `devices` (default: all devices); raises as `sizes`."""
    devices = jax.devices() if devices is None else devices
    slices = fast_domains(devices)
    sizes = self.sizes(len(devices), slices)
    # Without splitting physical axes, a 4 x 8 x 2 mesh would not fit on a 4 x 4 x 4 slice.
    split = {"allow_split_physical_axes": True}
    if slices == 1:
      return Mesh(mesh_utils.create_device_mesh(sizes, devices, **split), MESH_AXES)
    inside = [sizes[0] // slices, *sizes[1:]]
    return Mesh(mesh_utils.create_hybrid_device_mesh(inside, (slices, 1, 1), devices, **split), MESH_AXES)

  def sizes(self, count: int, slices: int = 1) -> tuple[int, int, int]:
    """The sizes of `data`, `fsdp` and `model` for `count` devices in `slices` slices (GPUs: nodes).

    Raises UsageError if their product is not the number of devices, or `data` is not a multiple of the slices.
    """
    data, fsdp, model = self.data, self.fsdp, self.model
    said = f"Partitioning: data {data} x fsdp {fsdp} x model {model}"
    if fsdp == -1 and model > 0:
      left = count // slices // model // max(1, data // slices)
      fsdp = math.gcd(left, self.fsdp_limit) if self.fsdp_limit else left
    if data == -1 and fsdp > 0 and model > 0:
      data = count // (fsdp * model)
    if min(data, fsdp, model) < 1 or data * fsdp * model != count:
      raise UsageError(
        f"{said} does not fit {count} device(s): make the product equal (-1: all remaining devices)"
      )
    if data % slices:
      raise UsageError(
        f"{said}: only `data` may span the {slices} slices (GPUs: nodes): make it a multiple of {slices}"
      )
    return data, fsdp, model

  def logical_rules(self) -> tuple[tuple[str, Any], ...]:
    """The rules in order of precedence; UsageError if one names an unknown mesh axis."""
    rules = (*self.extra_rules, *self.rules)
    for logical, mesh_axes in rules:
      for axis in (mesh_axes,) if isinstance(mesh_axes, str) else mesh_axes or ():
        if axis not in MESH_AXES:
          raise UsageError(
            f"Partitioning: rule ({logical!r}, {mesh_axes!r}): the mesh axes are {', '.join(MESH_AXES)}"
          )
    return tuple((logical, tuple(axes) if isinstance(axes, list) else axes) for logical, axes in rules)


def fast_domains(devices: Sequence[Any]) -> int:
  """The number of groups of devices with a fast network inside each: TPU slices or GPU nodes.

  Other devices, such as CPUs, are one group. For GPUs, XLA gives all processes of a machine the same `slice_index`;
  JAX_PARTITION_INDEX in each process overrides that. Raises UsageError if the groups differ in size.
  """
  sizes = collections.Counter(
    getattr(device, "slice_index", None) for device in devices if device.platform in ("tpu", "gpu")
  )
  if len(set(sizes.values())) > 1:
    counts = ", ".join(str(size) for _, size in sorted(sizes.items()))
    raise UsageError(f"the slices or nodes have {counts} devices: a mesh needs the same number from each")
  return len(sizes) or 1


@contextlib.contextmanager
def use(mesh: Mesh, rules: Rules) -> Iterator[None]:
  """A context in which the models' logical sharding constraints on activations apply to `mesh`."""
  # flax does not see `with mesh:` alone, and its constraints would do nothing.
  with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
    yield


def parameter_shardings(params: Any, params_axes: Any, mesh: Mesh, rules: Rules) -> Any:
  """A `NamedSharding` for each parameter, from the logical axes it was made with.

  A dimension that its mesh axes do not divide is sharded over fewer of them, and a warning is logged. Nothing is
  sharded over `data` if that spans TPU slices or GPU nodes, because the network between them is slow. `params_axes` is
  flax's collection of that name, `{..., NAME_axes: AxisMetadata}`.
  """
  names = stacking.flatten(partitioning.get_axis_names(params_axes or {}))
  logical_axes = {logical for logical, _ in rules}
  usable = rules
  if isinstance(mesh, Mesh) and fast_domains(mesh.devices.flatten().tolist()) > 1:
    usable = [(logical, _without_data(axes)) for logical, axes in rules]

  def sharding(path, param) -> NamedSharding:
    name = stacking.path_name(path)
    axes = names.get(name)
    if axes is None or len(axes) != len(param.shape):
      raise XmcapError(
        f"parameter {name} {param.shape}: its logical axes are {axes}: make it with param_with_axes"
      )
    unknown = [axis for axis in axes if axis is not None and axis not in logical_axes]
    if unknown:
      raise XmcapError(
        f"parameter {name}: no rule for the logical axis {unknown[0]!r}: add it to Partitioning.extra_rules"
      )
    kept = layers.mesh_axes(param.shape, axes, usable, mesh.shape)
    possible = layers.mesh_axes([mesh.size] * len(axes), axes, usable, mesh.shape)  # every axis divides that
    for logical, some, whole in zip(axes, kept, possible, strict=True):
      if len(some) < len(whole):
        dimension = f"parameter {name} {param.shape}: {logical}"
        parts, most = axis_size(mesh, some), axis_size(mesh, whole)
        logging.warning("%s is sharded %d ways: it is not divisible by %d", dimension, parts, most)
    spec = (names[0] if len(names) == 1 else names or None for names in kept)
    return NamedSharding(mesh, PartitionSpec(*spec))

  return jax.tree_util.tree_map_with_path(sharding, params)


def _without_data(axes: str | Sequence[str] | None) -> tuple[str, ...]:
  return tuple(axis for axis in ((axes,) if isinstance(axes, str) else axes or ()) if axis != "data")


def state_shardings(state: Any, param_shardings: Any, mesh: Mesh) -> Any:
  """Shardings for a whole training state: the optimizer's arrays are sharded like their parameters.

  An array of the state belongs to the parameter whose path is the end of its own. If it has the same shape, it has the
  same sharding; Adafactor's factored `v_row` and `v_col` have that of the parameter without the reduced dimension.
  Everything else (counts, placeholders) is replicated.
  """
  places = jax.tree.leaves(param_shardings)
  parameters = {
    stacking.path_name(path): (param.shape, tuple(place.spec))
    for (path, param), place in zip(jax.tree_util.tree_leaves_with_path(state.params), places, strict=True)
  }

  def spec_of(path, leaf) -> tuple:
    names = [stacking.path_name([key]) for key in path]
    start = next((n for n in range(len(names)) if "/".join(names[n:]) in parameters), None)
    if start is None:
      return ()
    name = "/".join(names[start:])
    shape, spec = parameters[name]
    if leaf.shape == shape:
      return spec
    # optax's v_row is the mean over the largest dimension of a layer, v_col that over the second largest.
    reduced = {"v_row": -1, "v_col": -2}.get(names[start - 1])
    if reduced is not None and len(leaf.shape) == len(shape) - 1:
      first = int(stacking.is_stacked(name))
      dim = first + int(np.argsort(shape[first:])[reduced])
      if leaf.shape == shape[:dim] + shape[dim + 1 :]:
        return spec[:dim] + spec[dim + 1 :]
    return ()

  placed = jax.tree_util.tree_map_with_path(
    lambda path, leaf: NamedSharding(mesh, PartitionSpec(*spec_of(path, leaf))), state
  )
  return placed.replace(params=param_shardings)


def process_rows(mesh: Mesh, rows: int, process_index: int | None = None) -> np.ndarray:
  """The rows of a batch that a process feeds: those of its devices, wherever these are on the mesh.

  A TPU slice orders its devices by their position on the torus, so the rows of a host are seldom contiguous: a 2 x 2 x
  1 host of a v4 slice may hold [0, 1, 4, 5]. Processes that differ only along `model` feed the same rows.

  Args:
    mesh: the whole mesh.
    rows: number of rows in the global batch, split evenly over `data` and `fsdp`; UsageError if that is impossible.
    process_index: None: this process.

  Returns:
    Positions in the batch, ascending: int64 [N].
  """
  process_index = jax.process_index() if process_index is None else process_index
  groups = axis_size(mesh, BATCH_AXES)
  if rows < 1 or rows % groups:
    raise UsageError(
      f"a batch of {rows} pictures cannot be split evenly over data x fsdp = {groups} devices: change one of them"
      f" (nearest batch: {groups * max(1, round(rows / groups)):,} pictures)"
    )
  owners = np.array([device.process_index for device in mesh.devices.flat]).reshape(groups, -1)
  owned = np.flatnonzero((owners == process_index).any(axis=1))
  if not owned.size:
    raise UsageError(f"process {process_index} holds no device of the mesh: change Partitioning")
  size = rows // groups
  return (owned[:, None] * size + np.arange(size)).reshape(-1)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """The sharding of the arrays of a batch: rows over `data` and `fsdp`."""
  return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def numeric(batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
  """The numeric fields of a batch, which a step takes; text fields such as `key` are dropped."""
  arrays = {name: np.asarray(array) for name, array in batch.items()}
  return {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}


def put_batch(
  batch: Mapping[str, np.ndarray], mesh: Mesh, rows: int | None = None, fed: np.ndarray | None = None
) -> dict[str, jax.Array]:
  """Places this process's rows on the mesh, as part of the global batch; see `numeric`.

  Args:
    batch: arrays [N, ...].
    mesh: the whole mesh.
    rows: number of rows in the global batch; None: N.
    fed: positions of the N rows in the global batch; None: `process_rows(mesh, rows)`.

  Returns:
    Arrays [rows, ...].
  """
  arrays = numeric(batch)
  rows = len(next(iter(arrays.values()))) if rows is None else rows
  fed = process_rows(mesh, rows) if fed is None else fed
  sharding = batch_sharding(mesh)

  def place(name: str, array: np.ndarray) -> jax.Array:
    if len(array) != len(fed):
      raise ValueError(f"{name} holds {len(array)} rows, and this process feeds {len(fed)}")

    def of_device(index: tuple[slice, ...] | None) -> np.ndarray:
      assert index is not None  # as every device of a mesh holds rows
      # A device's rows are contiguous in the batch, and so in `fed`.
      start, stop, _ = index[0].indices(rows)
      first = int(np.searchsorted(fed, start))
      return array[first : first + stop - start]

    return jax.make_array_from_callback((rows, *array.shape[1:]), sharding, of_device)

  return {name: place(name, array) for name, array in arrays.items()}


def described(mesh: Mesh) -> str:
  """A mesh in words: `data 4 x fsdp 2 x model 1 (8 TPU v4 devices on 2 hosts)`."""
  axes = " x ".join(f"{axis} {size}" for axis, size in mesh.shape.items())
  kind, hosts = mesh.devices.flat[0].device_kind, jax.process_count()
  devices = f"{mesh.size:,} {kind} device{'' if mesh.size == 1 else 's'}"
  return f"{axes} ({devices} on {hosts:,} host{'' if hosts == 1 else 's'})"


def axis_size(mesh: Mesh, axes: str | tuple[str, ...]) -> int:
  """The size of one mesh axis, or the product of several."""
  return int(np.prod([mesh.shape[axis] for axis in ((axes,) if isinstance(axes, str) else axes)]))
