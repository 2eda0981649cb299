"""The text of a compiled program (XLA's HLO), taken apart: functions, their instructions, how often each runs."""

import collections
import dataclasses
import functools
import math
import re

_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition)=%?([\w.-]+)|branch_computations=\{([^}]*)\}")
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_LIMIT = re.compile(r"s32\[\]\S* constant\((\d+)\)")
# What these apply to pairs of numbers is no call.
_APPLIES = (
  "all-reduce", "all-reduce-start", "reduce-scatter", "reduce", "reduce-window", "scatter", "sort",
  "select-and-scatter",
)  # fmt: skip
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\](?:\{([^{}]*)\})?")
_BYTES = {"pred": 1, "s4": 0.5, "u4": 0.5, "c64": 8, "c128": 16}


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
  """A line of a function.

  Attributes:
    name: of its result.
    shape: of its result, as written: types, sizes, layouts.
    operation: such as `fusion`.
    rest: what follows the operation's parenthesis: operands, attributes.
    root: whether it gives the function's result.
  """

  name: str
  shape: str
  operation: str
  rest: str
  root: bool

  @property
  def operands(self) -> list[str]:
    """The names of its operands, in order."""
    return _OPERAND.findall(self.rest.split("), ", maxsplit=1)[0])

  @property
  def called(self) -> list[str]:
    """The functions that it runs."""
    if self.operation in _APPLIES:
      return []
    names = []
    for one, branches in _CALLED.findall(self.rest):
      names += [one] if one else re.findall(r"%?([\w.-]+)", branches)
    return names


class Module:
  """A program's functions.

  Attributes:
    functions: name -> instructions, in the order in which they run.
    main: the name of the function that all starts from.
  """

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

  @functools.cached_property
  def times(self) -> dict[str, int]:
    """How often each function runs in one run of the program; those that do not run are left out.

    A loop that counts up to a constant counts as often as it runs, another once.
    """
    calls: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    for name, instructions in self.functions.items():
      for instruction in instructions:
        loops = instruction.operation == "while"
        trips = self._limit(_CONDITION.search(instruction.rest)[1]) if loops else 1
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
    for name in reversed(order):  # callers come before those they call
      for called, trips in calls.get(name, ()):
        times[called] += times[name] * trips
    return times

  @property
  def has_loops(self) -> bool:
    """Whether any function has a loop."""
    return any(one.operation == "while" for instructions in self.functions.values() for one in instructions)

  def _limit(self, condition: str) -> int:
    """How often a loop runs that counts up from 0 while `condition` holds; 1 where that is not seen."""
    lines = self.functions.get(condition, [])
    limits = [
      found[1] for line in lines if (found := _LIMIT.search(f"{line.shape} {line.operation}({line.rest}"))
    ]
    counts = any(line.root and "direction=LT" in line.rest for line in lines)
    return int(limits[0]) if counts and len(limits) == 1 else 1


def arrays(shape: str) -> list[tuple[int, bool]]:
  """The arrays of a written shape, a tuple's one by one: (bytes, whether in the chip's main memory).

  Other memories are named behind the layout: `f32[8]{0:T(128)S(3)}`.
  """
  return [(shape_bytes(dtype, dims), "S(" not in layout) for dtype, dims, layout in _ARRAY.findall(shape)]


def shape_bytes(dtype: str, dims: str) -> int:
  """Bytes of an array that HLO writes as `dtype[dims]`; 0 of what is no array, such as a token."""
  bits = re.search(r"\d+", dtype)
  each = _BYTES.get(dtype) or (int(bits[0]) / 8 if bits else 0)
  return int(each * math.prod(int(size) for size in dims.split(",") if size))
