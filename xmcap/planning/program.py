"""What a compiled program's text says: its collectives, its traffic, and the cycles that its compiler expects.

Loops are counted as often as they run, functions as often as they are called.
"""

import dataclasses
import math
import re
from collections.abc import Iterable

import numpy as np

from xmcap.planning import hlo, traffic

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# What goes between slices is sent by the hosts: `_xla_megascale_target="{1,2}x{0:3}"` are slices x chips of a slice.
_BETWEEN_SLICES = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target="\{([\d,:]+)\}x\{([\d,:]+)\}"')


@dataclasses.dataclass(frozen=True)
class Collective:
  """An exchange between chips.

  Attributes:
    kind: one of `KINDS`.
    size: bytes of the whole array that is reduced, gathered, scattered or sent, a chip.
    group: the positions in the mesh (row-major) of one group of chips that take part; of a permutation, its pairs
      in a row; between slices, a chip of each.
    times: so often a step.
  """

  kind: str
  size: int
  group: tuple[int, ...]
  times: int = 1


@dataclasses.dataclass(frozen=True)
class Program:
  """What one run of a program comes to.

  Attributes:
    collectives: all of them.
    cycles: the sum of the compiler's estimates for a chip, without collectives; 0 where it makes none (CPUs).
    cycles_once: the same with each loop run once.
    loops: whether it has loops; those that count up to a constant are counted as often as they run, others once.
    traffic: bytes between the chip and its main memory.
  """

  collectives: tuple[Collective, ...]
  cycles: int
  cycles_once: int
  loops: bool
  traffic: int


def read(module: hlo.Module) -> Program:
  """What the text of a compiled program comes to.

  Raises:
    ValueError: a collective whose groups are written in a way that is not known.
  """
  collectives, cycles, once = [], 0, 0
  for name, times in module.times.items():
    for instruction in module.functions.get(name, ()):
      if found := _collective(instruction):
        # A TPU's reduce-scatter is written as a fusion of an all-reduce and the slice that a chip keeps.
        scattered = found.kind == "all-reduce" and name.startswith("all-reduce-scatter")
        kind = "reduce-scatter" if scattered else found.kind
        collectives.append(dataclasses.replace(found, kind=kind, times=times))
      own = sum(map(int, _CYCLES.findall(instruction.rest)))
      cycles += times * own
      once += own
  return Program(tuple(collectives), cycles, once, module.has_loops, traffic.hbm_bytes(module))


def _collective(instruction: hlo.Instruction) -> Collective | None:
  operation, shape, rest = instruction.operation, instruction.shape, instruction.rest
  if operation == "send" and _BETWEEN_SLICES.search(rest):
    return _between_slices(shape, rest)
  kind = operation.removesuffix("-start")
  if kind not in KINDS:
    return None
  group = _group(kind, rest)
  return Collective(kind, _size(kind, shape, operation, len(group)), group)


def _size(kind: str, shape: str, operation: str, chips: int) -> int:
  sizes = [size for size, _ in hlo.arrays(shape)]
  if operation.endswith("-start") and kind != "all-reduce":
    # Operands and results together, and counters of no size that matters: the largest is the whole array.
    return max(sizes)
  return sum(sizes) * (chips if kind == "reduce-scatter" else 1)


def _between_slices(shape: str, rest: str) -> Collective:
  """What a chip sends for its slice; the mesh holds the slices one after the other."""
  kind = _BETWEEN_SLICES.search(rest)[1].lower().replace("_", "-")
  kind = "collective-permute" if kind == "one-to-one" else kind
  target = _TARGET.search(rest)
  if kind not in KINDS or target is None:
    raise ValueError(f"an exchange between slices that is written in an unknown way: {rest[:200]}")
  slices, chips = (_count(part) for part in target.groups())
  size = hlo.arrays(shape)[0][0] * (slices if kind == "all-gather" else 1)
  return Collective(kind, size, tuple(number * chips for number in range(slices)))


def _count(text: str) -> int:
  """How many numbers `1,2` or `0:3` are."""
  ends = [tuple(map(int, part.split(":"))) for part in text.split(",")]
  return sum(end[-1] - end[0] + 1 for end in ends)


def _group(kind: str, rest: str) -> tuple[int, ...]:
  if kind == "collective-permute":
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", rest)
    first = re.findall(r"\d+", pairs[1])[:2] if pairs else []
    return tuple(map(int, first))
  text = re.search(r"replica_groups=(.*?)(?:, (?!device_ids)\w+=|$)", rest)
  if text is None:
    raise ValueError(f"{kind} without replica_groups: {rest[:200]}")
  return groups(text[1])[0]


def groups(text: str) -> list[tuple[int, ...]]:
  """Groups of chips, as XLA writes them: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `[2,2]<=[2,2]T(1,0)`, `mesh['a'=2,...] {'a'}`.

  Raises:
    ValueError: it is none of these.
  """
  if text.startswith("{"):
    return [tuple(map(int, re.findall(r"\d+", group))) for group in re.findall(r"\{([\d, ]+)\}", text)]
  iota = re.match(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
  if iota:
    ids = np.arange(math.prod(_numbers(iota[2]))).reshape(_numbers(iota[2]))
    ids = ids.transpose(_numbers(iota[3])) if iota[3] else ids
    return [tuple(row) for row in ids.reshape(_numbers(iota[1])).tolist()]
  mesh = re.match(r"mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}", text)
  if mesh:
    return _mesh_groups(*mesh.groups(default=""))
  raise ValueError(f"groups of chips written in an unknown way: {text[:100]}")


def _mesh_groups(sizes: str, order: str, transposed: str, inside: str) -> list[tuple[int, ...]]:
  """Groups along some axes of a mesh, `'a'=4,'b'=2`; `'a':(2)2` is that part of an axis of which 2 come before."""
  axes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", sizes)}
  ids = np.arange(math.prod(axes.values()))
  if order:
    ids = ids.reshape(_numbers(order))
    ids = ids.transpose(_numbers(transposed)) if transposed else ids
  parts: dict[tuple[str, int], int] = {}
  wanted = [
    (name, int(before or 1), int(size or axes[name]))
    for name, before, size in re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", inside)
  ]
  for name, size in axes.items():
    cuts = sorted(
      {1, size, *(cut for axis, before, part in wanted if axis == name for cut in (before, before * part))}
    )
    parts |= {(name, low): high // low for low, high in zip(cuts, cuts[1:], strict=False)}
    if len(cuts) == 1:
      parts[name, 1] = size
  ids = ids.reshape(tuple(parts.values()))
  inner = [list(parts).index((name, before)) for name, before, _ in wanted]
  outer = [dim for dim in range(len(parts)) if dim not in inner]
  count = math.prod(ids.shape[dim] for dim in inner)
  return [tuple(row) for row in ids.transpose(outer + inner).reshape(-1, count).tolist()]


def _numbers(text: str) -> tuple[int, ...]:
  return tuple(int(number) for number in text.split(","))


def by_kind(collectives: Iterable[Collective]) -> dict[str, tuple[int, int]]:
  """Kind -> (how many, bytes of their arrays together), a step and chip."""
  totals: dict[str, tuple[int, int]] = {}
  for collective in collectives:
    count, size = totals.get(collective.kind, (0, 0))
    totals[collective.kind] = (count + collective.times, size + collective.times * collective.size)
  return totals
