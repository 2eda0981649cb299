"""TPU slices by their usual names, their chips' specifications, and devices to compile for on a host without a TPU."""

import dataclasses
import importlib.util
import itertools
import math
import os
import re
from collections.abc import Iterator

from xmcap import quiet
from xmcap.errors import UsageError
from xmcap.planning import gpus
from xmcap.planning.gpus import GpuNode
from xmcap.training.reporting.chips import PEAK_FLOPS


@dataclasses.dataclass(frozen=True)
class ChipKind:
  """Published specifications of a chip."""

  name: str
  platform: str  # libtpu's name
  flops: float  # peak bfloat16 operations per second
  hbm: float  # bytes of memory that a program may use
  link_bandwidth: float  # bytes per second and direction of a link; two links along each axis of a slice
  clock: float | None  # cycles per second of a TensorCore; None if not published
  dimensions: int  # of the torus
  cores_in_name: bool  # `v4-128` counts TensorCores, two per chip; `v6e-64` counts chips
  host_cores: int  # virtual CPUs of a host with four chips


# Sources: cloud.google.com/tpu/docs, the pages v4, v5e, v5p, v6e (interconnect of all links of a chip in both
# directions: 2,400, 1,600, 4,800 and 3,584 Gbit/s), and jax-ml.github.io/scaling-book/tpus (one link in one direction,
# clock of v5e). Clock of v4: Jouppi et al., "TPU v4" (ISCA 2023), Table 4. The memory is the limit that libtpu 0.0.42
# reports when a program needs more.
CHIPS = {
  chip.name: chip
  for chip in (
    ChipKind("v4", "v4", PEAK_FLOPS["TPU v4"], 30.75 * 2**30, 45e9, 1.05e9, 3, True, 240),
    ChipKind("v5e", "v5e", PEAK_FLOPS["TPU v5 lite"], 15.75 * 2**30, 45e9, 1.5e9, 2, False, 112),
    ChipKind("v5p", "v5", PEAK_FLOPS["TPU v5"], 95.74 * 2**30, 90e9, 1.75e9, 3, True, 208),
    ChipKind("v6e", "v6e", PEAK_FLOPS["TPU v6 lite"], 31.25 * 2**30, 90e9, None, 2, False, 180),
  )
}
DCN_BANDWIDTH_OF_HOST = 25e9
"""Bytes per second between slices, for one host: 200 Gbit/s (cloud.google.com/tpu/docs)."""
CHIPS_PER_HOST = 4
"""In all of these slices; arranged 2 x 2."""
_HOST = (2, 2, 1)
_NO_TPU_HERE = {
  "TPU_SKIP_MDS_QUERY": "1",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "TPU_ACCELERATOR_TYPE": "v4-8",
  "TPU_WORKER_HOSTNAMES": "localhost",
}
_AS_ON_A_TPU_VM = "JAX_FORCE_TPU_INIT"


