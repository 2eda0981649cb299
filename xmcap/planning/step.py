"""The training step of a run, compiled for a slice: what it needs of a chip, and how long it takes at least."""

import dataclasses
import re
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from xmcap.errors import XmcapError
from xmcap.planning import estimate, hlo, memory, program
from xmcap.planning.run import Run, Variant
from xmcap.planning.topologies import Topology
from xmcap.training import sharding
from xmcap.training.reporting import flops as flops_lib
from xmcap.training.state import StatePlan, plan_state
from xmcap.training.step import make_train_step

# Where the number of steps is unknown, so long a run is planned; schedules do not make a step dearer.
_MANY = 1_000_000


class DoesNotFit(XmcapError):
  """A program that needs more memory than a chip has.

  Attributes:
    variant: of the run.
    needed: bytes of a chip, as far as the compiler says.
    allowed: bytes that a program may have.
  """

  def __init__(self, variant: Variant, needed: float, allowed: float):
    super().__init__(
      f"does not fit: a chip needs {needed / 2**30:.1f} GiB and has {allowed / 2**30:.2f} GiB for a program"
    )
    self.variant, self.needed, self.allowed = variant, needed, allowed


@dataclasses.dataclass(frozen=True)
class StepPlan:
  """What one training step comes to; all but `model_flops` of one chip.

  Attributes:
    run: the run, with its variant.
    topology: the chips.
    memory: where it is fullest.
    flops: that the program does.
    accessed: bytes as XLA counts them, in all of the chip's memories.
    traffic: bytes between the chip and its main memory.
    cycles: the compiler's estimate, without exchanges.
    collectives: exchanges between chips.
    bounds: what that takes.
    model_flops: of all chips, matrix products that the model asks for: nothing computed twice.
    parameters: of the model.
    fed: by host, the rows of a batch of pictures that it feeds.
    compile_seconds: on this host.
  """

  run: Run
  topology: Topology
  memory: memory.Memory
  flops: float
  accessed: float
  traffic: int
  cycles: int
  collectives: tuple[program.Collective, ...]
  bounds: estimate.Bounds
  model_flops: float
  parameters: int
  fed: tuple[np.ndarray, ...]
  compile_seconds: float

  @property
  def seconds(self) -> float:
    """Estimate of a step."""
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


def plan_step(run: Run, topology: Topology) -> StepPlan:
  """Compiles the step that `xmcap train` would run, for chips that need not be there.

  Raises:
    DoesNotFit: a chip's memory is too small.
    UsageError: the hosts of the slice cannot feed this mesh.
    XmcapError: the compiler refuses for another reason.
  """
  devices = topology.devices()
  fed = fed_rows(run, devices)
  began = time.monotonic()
  try:
    plan, lowered = lower(run, devices)
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    raise explained(error, run.variant, topology) from None
  seconds = time.monotonic() - began
  module = hlo.Module(compiled.as_text())
  read = program.read(module)
  asked = traced_flops(run, plan.target.params, remat=False)
  flops, accessed = costs(compiled, read)
  if read.loops:
    # What a loop weighs is rough; the products that are asked for, cut over the chips, are certain.
    flops = max(flops, traced_flops(run, plan.target.params) / topology.chips)
  places = plan.mesh.devices.flatten().tolist()
  bounds = estimate.bounds(flops, read.traffic, read.collectives, topology, places, read.cycles)
  return StepPlan(
    run, topology, memory.of_step(plan, compiled, module), flops, accessed, read.traffic, read.cycles, read.collectives,
    bounds, asked, plan.num_parameters, fed, seconds,
  )  # fmt: skip


def fed_rows(run: Run, devices: Sequence[Any]) -> tuple[np.ndarray, ...]:
  """By host, the rows of a batch of pictures that its process will feed.

  Raises:
    UsageError: see `sharding.process_rows`.
  """
  mesh = run.partitioning.mesh(devices)
  hosts = sorted({device.process_index for device in devices})
  return tuple(sharding.process_rows(mesh, run.pictures, host) for host in hosts)


def lower(run: Run, devices: Sequence[Any]) -> tuple[StatePlan, Any]:
  """The step of a run on devices, which need not be there: (where its state lies, the step lowered for that)."""
  mesh, rules = run.partitioning.mesh(devices), run.partitioning.logical_rules()
  batch = _batch(run, NamedSharding(mesh, PartitionSpec(sharding.BATCH_AXES)))
  plan = plan_state(run.objective, run.optimizer, batch, mesh, rules, run.seed, run.rng_impl)
  step = make_train_step(
    run.objective, run.optimizer, run.total_steps or _MANY, run.seed, run.variant.microbatches, run.rng_impl,
    plan.shardings.params,
  )  # fmt: skip
  with sharding.use(mesh, rules):
    return plan, plan.jit(step).lower(plan.target, batch)


def _batch(run: Run, lies: NamedSharding | None = None) -> dict[str, jax.ShapeDtypeStruct]:
  return {
    name: jax.ShapeDtypeStruct(shape, dtype, sharding=lies) for name, (shape, dtype) in run.shapes.items()
  }


def costs(compiled: Any, read: program.Program) -> tuple[float, float]:
  """(operations, bytes accessed) of one run as XLA counts them, a chip.

  XLA counts a loop as if it ran once. What is in loops is weighed by the compiler's cycles; without loops the numbers
  are XLA's own.
  """
  counted = compiled.cost_analysis()
  times = read.cycles / read.cycles_once if read.loops and read.cycles_once else 1.0
  return times * counted["flops"], times * counted["bytes accessed"]


def traced_flops(run: Run, params: Any, remat: bool = True) -> int:
  """Operations of the matrix products of loss and gradients, for the whole batch; see `flops.step_flops`."""
  return flops_lib.step_flops(run.objective, run.optimizer, params, _batch(run), remat)


def explained(error: Exception, variant: Variant, topology: Topology) -> XmcapError:
  """What the compiler's error means to the user: `DoesNotFit`, or a refusal in one line."""
  text = " ".join(str(error).split())
  if "RESOURCE_EXHAUSTED" in text:
    sizes = re.findall(r"([\d.]+)([KMGT])", text)
    found = [float(number) * 2 ** (10 * ("KMGT".index(unit) + 1)) for number, unit in sizes]
    return DoesNotFit(variant, max(found, default=topology.chip.hbm), topology.chip.hbm)
  return XmcapError(f"the compiler refuses this step on {topology.name}: {text[:300]}")
