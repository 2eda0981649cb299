"""The memory that a training step takes on one GPU: compiled for it, or counted where XLA for CUDA is not there."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jax.extend import core as jax_core
from jax.sharding import AbstractMesh

from xmcap import platforms
from xmcap.errors import XmcapError
from xmcap.planning import hlo, memory
from xmcap.planning import run as run_lib
from xmcap.planning.gpus import GpuNode
from xmcap.planning.run import Run
from xmcap.planning.step import lower
from xmcap.training import sharding
from xmcap.training.optimizer import merge
from xmcap.training.state import plan_state

_GIB = 2**30
_MICROBATCHES = (2, 4, 8, 16, 32, 64)


@dataclasses.dataclass(frozen=True)
class GpuPlan:
  """What one step takes of one GPU.

  Attributes:
    run: the run, with its variant.
    node: the GPUs.
    memory: where it is fullest.
    compiled: for this GPU; else counted.
    parameters: of the model.
  """

  run: Run
  node: GpuNode
  memory: memory.Memory
  compiled: bool
  parameters: int

  @property
  def fits(self) -> bool:
    """Into what jax takes of a GPU."""
    return self.memory.total <= self.node.allowed


def plan_memory(node: GpuNode) -> GpuPlan:
  """The memory of the run that gin is configured for: on one GPU of a node.

  Raises:
    UsageError: the files lack something, or it does not go together.
    XmcapError: the compiler refuses.
  """
  return _planned(run_lib.of_gin(node), node)


def way_out(plan: GpuPlan) -> GpuPlan | None:
  """The same run in the fewest microbatches that fit; None where no number of them does. Layers are scanned over."""
  for microbatches in _MICROBATCHES:
    pictures = plan.run.pictures // (plan.run.variant.data * plan.run.variant.fsdp)
    if microbatches <= plan.run.variant.microbatches or pictures % microbatches:
      continue
    tried = _planned(run_lib.of_gin(plan.node, microbatches=microbatches, scan=True), plan.node)
    if tried.fits:
      return tried
  return None


def text(plan: GpuPlan) -> str:
  """A plan in one line."""
  found, variant, node = plan.memory, plan.run.variant, plan.node
  parts = f", in {variant.microbatches} parts" if variant.microbatches > 1 else ""
  kinds = ", ".join(
    f"{kind} {size / _GIB:.3g}"
    for kind, size in dataclasses.asdict(found).items()
    if size >= found.total / 100
  )
  how = (
    "the step compiled for this GPU, which need not be here"
    if plan.compiled
    else "counted from the model, not compiled: pip install 'xmcap[cuda]'"
  )
  return (
    f"memory on one GPU of {node.name}: {found.total / _GIB:.3g} GiB ({kinds}), {how}; "
    f"{'fits' if plan.fits else 'does not fit'} into the {node.allowed / _GIB:.1f} GiB that jax takes "
    f"({node.fraction:.0%} of {node.kind.memory / _GIB:.1f}, XLA_CLIENT_MEM_FRACTION); {plan.parameters:,} "
    f"parameters, data {variant.data} x fsdp {variant.fsdp} x model {variant.model}, "
    f"{plan.run.batch_size:,} captions a step{parts}\n"
  )


def document(plan: GpuPlan) -> dict[str, Any]:
  """A plan as JSON's types, in bytes of one GPU."""
  return {
    "topology": plan.node.name,
    "chips": plan.node.chips,
    "parameters": plan.parameters,
    "variant": dataclasses.asdict(plan.run.variant),
    "batch_size": plan.run.batch_size,
    "memory": {
      **dataclasses.asdict(plan.memory),
      "total": plan.memory.total,
      "allowed": plan.node.allowed,
      "of_gpu": plan.node.kind.memory,
    },
    "compiled": plan.compiled,
  }


def _planned(run: Run, node: GpuNode) -> GpuPlan:
  if not platforms.cuda_installed():
    parameters, found = counted(run)
    return GpuPlan(run, node, found, False, parameters)
  state, lowered = lower(run, node.devices())
  try:
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    raise XmcapError(f"XLA refuses this step on {node.name}: {' '.join(str(error).split())[:300]}") from None
  found = memory.of_step(state, compiled, hlo.Module(compiled.as_text()))
  return GpuPlan(run, node, found, True, state.num_parameters)


def counted(run: Run) -> tuple[int, memory.Memory]:
  """(Parameters, the memory of a step) as jax traces it, without a compiler.

  Parameters and optimizer state as they lie; gradients as large as the parameters that learn; activations: what the
  forward pass leaves to the backward pass, whole where `model` would cut it. A compiler keeps less of that (it fuses)
  and needs more beside it, so this is no bound.
  """
  variant = run.variant
  mesh = AbstractMesh((variant.data, variant.fsdp, variant.model), sharding.MESH_AXES)
  rows = run.pictures // (variant.data * variant.fsdp)
  batch = {
    name: jax.ShapeDtypeStruct((rows // variant.microbatches, *shape[1:]), dtype)
    for name, (shape, dtype) in run.shapes.items()
  }
  rules = run.partitioning.logical_rules()
  state = plan_state(run.objective, run.optimizer, batch, mesh, rules, run.seed, run.rng_impl)
  parameters = memory.bytes_of_chip(state.target.params)
  learning, frozen = run.optimizer.split(state.target.params)
  fed = sum(rows * math.prod(shape[1:]) * np.dtype(dtype).itemsize for shape, dtype in run.shapes.values())
  return state.num_parameters, memory.Memory(
    parameters,
    memory.bytes_of_chip(state.target) - parameters,
    fed,
    _kept(run, learning, frozen, batch),
    memory.bytes_of_chip(learning),
    0,
  )


def _kept(run: Run, learning: Any, frozen: Any, batch: dict[str, Any]) -> int:
  """Bytes that the forward pass of a loss leaves to its backward pass, beside its arguments."""

  def forward(learning, frozen, batch, rng):
    return jax.vjp(
      lambda learning: run.objective.loss(merge(learning, frozen), batch, rng, False)[0], learning
    )[1]

  rng = jax.eval_shape(lambda: jax.random.key(0))
  jaxpr = jax.make_jaxpr(forward)(learning, frozen, batch, rng).jaxpr
  arguments = set(jaxpr.invars)
  kept = {value for value in jaxpr.outvars if isinstance(value, jax_core.Var)} - arguments
  return sum(math.prod(value.aval.shape) * value.aval.dtype.itemsize for value in kept)