@dataclasses.dataclass(frozen=True)
class Topology:
  """Slices of one kind of chip, joined by the data centre's network; `shape` counts the chips along each axis."""

  chip: ChipKind
  shape: tuple[int, ...]
  slices: int = 1

  @property
  def name(self) -> str:
    """Such as `v4:4x4x4`, or `2*v4:4x4x4`."""
    text = f"{self.chip.name}:{'x'.join(map(str, self.shape))}"
    return text if self.slices == 1 else f"{self.slices}*{text}"

  @property
  def usual_name(self) -> str:
    """The accelerator type of one slice, such as `v4-128`."""
    chips = math.prod(self.shape)
    return f"{self.chip.name}-{2 * chips if self.chip.cores_in_name else chips}"

  @property
  def chips(self) -> int:
    return self.slices * math.prod(self.shape)

  @property
  def hosts(self) -> int:
    return max(1, self.chips // CHIPS_PER_HOST)

  @property
  def description(self) -> str:
    return f"{self.name} ({self.usual_name}): {self.chips} chips, {self.hosts} hosts"

  @property
  def allowance(self) -> str:
    """Explains `allowed` in a table."""
    return f"available on a {self.chip.name}"

  @property
  def allowed(self) -> float:
    """Bytes of a chip's memory that a program may use."""
    return self.chip.hbm

  @property
  def wrap(self) -> tuple[bool, ...]:
    """Whether each axis is a ring: in 3-D if all sizes are multiples of 4, in 2-D if its size is 16."""
    if self.chip.dimensions == 3:
      return (all(size % 4 == 0 for size in self.shape),) * 3
    return tuple(size == 16 for size in self.shape)

  def devices(self) -> list:
    """The devices to compile for, none of which is attached. See `gpus.absent_devices`."""
    devices = gpus.absent_devices(
      "tpu",
      self.name,
      importlib.util.find_spec("libtpu") is not None,
      "plan",
      f"{self.chip.platform}:{'x'.join(map(str, self.shape))}",
      chip_config_name="megacore" if self.chip.cores_in_name else "default",
      chips_per_host_bounds=tuple(map(min, _HOST, (*self.shape, 1)[:3])),
      num_slices=self.slices,
      wrap=(*self.wrap, False)[:3],
    )
    quiet.die_plainly()  # libtpu would print a stack trace
    return devices


def parse(name: str) -> Topology | GpuNode:
  """Parses `v4:4x4x4`, `v4-128` (v4 and v5p count TensorCores, v5e and v6e chips), `2*v4-128` or `h100-8`.

  Raises UsageError if there is no such chip, or no slice of that size.
  """
  node = gpus.parse(name)
  if node is not None:
    return node
  match = re.fullmatch(r"(?:(\d{1,4})\*)?(v5litepod|v\d+[a-z]*)(?::(\d{1,4}(?:x\d{1,4})*)|-(\d{1,6}))", name)
  chip = _chip(match[2]) if match else None
  if match is None or chip is None:
    raise UsageError(
      f"--topology={name}: give a chip ({', '.join(CHIPS)}) and its slice, such as v4:4x4x4, v4-128 or 2*v4-128; or "
      f"GPUs of one node ({', '.join(gpus.KINDS)}), such as h100-8"
    )
  slices = int(match[1] or 1)
  if match[3]:
    shape = tuple(map(int, match[3].split("x")))
    if len(shape) != chip.dimensions or min(*shape, slices) < 1:
      raise UsageError(
        f"--topology={name}: give {chip.dimensions} sizes of at least 1 for a {chip.name} slice"
      )
    return Topology(chip, shape, slices)
  count, rest = divmod(int(match[4]), 2 if chip.cores_in_name else 1)
  shape = None if rest else _shape(count, chip.dimensions)
  if shape is None or slices < 1:
    unit = "TensorCores, two per chip" if chip.cores_in_name else "chips"
    example = f"{chip.name}:{'x'.join('4' * chip.dimensions)}"
    raise UsageError(
      f"--topology={name}: no {chip.name} slice has {match[4]} {unit}: give its shape, such as {example}"
    )
  return Topology(chip, shape, slices)


def check_offered(slice_type: str) -> None:
  """Raises UsageError if the chip of a slice's type, such as v4-128, has no slice of that size; unknown chips pass."""
  kind, _, count = slice_type.partition("-")
  chip = _chip(kind)
  if chip is None:
    return
  chips, rest = divmod(int(count), 2 if chip.cores_in_name else 1)
  if rest or _shape(chips, chip.dimensions) is None:
    raise UsageError(f"{slice_type}: there is no {kind} slice of this size: give one such as {kind}-128")


def smaller(topology: Topology) -> Iterator[Topology]:
  """The slices of the same chips that are offered with fewer of them, smallest first."""
  dimensions = topology.chip.dimensions
  # Slices of chips with two cores have at least one host.
  for chips in range(CHIPS_PER_HOST if topology.chip.cores_in_name else 1, topology.chips):
    if shape := _shape(chips, dimensions):
      yield Topology(topology.chip, shape)


def prepare_host() -> None:
  """Lets jax compile for a TPU on this host; call it before jax is imported.

  Otherwise jax would look for a TPU, libtpu would query the cloud's metadata server, and a second plan on this host
  would find libtpu locked.
  """
  os.environ["JAX_PLATFORMS"] = "cpu"
  # jax can write a program for chips that are not attached to its cache, but cannot read it back.
  os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
  for name, value in _NO_TPU_HERE.items():
    os.environ.setdefault(name, value)
  quiet.guard()
  # jax gives libtpu more flags on a TPU VM, which are part of a program.
  os.environ[_AS_ON_A_TPU_VM] = "1"
  import jax  # noqa: F401

  del os.environ[_AS_ON_A_TPU_VM]


def _chip(kind: str) -> ChipKind | None:
  return CHIPS.get({"v5litepod": "v5e"}.get(kind, kind))


def _shape(chips: int, dimensions: int) -> tuple[int, ...] | None:
  """The most compact shape that is offered: ascending sizes, each 2 or a multiple of 4 (in 2-D at most 16)."""
  if chips == 1:
    return (1,) * dimensions
  if dimensions == 3 and chips == 4:
    return (2, 2, 1)
  sizes = [size for size in (2, *range(4, chips + 1, 4)) if chips % size == 0]
  shapes = [
    shape
    for shape in itertools.combinations_with_replacement(sizes, dimensions)
    if math.prod(shape) == chips and (dimensions == 3 or shape[-1] <= 16)
  ]
  return min(shapes, key=lambda shape: (sum(shape), shape[-1]), default=None)
