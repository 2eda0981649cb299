"""The text of a compiled program (XLA's HLO): functions, loops, collectives, and the cycles the compiler expects."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterable

import numpy as np

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")

_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition)=%?([\w.-]+)|branch_computations=\{([^}]*)\}")
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_LIMIT = re.compile(r"s32\[\]\S* constant\((\d+)\)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# These apply a function to pairs of numbers, which is no call.
_APPLIES = (
  "all-reduce", "all-reduce-start", "reduce-scatter", "reduce", "reduce-window", "scatter", "sort",
  "select-and-scatter",
)  # fmt: skip
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_BYTES = {"pred": 1, "s4": 0.5, "u4": 0.5, "c64": 8, "c128": 16}
# Hosts send between slices; `_xla_megascale_target="{1,2}x{0:3}"` is slices x chips of a slice.
_BETWEEN_SLICES = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target="\{([\d,:]+)\}x\{([\d,:]+)\}"')


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
  """A line of a function: `shape` is that of its result, `rest` follows the parenthesis, `root` gives the result."""

  name: str
  shape: str
  operation: str
  rest: str
  root: bool

  @property
  def called(self) -> list[str]:
    """The functions that it runs."""
    if self.operation in _APPLIES:
      return []
    names = []
    for one, branches in _CALLED.findall(self.rest):
      names += [one] if one else re.findall(r"%?([\w.-]+)", branches)
    return names


@dataclasses.dataclass(frozen=True)
class Collective:
  """An exchange between chips.

  Attributes:
    kind: one of `COLLECTIVES`.
    size: bytes of the whole array that one chip reduces, gathers, scatters or sends.
    group: positions in the mesh (row-major) of one group of chips; of a permutation, one pair; between slices, one chip
      of each.
    times: how often it runs in one run of the program.
  """

  kind: str
  size: int
  group: tuple[int, ...]
  times: int = 1


class Module:
  """A program: `functions` maps names to instructions in the order in which they run, `main` is the entry."""

  def __init__(self, text: str):
    self.functions: dict[str, list[Instruction]] = {}
    self.main = ""
    instructions: list[Instruction] = []
    for line in text.splitlines():
      if header := _HEADER.match(line):
        instructions = self.functions.setdefault(header[2], [])
        self.main = header[2] if header[1] else self.main
      elif found := _INSTRUCTION.match(line):
        root, *parts = found.groups()
        instructions.append(Instruction(*parts, root is not None))

  @property
  def has_loops(self) -> bool:
    """Whether any function has a loop."""
    return any(one.operation == "while" for instructions in self.functions.values() for one in instructions)

  def cycles(self, unknown_trips: int = 1) -> int:
    """The compiler's estimate for one chip, collectives left out; 0 where it makes none (CPUs and GPUs).

    Args:
      unknown_trips: how often a loop runs whose number of runs the program does not say.
    """
    return sum(
      times * int(cycles)
      for name, times in self._runs(unknown_trips).items()
      for instruction in self.functions.get(name, ())
      for cycles in _CYCLES.findall(instruction.rest)
    )

  def collectives(self) -> tuple[Collective, ...]:
    """All exchanges between chips.

    Raises:
      ValueError: the groups of a collective are written in an unknown way.
    """
    collectives = []
    for name, times in self._runs(1).items():
      for instruction in self.functions.get(name, ()):
        if found := _collective(instruction):
          # A TPU's reduce-scatter is a fusion of an all-reduce and the slice that a chip keeps.
          scattered = found.kind == "all-reduce" and name.startswith("all-reduce-scatter")
          kind = "reduce-scatter" if scattered else found.kind
          collectives.append(dataclasses.replace(found, kind=kind, times=times))
    return tuple(collectives)

  def _runs(self, unknown_trips: int) -> dict[str, int]:
    """How often each function runs in one run of the program; functions that do not run are left out."""
    calls: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    for name, instructions in self.functions.items():
      for instruction in instructions:
        trips = 1
        if instruction.operation == "while":
          trips = self._trips(_CONDITION.search(instruction.rest)[1]) or unknown_trips
        calls[name] += [(called, trips) for called in instruction.called]
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
      if name not in seen:
        seen.add(name)
        for called, _ in calls.get(name, ()):
          visit(called)
        order.append(name)

    visit(self.main)
    times = collections.Counter({self.main: 1})
    for name in reversed(order):  # callers come before the functions that they call
      for called, trips in calls.get(name, ()):
        times[called] += times[name] * trips
    return times

  def _trips(self, condition: str) -> int | None:
    """How often a loop runs that counts from 0 up to a constant; None for other loops."""
    lines = self.functions.get(condition, [])
    limits = [
      found[1] for line in lines if (found := _LIMIT.search(f"{line.shape} {line.operation}({line.rest}"))
    ]
    counts = any(line.root and "direction=LT" in line.rest for line in lines)
    return int(limits[0]) if counts and len(limits) == 1 else None


def array_bytes(shape: str) -> list[int]:
  """Bytes of the arrays of a shape as HLO writes it, those of a tuple one by one."""
  sizes = []
  for dtype, dims in _ARRAY.findall(shape):
    bits = re.search(r"\d+", dtype)
    each = _BYTES.get(dtype) or (int(bits[0]) / 8 if bits else 0)
    sizes.append(int(each * math.prod(_numbers(dims))))
  return sizes


def totals_by_kind(exchanges: Iterable[Collective]) -> dict[str, tuple[int, int]]:
  """Kind -> (number of collectives, bytes of their arrays together), for one run and chip."""
  totals: dict[str, tuple[int, int]] = {}
  for one in exchanges:
    count, size = totals.get(one.kind, (0, 0))
    totals[one.kind] = (count + one.times, size + one.times * one.size)
  return totals


def first_group(text: str) -> tuple[int, ...]:
  """The first of the groups of chips, whose order and size are those of all.

  Args:
    text: as XLA writes it: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `[2,2]<=[2,2]T(1,0)` or `mesh['a'=2,'b'=2] {'a'}`.

  Raises:
    ValueError: it is none of these.
  """
  if listed := re.match(r"\{\{([\d, ]+)\}", text):
    return _numbers(listed[1])
  if iota := re.match(r"\[\d+,(\d+)\]<=(\[[\d,]+\](?:T\([\d,]+\))?)", text):
    return tuple(_device_ids(iota[2]).reshape(-1)[: int(iota[1])].tolist())
  if mesh := re.match(r"mesh\[([^\]]*)\](?:, device_ids=\((\[[^)]*\)?)\))? \{([^}]*)\}", text):
    return _group_of_mesh(*mesh.groups())
  raise ValueError(f"groups of chips written in an unknown way: {text[:100]}")


def _collective(instruction: Instruction) -> Collective | None:
  operation, shape, rest = instruction.operation, instruction.shape, instruction.rest
  if operation == "send" and _BETWEEN_SLICES.search(rest):
    return _between_slices(shape, rest)
  kind = operation.removesuffix("-start")
  if kind not in COLLECTIVES:
    return None
  group = _group(kind, rest)
  sizes = array_bytes(shape)
  if operation.endswith("-start") and kind != "all-reduce":
    # Operands and results together, and counters: the largest is the whole array.
    return Collective(kind, max(sizes), group)
  return Collective(kind, sum(sizes) * (len(group) if kind == "reduce-scatter" else 1), group)


def _between_slices(shape: str, rest: str) -> Collective:
  """The exchange that one chip makes for its slice; the mesh holds the slices one after the other."""
  kind = _BETWEEN_SLICES.search(rest)[1].lower().replace("_", "-")
  kind = "collective-permute" if kind == "one-to-one" else kind
  target = _TARGET.search(rest)
  if kind not in COLLECTIVES or target is None:
    raise ValueError(f"an exchange between slices that is written in an unknown way: {rest[:200]}")
  slices, chips = (_count(part) for part in target.groups())
  size = array_bytes(shape)[0] * (slices if kind == "all-gather" else 1)
  return Collective(kind, size, tuple(number * chips for number in range(slices)))


def _count(text: str) -> int:
  """How many numbers `1,2` or `0:3` are."""
  ends = [tuple(map(int, part.split(":"))) for part in text.split(",")]
  return sum(end[-1] - end[0] + 1 for end in ends)


def _group(kind: str, rest: str) -> tuple[int, ...]:
  if kind == "collective-permute":
    pair = re.search(r"source_target_pairs=\{\{(\d+,\d+)\}", rest)
    return _numbers(pair[1]) if pair else ()
  text = re.search(r"replica_groups=(.*?)(?:, (?!device_ids)\w+=|$)", rest)
  if text is None:
    raise ValueError(f"{kind} without replica_groups: {rest[:200]}")
  return first_group(text[1])


def _group_of_mesh(sizes: str, order: str | None, inside: str) -> tuple[int, ...]:
  """The first group along some axes of a mesh; `'a':(2)4` are the 4 parts of `a` that have 2 parts before them."""
  axes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", sizes)}
  ids = _device_ids(order) if order else np.arange(math.prod(axes.values()))
  ids = ids.reshape(tuple(axes.values()))
  places = [dict.fromkeys(axes, 0)]
  for name, before, size in re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", inside):
    count = int(size or axes[name])
    stride = axes[name] // (int(before or 1) * count)
    places = [{**place, name: place[name] + n * stride} for place in places for n in range(count)]
  return tuple(int(ids[tuple(place.values())]) for place in places)


def _device_ids(text: str) -> np.ndarray:
  """`[2,4]T(1,0)` -> the numbers 0 to 7 in that shape, transposed."""
  shape, _, order = text.partition("T")
  sizes = _numbers(shape.strip("[]"))
  ids = np.arange(math.prod(sizes)).reshape(sizes)
  return ids.transpose(_numbers(order.strip("()"))) if order else ids


def _numbers(text: str) -> tuple[int, ...]:
  return tuple(int(number) for number in text.split(",") if number)
