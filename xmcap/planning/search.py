"""Searches the fastest mesh that fits, and settings that make a run fit, by compiling one variant after the other."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.planning import run as run_lib
from xmcap.planning.gpus import GpuNode
from xmcap.planning.step import DoesNotFit, plan_step
from xmcap.planning.topologies import Topology
from xmcap.training import sharding

_WAYS_TO_FIT = tuple(
  {"image_remat": image, "t5_remat": t5, "microbatches": microbatches}
  for image, t5, microbatches in (
    ("no", "no", 1), ("dots", "no", 1), ("dots", "dots", 1), ("full", "full", 1),
    ("full", "full", 2), ("full", "full", 4), ("full", "full", 8),
  )
)  # fmt: skip
"""Each recomputes more and takes less memory than the one before."""
_POLICIES = sum(way["microbatches"] == 1 for way in _WAYS_TO_FIT)
_GPU_MICROBATCHES = (2, 4, 8, 16, 32, 64)


def search(
  topology: Topology, captions_per_image: tuple[int, ...] = (), say: Callable[[str], None] = lambda line: None
) -> tuple[list[dict[str, Any]], list[DoesNotFit]]:
  """Plans the run that is configured in gin on every sensible mesh.

  On each mesh it takes the first of `_WAYS_TO_FIT` that fits; on the fastest, the other policies of rematerialisation
  too. Layers are scanned, which compiles many times faster. `captions_per_image` are further values to try there.

  Returns:
    The plans that fit, fastest first, and the meshes on which nothing fits.
  """
  plans: list[dict[str, Any]] = []
  refused: list[DoesNotFit] = []

  def attempt(changes: dict[str, Any], first: int = 0, end: int | None = None) -> int:
    """Tries `_WAYS_TO_FIT[first:end]` up to one that fits; returns the number of the last one that was compiled."""
    compiled, does_not_fit = first, None
    for number, way in enumerate(_WAYS_TO_FIT[first:end], first):
      tried = {**changes, **way}
      words = ", ".join(f"{name} {value}" for name, value in tried.items())
      try:
        plan = _plan(topology, tried)
      except UsageError as error:
        say(f"left out: {words}: {error}")
        break
      except DoesNotFit as error:
        say(f"{words}: {error}")
        compiled, does_not_fit = number, error
        continue
      plans.append(plan)
      seconds = plan["estimate"]["step_seconds"]
      cycles = f"{plan['estimated_cycles'] / 1e6:.1f} million cycles"
      say(f"{words}: {seconds * 1e3:.1f} ms, {cycles}, compiled in {plan['compile_seconds']:.0f} s")
      return number
    if does_not_fit is not None:
      refused.append(does_not_fit)
    return compiled

  # For each `model`, the mesh that shards the parameters most comes first. Ways that do not fit there are not tried on
  # the others.
  easiest: dict[int, int] = {}
  for mesh in meshes(topology):
    easiest[mesh["model"]] = attempt(mesh, easiest.get(mesh["model"], 0))
  if plans:
    best = min(plans, key=_rank)["variant"]
    fastest = {axis: best[axis] for axis in sharding.MESH_AXES}
    way = next(number for number, way in enumerate(_WAYS_TO_FIT) if way.items() <= best.items())
    for number in range(way + 1, _POLICIES):
      attempt(fastest, number, number + 1)
    for captions in captions_per_image:
      attempt({**fastest, "captions_per_image": captions})
  return sorted(plans, key=_rank), refused


def with_way_out(error: DoesNotFit, topology: Topology | GpuNode, say: Callable[[str], None]) -> UsageError:
  """The error for a run that does not fit, with the cheapest settings that would make it fit."""
  say(f"{error}; looking for settings that fit")
  for changes in _ways_out(error, topology):
    try:
      plan = _plan(topology, changes)
    except (DoesNotFit, UsageError):
      continue
    bound, defaults = run_lib.bindings(changes).items(), run_lib.bindings(_WAYS_TO_FIT[0])
    options = " ".join(f"--gin.{name}={value}" for name, value in bound if defaults.get(name) != value)
    return UsageError(f"{error}; it fits ({plan['memory']['total'] / 2**30:.1f} GiB) with {options}")
  if isinstance(topology, GpuNode):
    advice = f"nor in {_GPU_MICROBATCHES[-1]} microbatches: reduce the batch, add GPUs, or --gin.ViTConfig.remat=full"
  else:
    advice = "nor with remat, 8 microbatches and its state sharded over all chips: use more chips"
  return UsageError(f"{error}; {advice}")


def meshes(topology: Topology) -> Iterator[dict[str, int]]:
  """The meshes to try.

  `model` shards heads and the vocabulary, which needs fast links, so it stays within a host. The remaining devices go
  to `data`, to `fsdp`, or to both with `fsdp` in one plane of the slice. Only `data`, which communicates little, spans
  slices.
  """
  devices = topology.num_devices // topology.slices
  for model in (1, 2, 4):
    if devices % model:
      continue
    rest = devices // model
    plane = math.gcd(rest, topology.chip.devices * math.prod(sorted(topology.shape)[:2]))
    for fsdp in sorted({1, plane, rest}, reverse=True):
      yield {"data": topology.num_devices // (fsdp * model), "fsdp": fsdp, "model": model}


def _ways_out(error: DoesNotFit, topology: Topology | GpuNode) -> Iterator[dict[str, Any]]:
  if isinstance(topology, GpuNode):
    yield from ({"microbatches": count} for count in _GPU_MICROBATCHES if count > error.variant.microbatches)
    return
  # The first way changes nothing, so it cannot fit on the run's own mesh.
  yield from _WAYS_TO_FIT[1:]
  finest = {"data": topology.slices, "fsdp": topology.num_devices // topology.slices, "model": 1}
  yield from ({**finest, **way} for way in _WAYS_TO_FIT)


def _rank(plan: Mapping[str, Any]) -> tuple[float, float]:
  return plan["estimate"]["step_seconds"], plan["memory"]["total"]


def _plan(topology: Topology | GpuNode, changes: dict[str, Any]) -> dict[str, Any]:
  run = run_lib.of_gin(topology, scan=True, **changes)
  module, variant = run.objective.module, run.variant
  for name, heads in (("ViT", module.vit.num_heads), ("T5", module.t5.num_heads)):
    if heads % variant.model:
      raise UsageError(f"the {heads} heads of the {name} are not divisible by model {variant.model}")
  if run.pictures % (variant.data * variant.fsdp * variant.microbatches):
    raise UsageError(f"{variant.microbatches} microbatches cannot be split evenly over the chips")
  return plan_step(run, topology)
