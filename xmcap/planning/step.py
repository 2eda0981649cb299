"""Compiles a run's training step for chips that need not be attached: its memory, and an estimate of its time."""

import dataclasses
import functools
import math
import re
import time
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from xmcap import xla_flags
from xmcap.errors import XmcapError, one_line
from xmcap.planning import estimate, hlo, topologies
from xmcap.planning import run as run_lib
from xmcap.planning.gpus import GpuNode
from xmcap.planning.run import PlannedRun, Variant
from xmcap.planning.topologies import Topology
from xmcap.training import sharding
from xmcap.training.reporting import flops as flops_lib
from xmcap.training.state import StatePlan, plan_state
from xmcap.training.step import make_train_step

# Stands for an unknown number of steps; it does not change the cost of a step.
_MANY = 1_000_000


class DoesNotFit(XmcapError):
  """A step of `variant` needs more memory than a device has; `needed` and `allowed` are bytes per device.

  `unit` is the device in words, see `Topology.unit`.
  """

  def __init__(self, variant: Variant, needed: float, allowed: float, unit: str = "chip"):
    super().__init__(
      f"does not fit: it needs {needed / 2**30:.1f} GiB per {unit}, and a program may use {allowed / 2**30:.2f} GiB"
    )
    self.variant, self.needed, self.allowed = variant, needed, allowed


def plan_step(run: PlannedRun, topology: Topology | GpuNode) -> dict[str, Any]:
  """Compiles the step that `xmcap train` would run; for GPUs its memory and exchanges are planned, not its time.

  Returns:
    Values that JSON can hold: sizes in bytes, times in seconds, per device (a chip; of tpu7x half of one) unless stated
    otherwise. `memory` is a device's peak; its `working` is what the compiler allocates, such as activations.
    `model_flops`, for all chips, counts each matrix product of the model once; `model_flops_utilisation` is its ratio
    to the chips' peak. `step_seconds` is with all communication hidden, and so is what follows from it;
    `exposed_seconds` is with none. `captions_per_second` is for all chips; `pictures_per_second_and_host` is what the
    busiest host must read, decode and send. `hours` is None if the number of steps is unknown. `smallest` is the
    smallest slice of the same chips whose memory should suffice, None if this one is. For GPUs, `exchanges` is what
    `estimate.exchanges` returns, and `arithmetic_seconds` the time of the model's matrix products at the peak.

  Raises:
    DoesNotFit: a chip's memory is too small.
    UsageError: the hosts of a slice cannot feed this mesh.
    XmcapError: the compiler fails for another reason.
  """
  devices = topology.devices()
  mesh = run.partitioning.mesh(devices)
  hosts = sorted({device.process_index for device in devices})
  rows_by_host = [sharding.process_rows(mesh, run.pictures, host).tolist() for host in hosts]
  began = time.monotonic()
  try:
    state, lowered = lower(run, devices)
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    raise explained(error, run.variant, topology) from None
  memory = _memory(state, compiled.memory_analysis())
  plan = {
    "topology": topology.name,
    "chips": topology.chips,
    "devices": topology.num_devices,
    "parameters": state.num_parameters,
    "variant": dataclasses.asdict(run.variant),
    "batch_size": run.batch_size,
    "total_steps": run.total_steps,
    "xla_flags": " ".join(xla_flags.in_use().values()),
    "memory": {**memory, "allowed": topology.allowed},
    "compile_seconds": time.monotonic() - began,
    "caveats": estimate.CAVEATS,
  }
  # Unlike libtpu, XLA for CUDA compiles a program that is too large.
  if memory["total"] > topology.allowed:
    raise DoesNotFit(run.variant, memory["total"], topology.allowed, topology.unit)
  products = functools.partial(
    flops_lib.step_flops, run.objective, run.optimizer, state.target.params, _batch(run)
  )
  model_flops = products(False)
  if isinstance(topology, GpuNode):
    module = hlo.Module(compiled.as_text())
    return {
      **plan,
      "caveats": estimate.GPU_CAVEATS,
      "model_flops": model_flops,
      "arithmetic_seconds": estimate.arithmetic_seconds(model_flops, topology),
      "exchanges": estimate.exchanges(module.collectives(), topology),
    }
  module = hlo.Module(compiled.as_text(), topology.cores)
  flops = compiled.cost_analysis()["flops"]
  if module.has_loops:
    # XLA counts the body of a loop only once.
    flops = max(flops, products(True) / topology.num_devices)
  cycles = module.cycles()
  coordinates = [device.coords for device in mesh.devices.flat]
  bounds = estimate.bounds(flops, cycles, module.collectives(), topology, coordinates)
  bound, seconds = max(bounds.items(), key=lambda item: item[1])
  hours = None if run.total_steps is None else run.total_steps * seconds / 3600
  smallest = _smallest(run, topology, memory["total"])
  return {
    **plan,
    "hosts": topology.hosts,
    "rows_by_host": rows_by_host,
    "decodes_pictures": "image" in run.shapes,
    "reading": run_lib.reading(),
    "flops": flops,
    "model_flops": model_flops,
    "estimated_cycles": cycles,
    "exchanges": module.exchanges(),
    "smallest": smallest and {"topology": smallest[0].usual_name, "memory": smallest[1]},
    "estimate": {
      **{f"{name}_seconds": value for name, value in bounds.items()},
      "step_seconds": seconds,
      "exposed_seconds": estimate.exposed(bounds),
      "bound": bound,
      "captions_per_second": run.batch_size / seconds,
      "model_flops_utilisation": model_flops / (seconds * topology.num_devices * topology.chip.flops),
      "pictures_per_second_and_host": max(map(len, rows_by_host)) / seconds,
      "hours": hours,
      "chip_hours": hours and hours * topology.chips,
    },
  }


