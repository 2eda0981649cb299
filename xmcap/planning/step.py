"""The training step of a run, compiled for chips that need not be here: its memory, and an estimate of its time."""

import dataclasses
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from xmcap.errors import XmcapError
from xmcap.planning import estimate, hlo
from xmcap.planning.gpus import GpuNode
from xmcap.planning.run import Run, Variant
from xmcap.planning.topologies import Topology
from xmcap.training import sharding
from xmcap.training.reporting import flops as flops_lib
from xmcap.training.state import StatePlan, plan_state
from xmcap.training.step import make_train_step

# Planned where the number of steps is unknown; no schedule makes a step dearer.
_MANY = 1_000_000


class DoesNotFit(XmcapError):
  """A step of `variant` needs more memory than a chip has; `needed` and `allowed` are bytes of a chip."""

  def __init__(self, variant: Variant, needed: float, allowed: float):
    super().__init__(
      f"does not fit: a chip needs {needed / 2**30:.1f} GiB and has {allowed / 2**30:.2f} GiB for a program"
    )
    self.variant, self.needed, self.allowed = variant, needed, allowed


@dataclasses.dataclass(frozen=True)
class Memory:
  """Bytes of one chip when it is fullest; `working` is all that the compiler sets aside, such as activations."""

  parameters: int
  optimizer: int
  batch: int
  working: int

  @property
  def total(self) -> int:
    """All kinds together."""
    return sum(dataclasses.astuple(self))


@dataclasses.dataclass(frozen=True)
class StepPlan:
  """One training step, for one chip except where noted.

  Attributes:
    run: with its variant.
    topology: the chips.
    memory: of one chip.
    parameters: of the model.
    compile_seconds: on this host.
    flops: operations of the program.
    cycles: the compiler's estimate, exchanges left out.
    exchanges: between chips, by their kind.
    bounds: the times that these take; None for GPUs, where nothing but the memory is planned.
    model_flops: of all chips: matrix products that the model asks for, none computed twice.
    fed: for each host, the rows of a batch of pictures that it feeds.
  """

  run: Run
  topology: Topology | GpuNode
  memory: Memory
  parameters: int
  compile_seconds: float
  flops: float = 0.0
  cycles: int = 0
  exchanges: Mapping[str, hlo.Exchanges] = dataclasses.field(default_factory=dict)
  bounds: estimate.Bounds | None = None
  model_flops: float = 0.0
  fed: tuple[np.ndarray, ...] = ()

  @property
  def seconds(self) -> float:
    """The estimate of a step."""
    return self.bounds.seconds

  @property
  def captions_per_second(self) -> float:
    """Of all chips, by the estimate."""
    return self.run.batch_size / self.seconds

  @property
  def utilisation(self) -> float:
    """Model-flops utilisation by the estimate: the model's arithmetic over what the chips could do in that time."""
    return self.model_flops / (self.seconds * self.topology.chips * self.topology.chip.flops)

  @property
  def pictures_per_host(self) -> float:
    """Pictures a second that the busiest host must read, decode and send to its chips, by the estimate."""
    return max(map(len, self.fed)) / self.seconds

  @property
  def hours(self) -> float | None:
    """Of the whole run, by the estimate; None where the number of steps is unknown."""
    return None if self.run.total_steps is None else self.run.total_steps * self.seconds / 3600

  @property
  def chip_hours(self) -> float | None:
    """`hours` of all chips together."""
    return None if self.hours is None else self.hours * self.topology.chips


def plan_step(run: Run, topology: Topology | GpuNode) -> StepPlan:
  """Compiles the step that `xmcap train` would run.

  Raises:
    DoesNotFit: a chip's memory is too small.
    UsageError: the hosts of a slice cannot feed this mesh.
    XmcapError: the compiler refuses for another reason.
  """
  devices = topology.devices()
  mesh = run.partitioning.mesh(devices)
  hosts = sorted({device.process_index for device in devices})
  fed = tuple(sharding.process_rows(mesh, run.pictures, host) for host in hosts)
  began = time.monotonic()
  try:
    state, lowered = lower(run, devices)
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    raise explained(error, run.variant, topology) from None
  memory = _memory(state, compiled.memory_analysis())
  plan = StepPlan(run, topology, memory, state.num_parameters, time.monotonic() - began, fed=fed)
  if isinstance(topology, GpuNode):
    # Unlike libtpu, XLA for CUDA compiles a program that is too large.
    if memory.total > topology.allowed:
      raise DoesNotFit(run.variant, memory.total, topology.allowed)
    return plan
  module = hlo.Module(compiled.as_text())
  params = state.target.params
  flops = compiled.cost_analysis()["flops"]
  if module.has_loops:
    # XLA counts a loop as if it ran once.
    flops = max(flops, _product_flops(run, params, remat=True) / topology.chips)
  cycles, exchanges = module.cycles(), module.exchanges()
  return dataclasses.replace(
    plan,
    flops=flops,
    cycles=cycles,
    exchanges=exchanges,
    bounds=estimate.bounds(flops, cycles, exchanges, topology),
    model_flops=_product_flops(run, params, remat=False),
  )


def lower(run: Run, devices: Sequence[Any]) -> tuple[StatePlan, Any]:
  """(The plan of the state, the step lowered for it) of a run on devices, which need not be here."""
  mesh, rules = run.partitioning.mesh(devices), run.partitioning.logical_rules()
  batch = _batch(run, sharding.batch_sharding(mesh))
  plan = plan_state(run.objective, run.optimizer, batch, mesh, rules, run.seed, run.rng_impl)
  step = make_train_step(
    run.objective, run.optimizer, run.total_steps or _MANY, run.seed, run.variant.microbatches, run.rng_impl,
    plan.shardings.params,
  )  # fmt: skip
  with sharding.use(mesh, rules):
    return plan, plan.jit(step).lower(plan.target, batch)


def explained(error: Exception, variant: Variant, topology: Topology | GpuNode) -> XmcapError:
  """The compiler's error for people: `DoesNotFit`, or a refusal in one line."""
  text = " ".join(str(error).split())
  if "RESOURCE_EXHAUSTED" in text:
    sizes = re.findall(r"([\d.]+)([KMGT])", text)
    found = [float(number) * 2 ** (10 * ("KMGT".index(unit) + 1)) for number, unit in sizes]
    return DoesNotFit(variant, max(found, default=topology.allowed), topology.allowed)
  return XmcapError(f"the compiler refuses this step on {topology.name}: {text[:300]}")


def _memory(state: StatePlan, analysis: Any) -> Memory:
  parameters, whole = _bytes_of_chip(state.target.params), _bytes_of_chip(state.target)
  # Results that do not take the place of an argument need memory of their own.
  results = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
  return Memory(
    parameters,
    whole - parameters,
    max(0, analysis.argument_size_in_bytes - whole),
    analysis.temp_size_in_bytes + results + analysis.generated_code_size_in_bytes,
  )


def _bytes_of_chip(tree: Any) -> int:
  """Bytes of one chip of shapes with shardings, without the padding of their layouts."""
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)
  )


def _product_flops(run: Run, params: Any, remat: bool) -> int:
  """Operations of the matrix products of loss and gradients, for the whole batch."""
  return flops_lib.step_flops(run.objective, run.optimizer, params, _batch(run), remat)


def _batch(run: Run, lies: NamedSharding | None = None) -> dict[str, jax.ShapeDtypeStruct]:
  return {
    name: jax.ShapeDtypeStruct(shape, dtype, sharding=lies) for name, (shape, dtype) in run.shapes.items()
  }
