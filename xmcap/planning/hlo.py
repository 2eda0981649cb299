"""Reads the text of a compiled program (XLA's HLO): functions, loops, collectives and estimated cycles."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping

import numpy as np

from xmcap.errors import XmcapError

BETWEEN_SLICES = "between slices"
"""The kind of transfers between slices, which the hosts send over the data centre's network."""

_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition)=%?([\w.-]+)|branch_computations=\{([^}]*)\}")
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_LIMIT = re.compile(r"s32\[\]\S* constant\((\d+)\)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_NAME = re.compile(r'op_name="([^"]*)"')
# Of a kernel in Pallas: the compiler estimates nothing for it, and writes on three lines what the kernel says itself.
_KERNEL = 'custom_call_target="tpu_custom_call"'
_SAID = re.compile(r"kernel_metadata=\{\n([^}]*)\n\}")
_CORE_CYCLES = re.compile(r'"core_cycles":"(\d+)"')
_KERNEL_BYTES = re.compile(r'"bytes_accessed":"(\d+)"')
# At which the compiler's estimates for v4 read three large arrays of bfloat16 and write one, half of the memory's peak:
# five and three take 700, one and one 370.
_BYTES_PER_CYCLE = 580
# Of a `dot`, and of a call of cuBLAS.
_CONTRACTED = re.compile(r'lhs_contracting_dim(?:s=\{|ensions":\[)([\d,"]*)')
_OPERAND = re.compile(r"%([\w.-]+)")
# These start no kernel.
_FREE = (
  "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
  "opt-barrier",
)  # fmt: skip
# These apply a function to pairs of numbers, which does not count as a call.
_APPLIES = (
  "all-reduce", "all-reduce-start", "reduce-scatter", "reduce", "reduce-window", "scatter", "sort",
  "select-and-scatter",
)  # fmt: skip
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_BYTES = {"pred": 1, "s4": 0.5, "u4": 0.5, "c64": 8, "c128": 16}


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
  """A line of a function: `shape` is that of the result, `rest` follows the parenthesis, `root` marks the result."""

  name: str
  shape: str
  operation: str
  rest: str
  root: bool

  @property
  def called(self) -> list[str]:
    """Names of the functions that it calls."""
    if self.operation in _APPLIES:
      return []
    names = []
    for one, branches in _CALLED.findall(self.rest):
      names += re.findall(r"[\w.-]+", one or branches)
    return names


@dataclasses.dataclass(frozen=True, slots=True)
class Collective:
  """An exchange that a chip takes part in `count` times, of `bytes` in total; `kind` as in `Module.exchanges`.

  `group` holds the partitions (positions on the mesh) of one of its groups; empty: not known, or all. `dtypes` divides
  the bytes by XLA's names of element types. `kernels` is the number of kernels that are issued between the start and
  the end of the exchange, and `flops` are the operations of their matrix products: the work that it may overlap with.
  """

  kind: str
  count: int
  bytes: int
  group: tuple[int, ...] = ()
  dtypes: Mapping[str, int] = dataclasses.field(default_factory=dict)
  kernels: int = 0
  flops: int = 0


class Module:
  """A program: `functions` maps names to instructions in execution order, `main` is the entry function.

  `cores` is the number of TensorCores that share the work of a kernel in Pallas.
  """

  def __init__(self, text: str, cores: int = 1):
    self.cores = cores
    text = _SAID.sub(r"kernel_metadata={\1}", text)
    self.functions: dict[str, list[Instruction]] = {}
    self.main = ""
    instructions: list[Instruction] = []
    for line in text.splitlines():
      if header := _HEADER.match(line):
        instructions = self.functions.setdefault(header[2], [])
        self.main = header[2] if header[1] else self.main
      elif match := _INSTRUCTION.match(line):
        root, name, shape, operation, rest = match.groups()
        instructions.append(Instruction(name, shape, operation, rest, root is not None))

  @property
  def has_loops(self) -> bool:
    return any(one.operation == "while" for instructions in self.functions.values() for one in instructions)

  def cycles(self, unknown_trips: int = 1) -> int:
    """The compiler's estimate for one chip, without communication; 0 if it makes none (CPUs and GPUs).

    Loops with an unknown trip count count as `unknown_trips` iterations. A kernel in Pallas counts with the larger of
    what it says of its computing and of its bytes; one that says neither raises XmcapError.
    """
    return self._cycles(self.main, unknown_trips)

  def loop_cycles(self) -> list[int]:
    """The compiler's estimate of one iteration of each loop with an unknown trip count, wherever the loop is."""
    loops = [
      instruction
      for _, _, instruction in self._executed(self.main)
      if instruction.operation == "while" and not self._trips(instruction, 0)
    ]
    return [sum(map(self._cycles, loop.called)) for loop in loops]

  def exchanges(self) -> dict[str, dict[str, int]]:
    """The collectives of a chip by kind, such as `all-gather` or `BETWEEN_SLICES`: `count`, and total `bytes`."""
    totals: dict[str, dict[str, int]] = {}
    for one in self.collectives():
      all_of_kind = totals.setdefault(one.kind, {"count": 0, "bytes": 0})
      all_of_kind["count"] += one.count
      all_of_kind["bytes"] += one.bytes
    return totals

  def collectives(self) -> list[Collective]:
    """The collectives of a chip in execution order."""
    collectives = []
    beside: dict[str, dict[str, tuple[int, int]]] = {}
    for times, function, instruction in self._executed(self.main):
      if kind := _exchange_kind(instruction, function):
        if function not in beside:
          beside[function] = self._beside(function)
        work = (times * count for count in beside[function].get(instruction.name, (0, 0)))
        dtypes = {dtype: times * size for dtype, size in _exchanged(instruction).items()}
        size = sum(dtypes.values())
        collectives.append(Collective(kind, times, size, _group(instruction.rest), dtypes, *work))
    return collectives

  def _beside(self, function: str) -> dict[str, tuple[int, int]]:
    """Start of an exchange -> kernels that are issued before its end, and operations of their matrix products.

    Exchanges run one after the other: what is computed during several counts for the one that started first.
    """
    shapes = {one.name: one.shape for lines in self.functions.values() for one in lines}
    work_of: dict[str, tuple[int, int]] = {}
    running: dict[str, list[int]] = {}
    for one in self.functions[function]:
      if _exchange_kind(one, function):
        if one.operation.endswith("-start"):
          running[one.name] = [0, 0]
      elif one.operation.endswith("-done"):
        started = _OPERAND.search(one.rest)
        if started and started[1] in running:
          kernels, flops = running.pop(started[1])
          work_of[started[1]] = kernels, flops
      elif running and one.operation not in _FREE:
        for work in running.values():
          work[0] += 1
        next(iter(running.values()))[1] += self._flops(one, shapes)
    return work_of

  def _flops(self, instruction: Instruction, shapes: Mapping[str, str]) -> int:
    """Operations of the matrix products of an instruction and of the functions that it calls."""
    trips = self._trips(instruction, 1) if instruction.operation == "while" else 1
    executed = [(trips * times, one) for name in instruction.called for times, _, one in self._executed(name)]
    return sum(times * _product_flops(one, shapes) for times, one in ((1, instruction), *executed))

  def cycles_by_operation(self) -> Mapping[str, int]:
    """`cycles` divided by the operation of jax that an instruction computes, such as `jit(f)/vit/mlp/dot_general`."""
    cycles: collections.Counter[str] = collections.Counter()
    for times, _, instruction in self._executed(self.main):
      name = _NAME.search(instruction.rest)
      cycles[name[1] if name else ""] += times * self._cycles_of(instruction)
    return cycles

  def _cycles(self, function: str, unknown_trips: int = 1) -> int:
    total = 0
    for times, _, instruction in self._executed(function, unknown_trips):
      total += times * self._cycles_of(instruction)
    return total

  def _cycles_of(self, instruction: Instruction) -> int:
    if _KERNEL not in instruction.rest:
      return sum(map(int, _CYCLES.findall(instruction.rest)))
    computing, size = (pattern.search(instruction.rest) for pattern in (_CORE_CYCLES, _KERNEL_BYTES))
    if computing is None or size is None:
      raise XmcapError(
        f"no cycles are known of the kernel {instruction.name}: give its cost_estimate and core_cycles"
      )
    return round(max(int(computing[1]) / self.cores, int(size[1]) / _BYTES_PER_CYCLE))

  def _executed(
    self, function: str, unknown_trips: int = 1, times: int = 1
  ) -> Iterator[tuple[int, str, Instruction]]:
    """Yields (how often, its function, instruction) for all instructions in `times` runs of a function."""
    for instruction in self.functions.get(function, ()):
      yield times, function, instruction
      trips = self._trips(instruction, unknown_trips) if instruction.operation == "while" else 1
      for called in instruction.called:
        yield from self._executed(called, unknown_trips, times * trips)

  def _trips(self, loop: Instruction, unknown: int) -> int:
    """The trip count of a loop that counts from 0 up to a constant; `unknown` for other loops."""
    condition = _CONDITION.search(loop.rest)
    assert condition is not None, loop.rest
    lines = self.functions.get(condition[1], [])
    texts = [f"{line.shape} {line.operation}({line.rest}" for line in lines]
    limits = [match[1] for text in texts if (match := _LIMIT.search(text))]
    counts = any(line.root and "direction=LT" in line.rest for line in lines)
    return int(limits[0]) if counts and len(limits) == 1 else unknown


def array_bytes(shape: str) -> list[int]:
  """Bytes of each array in a shape as written in HLO."""
  sizes = []
  for dtype, dims in _ARRAY.findall(shape):
    bits = re.search(r"\d+", dtype)
    width = _BYTES.get(dtype) or (int(bits[0]) / 8 if bits else 0)
    sizes.append(int(width * math.prod(int(size) for size in dims.split(",") if size)))
  return sizes


def _exchange_kind(instruction: Instruction, function: str) -> str | None:
  if instruction.operation == "send" and "_xla_megascale_transfer_type" in instruction.rest:
    return BETWEEN_SLICES
  kind = instruction.operation.removesuffix("-start")
  # On TPUs a reduce-scatter is a fusion of an all-reduce and the slice that the chip keeps.
  if kind == "all-reduce" and function.startswith("all-reduce-scatter"):
    return "reduce-scatter"
  return kind if kind in _COLLECTIVES else None


def _exchanged(instruction: Instruction) -> dict[str, int]:
  """The larger of the bytes of the operands and of the results, by element type."""
  shape, operation = instruction.shape, instruction.operation
  times = _group_size(instruction.rest) if operation == "reduce-scatter" else 1
  if operation == "send" or (operation.endswith("-start") and operation != "all-reduce-start"):
    # Operands and results are listed together; each may be a tuple, of exchanges that were combined.
    shape = max(_elements(shape), key=lambda part: sum(array_bytes(part)))
  sizes: collections.Counter[str] = collections.Counter()
  for (dtype, _), size in zip(_ARRAY.findall(shape), array_bytes(shape), strict=True):
    sizes[dtype] += times * size
  return dict(sizes)


def _elements(shape: str) -> list[str]:
  """`(f32[2]{0}, (s32[], f32[4]))`: the elements of a tuple, `f32[2]{0}` and `(s32[], f32[4])`; of an array, itself."""
  if not shape.startswith("("):
    return [shape]
  parts, depth = [""], 0
  for sign in shape[1:-1]:
    depth += (sign in "([{") - (sign in ")]}")
    if sign == "," and not depth:
      parts.append("")
    else:
      parts[-1] += sign
  return parts


def _product_flops(one: Instruction, shapes: Mapping[str, str]) -> int:
  """Operations of a matrix product; 0 if the instruction is none, or calls another library than cuBLAS."""
  contracted, operand = _CONTRACTED.search(one.rest), _OPERAND.search(one.rest)
  if contracted is None or operand is None:
    return 0
  result, factor = (_ARRAY.search(shape) for shape in (one.shape, shapes.get(operand[1], "")))
  if result is None or factor is None:
    return 0
  sizes = [int(size) for size in factor[2].split(",") if size]
  inner = math.prod(sizes[int(axis)] for axis in re.findall(r"\d+", contracted[1]))
  return 2 * inner * math.prod(int(size) for size in result[2].split(",") if size)


def _group_size(rest: str) -> int:
  if group := _group(rest):
    return len(group)
  raise ValueError(f"unknown notation of replica groups: {rest[:200]}")


def _group(rest: str) -> tuple[int, ...]:
  """The partitions of a collective's first group; () if none are written.

  XLA writes `{{0,1},{2,3}}`, `[2,2]<=[4]`, `[2,2]<=[2,2]T(1,0)`, or axes of a mesh or parts of them,
  `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a','b':(2)2}`, where (2)2 follows a part of 2; and pairs of a permute.
  """
  if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{\{([\d, ]+)\}", rest):
    return tuple(map(int, listed[1].split(",")))
  if iota := re.search(r"replica_groups=\[\d+,(\d+)\]<=(\S+)", rest):
    return tuple(_iota(iota[2]).flat[: int(iota[1])].tolist())
  mesh = re.search(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(((?:[^()]|\([^()]*\))*)\))? \{([^}]*)\}", rest
  )
  if mesh is None:
    return ()
  parts: dict[str, list[tuple[int, int]]] = {}
  sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", mesh[1])}
  for axis, before, part in re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", mesh[3]):
    parts.setdefault(axis, []).append((int(before), int(part)) if part else (1, sizes[axis]))
  shape, index = [], []
  for axis, size in sizes.items():
    done = 1
    for before, part in sorted(parts.get(axis, ())):
      shape += [before // done, part]
      index += [0, slice(None)]
      done = before * part
    shape.append(size // done)
    index.append(0)
  order = _iota(mesh[2]) if mesh[2] else np.arange(math.prod(shape))
  return tuple(order.reshape(shape)[tuple(index)].reshape(-1).tolist())


def _iota(text: str) -> np.ndarray:
  """`[4,2]T(1,0)`, a transposed count from 0, or numbers one by one: int [N]."""
  match = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
  if match is None:
    return np.array(text.split(","), int)
  shape = [int(size) for size in match[1].split(",")]
  array = np.arange(math.prod(shape)).reshape(shape)
  return (array.transpose([int(axis) for axis in match[2].split(",")]) if match[2] else array).reshape(-1)