def lower(run: PlannedRun, devices: Sequence[Any]) -> tuple[StatePlan, Any]:
  """Returns the state plan of a run on `devices`, which need not be attached, and the lowered step."""
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
  """Converts the compiler's error to `DoesNotFit`, or to an XmcapError of one line."""
  if "RESOURCE_EXHAUSTED" in str(error):
    sizes = re.findall(r"([\d.]+)([KMGT])", str(error))
    amounts = [float(number) * 2 ** (10 * ("KMGT".index(unit) + 1)) for number, unit in sizes]
    return DoesNotFit(variant, max(amounts, default=topology.allowed), topology.allowed, topology.unit)
  return XmcapError(f"the compiler cannot compile this program for {topology.name}: {one_line(error)}")


def _memory(state: StatePlan, analysis: Any) -> dict[str, int]:
  """Peak memory of one device in bytes, by kind and in `total`."""
  parameters, whole = _bytes_of_chip(state.target.params), _bytes_of_chip(state.target)
  ema = _bytes_of_chip(state.target.ema)
  # Results that are not aliased with an argument need memory of their own.
  results = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
  kinds = {
    "parameters": parameters,
    "optimizer": whole - parameters - ema,
    **({"EMA": ema} if ema else {}),
    "batch": max(0, analysis.argument_size_in_bytes - whole),
    "working": analysis.temp_size_in_bytes + results + analysis.generated_code_size_in_bytes,
  }
  return {**kinds, "total": sum(kinds.values())}


def _smallest(run: PlannedRun, topology: Topology, total: float) -> tuple[Topology, float] | None:
  """The smallest slice of the same chips on which the run should fit, and the bytes of a device there.

  They are as if everything was spread evenly: an upper estimate, as what each chip holds whole does not grow.
  """
  variant = run.variant
  for smaller in topologies.smaller(topology):
    groups, needed = smaller.num_devices // variant.model, total * topology.chips / smaller.chips
    # Not to the last byte: memory is fragmented.
    if needed < 0.95 * smaller.allowed and groups and not run.pictures % (groups * variant.microbatches):
      return smaller, needed
  return None


def _bytes_of_chip(tree: Any) -> int:
  """Bytes per device of sharded shapes, without the padding of their layouts."""
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)
  )


def _batch(run: PlannedRun, placed: NamedSharding | None = None) -> dict[str, jax.ShapeDtypeStruct]:
  return {
    name: jax.ShapeDtypeStruct(shape, dtype, sharding=placed) for name, (shape, dtype) in run.shapes.items()
  }
