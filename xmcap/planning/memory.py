"""What fills a chip's memory when it is fullest, by kind."""

import dataclasses
import math
import re
from typing import Any

import jax

from xmcap.planning import hlo
from xmcap.training.state import StatePlan

_OP_NAME = re.compile(r'op_name="([^"]*)"')
# These give another name to what is there.
_ALIASES = ("bitcast", "get-tuple-element", "tuple", "optimization-barrier")
# The state and constants are there all the time; what is sent off arrives with the instruction that ends it.
_NO_BUFFER = ("parameter", "constant", "after-all", "partition-id", "replica-id")


@dataclasses.dataclass(frozen=True)
class Memory:
  """Bytes of one chip, at the moment when its memory is fullest.

  `activations` are what the forward pass made, `gradients` what the backward pass made; `scratch` is all else that the
  compiler sets aside.
  """

  parameters: int
  optimizer: int
  batch: int
  activations: int
  gradients: int
  scratch: int

  @property
  def total(self) -> int:
    """All kinds together."""
    return sum(dataclasses.astuple(self))


def of_step(plan: StatePlan, compiled: Any, module: hlo.Module) -> Memory:
  """The memory of a compiled training step.

  The compiler says how much it sets aside beside the arguments; how that divides into kinds is read from its
  schedule: which arrays live when most do.

  Args:
    plan: of the state, an argument that is given away.
    compiled: the step.
    module: of its text.
  """
  analysis = compiled.memory_analysis()
  parameters = bytes_of_chip(plan.target.params)
  state = bytes_of_chip(plan.target)
  temporary = analysis.temp_size_in_bytes
  # Results that do not take an argument's place are there beside it.
  beside = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
  kinds = _live_at_peak(module)
  known = sum(kinds.values())
  scale = temporary / known if known > temporary else 1.0
  activations, gradients = (int(scale * kinds[kind]) for kind in ("activations", "gradients"))
  return Memory(
    parameters,
    state - parameters,
    max(0, analysis.argument_size_in_bytes - state),
    activations,
    gradients,
    temporary - activations - gradients + beside + analysis.generated_code_size_in_bytes,
  )


def bytes_of_chip(tree: Any) -> int:
  """Bytes of one chip of shapes with shardings, as they lie, without the padding of their layouts."""
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)
  )


def _live_at_peak(module: hlo.Module) -> dict[str, int]:
  """Kind -> bytes of the arrays in main memory that live when most do, but for arguments and results."""
  made: dict[str, tuple[int, int, str]] = {}
  stands_for: dict[str, tuple[str, ...]] = {}
  last_use: dict[str, int] = {}
  results: set[str] = set()
  kinds: dict[str, str] = {}
  for index, one in enumerate(module.functions[module.main]):
    name, operation, operands = one.name, one.operation, one.operands
    origins = {origin for operand in operands for origin in stands_for.get(operand, (operand,))}
    for origin in origins:
      last_use[origin] = index
    if one.root:
      results |= origins if operation in _ALIASES else {name}
    if operation in _ALIASES:
      stands_for[name] = tuple(origins)
    found = _OP_NAME.search(one.rest)
    # What only moves an array between memories has no name of its own.
    kinds[name] = (
      _kind(found[1])
      if found
      else next((kinds[operand] for operand in operands if operand in kinds), "scratch")
    )
    if operation not in (*_ALIASES, *_NO_BUFFER):
      size = sum(size for size, in_hbm in hlo.arrays(one.shape) if in_hbm)
      if operation.endswith("-start"):
        continue
      made[name] = (index, size, kinds[name])
  changes: dict[int, dict[str, int]] = {}
  for name, (index, size, kind) in made.items():
    if name in results or not size:
      continue
    for moment, sign in ((index, 1), (last_use.get(name, index) + 1, -1)):
      at = changes.setdefault(moment, {})
      at[kind] = at.get(kind, 0) + sign * size
  now = dict.fromkeys(("activations", "gradients", "scratch"), 0)
  peak = dict(now)
  for moment in sorted(changes):
    for kind, change in changes[moment].items():
      now[kind] += change
    if sum(now.values()) > sum(peak.values()):
      peak = dict(now)
  return peak


def _kind(op_name: str) -> str:
  if "transpose(" in op_name:
    return "gradients"
  return "activations" if "jvp(" in op_name else "scratch"
