"""Bytes that a compiled program moves between a chip and its main memory (HBM).

XLA's own count ("bytes accessed") takes the chip's small fast memories for HBM: what is fetched into one and read there
counts three times, and a slice that is fetched as all that it is cut from. Here an array counts where it lies in HBM,
once for each instruction that reads or writes it, a slice as itself, and a loop's body as often as it runs.
"""

from xmcap.planning.hlo import Instruction, Module, arrays

# These move nothing: they name what is there, or run functions that are counted by themselves.
_MOVES_NOTHING = (
  "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "optimization-barrier", "after-all",
  "while", "conditional", "call", "partition-id", "replica-id",
)  # fmt: skip
_SLICES = ("slice", "dynamic-slice", "gather")


def hbm_bytes(module: Module) -> int:
  """Bytes read from and written to HBM in one run, a chip."""
  total = 0
  for name in _running(module):
    instructions = module.functions[name]
    shapes = {one.name: one.shape for one in instructions}
    total += module.times[name] * sum(_moved(one, shapes, module) for one in instructions)
  return total


def _running(module: Module) -> list[str]:
  """The functions whose instructions run one after the other; those of a fusion keep their results to themselves."""
  names = [module.main]
  for name in names:
    for instruction in module.functions[name]:
      if instruction.operation != "fusion":
        names += [one for one in instruction.called if one in module.functions and one not in names]
  return names


def _moved(instruction: Instruction, shapes: dict[str, str], module: Module) -> int:
  operation, result = instruction.operation, arrays(instruction.shape)
  if operation in _MOVES_NOTHING or operation.endswith(("-done", "-update")):
    return 0
  if "ConcatBitcast" in instruction.rest:  # joins slices that lie side by side already
    return 0
  if operation in ("copy-start", "slice-start"):
    # Source and destination, in one order or the other: as much is read as is written.
    ends = result[:2]
    return min(size for size, _ in ends) * sum(in_hbm for _, in_hbm in ends)
  if operation.endswith("-start") and operation != "all-reduce-start":
    return _in_hbm(result)  # operands are among the results
  operands = [arrays(shapes.get(name, "")) for name in instruction.operands]
  if operation in _SLICES:
    return _in_hbm(result) + sum(size for size, _ in result) * bool(_in_hbm(operands[0]))
  if operation == "dynamic-update-slice":
    return _in_hbm(operands[1]) + sum(size for size, _ in operands[1]) * bool(_in_hbm(result))
  if operation == "fusion":
    inside = _Inside(module, instruction.called[0])
    read = sum(min(size, inside.read_of(number, size)) for number, size in enumerate(map(_in_hbm, operands)))
    written = zip(result, inside.updates(len(result)), strict=True)
    return read + sum(size if update is None else update for (size, in_hbm), update in written if in_hbm)
  return sum(map(_in_hbm, operands)) + _in_hbm(result)


def _in_hbm(found: list[tuple[int, bool]]) -> int:
  return sum(size for size, in_hbm in found if in_hbm)


class _Inside:
  """The function of a fusion: what it takes of its operands, and what of its results is new."""

  def __init__(self, module: Module, name: str):
    self._module = module
    self._instructions = {one.name: one for one in module.functions[name]}
    self._parameters = {
      int(one.rest.split(")")[0]): one.name
      for one in self._instructions.values()
      if one.operation == "parameter"
    }

  def read_of(self, number: int, whole: int) -> int:
    """Bytes read of an operand of so many: of one that is only sliced the slices, of one that is updated nothing."""
    return self._read_of(self._parameters[number], whole) if whole else 0

  def _read_of(self, name: str, whole: int) -> int:
    total = 0
    for user in self._instructions.values():
      for number, operand in enumerate(user.operands if user.operation != "parameter" else ()):
        if operand != name:
          continue
        if user.operation == "bitcast":
          total += self._read_of(user.name, whole)
        elif user.operation == "fusion":
          total += _Inside(self._module, user.called[0]).read_of(number, whole)
        elif user.operation in _SLICES and number == 0:
          total += _size(user)
        elif user.operation != "dynamic-update-slice" or number != 0:
          return whole
    return total

  def updates(self, count: int) -> list[int | None]:
    """Of each result the bytes of what it updates an operand with; None where it is all new."""
    root = next(one for one in self._instructions.values() if one.root)
    roots = [self._instructions[name] for name in root.operands] if root.operation == "tuple" else [root]
    return [self._update(one) for one in roots] if len(roots) == count else [None] * count

  def _update(self, root: Instruction) -> int | None:
    while root.operation == "bitcast":
      root = self._instructions[root.operands[0]]
    if root.operation == "fusion":
      return _Inside(self._module, root.called[0]).updates(1)[0]
    return _size(self._instructions[root.operands[1]]) if root.operation == "dynamic-update-slice" else None


def _size(instruction: Instruction) -> int:
  return sum(size for size, _ in arrays(instruction.shape))
