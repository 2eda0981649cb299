"""Which mesh is the fastest that fits: the step of a run, compiled for each that makes sense."""

import math
from collections.abc import Callable, Iterator

from xmcap.errors import UsageError, XmcapError
from xmcap.planning import run as run_lib
from xmcap.planning.step import DoesNotFit, StepPlan, plan_step
from xmcap.planning.topologies import Topology

_MICROBATCHES = (2, 4, 8)


def search(
  topology: Topology, captions_per_image: tuple[int, ...] = (), say: Callable[[str], None] = lambda line: None
) -> tuple[list[StepPlan], list[DoesNotFit]]:
  """Plans the run that gin is configured for in every variant that makes sense.

  Of each mesh the plain step is taken if it fits, else that with rematerialisation of the ViT, of all, else that in the
  fewest parts: they cost time and save only memory. What did not fit where parameters are cut finest is not tried where
  they are cut less. Layers are scanned over, which compiles many times faster.

  Args:
    topology: the chips.
    captions_per_image: K to try besides that of the files, on the fastest mesh.
    say: is told of each variant.

  Returns:
    The plans that fit, the fastest first, and what does not fit on any terms.
  """
  plans: list[StepPlan] = []
  refused: list[DoesNotFit] = []

  def attempt(changes: dict, first: int = 0) -> int:
    """Tries the ways to fit from `first` on; returns the number of the one that does, else of the last."""
    ways = list(_ways_to_fit())
    for way, easier in list(enumerate(ways))[first:]:
      try:
        run = run_lib.of_gin(topology, **{**changes, **easier})
        _check_heads(run)
        plans.append(plan_step(run, topology))
        say(
          f"{_words(changes | easier)}: {plans[-1].seconds * 1e3:.1f} ms, compiled in {plans[-1].compile_seconds:.0f} s"
        )
        return way
      except UsageError as error:
        say(f"left out: {_words({**changes, **easier})}: {error}")
        return first
      except DoesNotFit as error:
        say(f"{_words(changes | easier)}: {error}")
        last = error
    refused.append(last)
    return len(ways) - 1

  # Activations depend on `model` alone: how many pictures a chip has, and how they are cut.
  easiest: dict[int, int] = {}
  for mesh in meshes(topology):
    easiest[mesh["model"]] = attempt({**mesh, "scan": True}, easiest.get(mesh["model"], 0))
  if plans:
    best = min(plans, key=rank).run.variant
    for captions in captions_per_image:
      changes = {axis: getattr(best, axis) for axis in ("data", "fsdp", "model")}
      attempt({**changes, "captions_per_image": captions, "scan": True})
  return sorted(plans, key=rank), refused


def with_way_out(error: DoesNotFit, topology: Topology, say: Callable[[str], None]) -> XmcapError:
  """The same refusal with what would make the run fit: the first of the ways, dearest last, that does.

  Args:
    error: of the run as gin configures it.
    topology: the chips.
    say: is told what is tried.
  """
  say(f"{error}; looking for what would")
  whole = topology.chips // topology.slices
  meshes_to_try = [{}, {"data": topology.slices, "fsdp": whole, "model": 1}]
  for mesh in meshes_to_try:
    # The first way changes nothing, so on the run's own mesh it is known to fail.
    for easier in list(_ways_to_fit())[0 if mesh else 1 :]:
      changes = {**mesh, **easier}
      try:
        plan = plan_step(run_lib.of_gin(topology, **{**changes, "scan": True}), topology)
      except (DoesNotFit, UsageError):
        continue
      options = " ".join(f"--gin.{name}" for name in _bindings(changes))
      needs = plan.memory.total / 2**30
      return UsageError(f"{error}; it fits ({needs:.1f} GiB) with {options}")
  parts = _MICROBATCHES[-1]
  return UsageError(
    f"{error}; nor with remat in {parts} parts, its state cut over all chips: take more chips"
  )


def _bindings(changes: dict) -> Iterator[str]:
  for axis in ("data", "fsdp", "model"):
    if axis in changes:
      yield f"Partitioning.{axis}={changes[axis]}"
  if changes["remat"] != "no":
    yield "ViTConfig.remat=True"
  if changes["remat"] == "all":
    yield "T5Config.remat=True"
  if changes["microbatches"] > 1:
    yield f"train.microbatches={changes['microbatches']}"


def rank(plan: StepPlan) -> tuple[float, float]:
  """The estimate of a step, then the memory."""
  return plan.seconds, plan.memory.total


def meshes(topology: Topology) -> Iterator[dict[str, int]]:
  """The meshes that are worth a try.

  `model` cuts heads and rows of the vocabulary, so it stays within a host's reach; the rest is `data`, `fsdp`, or both
  with `fsdp` in one plane of the slice. Slices are joined by `data` alone: little is exchanged along it. Of each
  `model`, the finest cut of the parameters comes first.
  """
  each = topology.chips // topology.slices
  for model in (1, 2, 4):
    if each % model:
      continue
    rest = each // model
    plane = math.gcd(rest, math.prod(sorted(topology.shape)[:2]))
    for fsdp in sorted({1, plane, rest}, reverse=True):
      yield {"data": topology.chips // (fsdp * model), "fsdp": fsdp, "model": model}


def _check_heads(run: run_lib.Run) -> None:
  module, model = run.objective.module, run.variant.model
  for name, heads in (("ViT", module.vit.num_heads), ("T5", module.t5.num_heads)):
    if heads % model:
      raise UsageError(f"{heads} heads of the {name} do not divide by model {model}")


def _ways_to_fit() -> Iterator[dict]:
  for remat in ("no", "vit", "all"):
    yield {"remat": remat, "microbatches": 1}
  for microbatches in _MICROBATCHES:
    yield {"remat": "all", "microbatches": microbatches}


def _words(changes: dict) -> str:
  return ", ".join(f"{name} {value}" for name, value in changes.items() if name != "scan")
