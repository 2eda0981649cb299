"""TPU slices by their usual names, their chips' specifications, and devices to compile for on a host without a TPU."""

import dataclasses
import importlib.util
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping

from xmcap import quiet, xla_flags
from xmcap.errors import UsageError
from xmcap.planning import gpus
from xmcap.planning.gpus import GpuNode
from xmcap.training.reporting.chips import PEAK_FLOPS


@dataclasses.dataclass(frozen=True)
class ChipKind:
  """Published specifications of a chip."""

  name: str
  platform: str  # libtpu's name
  flops: float  # peak bfloat16 operations per second of a device
  hbm: float  # bytes of a device's memory that a program may use
  link_bandwidth: float  # bytes per second and direction of a link; two links along each axis of a slice
  clock: float | None  # cycles per second of a TensorCore; None if not published
  dimensions: int  # of the torus
  cores_in_name: bool  # `v4-128` counts TensorCores, two per chip; `v6e-64` counts chips
  host_cores: Mapping[int, int]  # chips of a host -> its virtual CPUs
  network: float = 25e9  # bytes per second between slices, of a host with four chips
  devices: int = 1  # of jax, in a chip


# Sources: cloud.google.com/tpu/docs, the pages v4, v5e, v5p, v6e, tpu7x (interconnect of all links of a chip in both
# directions: 2,400, 1,600, 4,800 and 3,584 Gbit/s; the page tpu7x has 1,200 GB/s for itself and for v5p alike, so their
# links are taken to be equal; network of a chip: 50 Gbit/s of a v5p, 100 of v6e and tpu7x), and
# jax-ml.github.io/scaling-book/tpus (one link in one direction, clock of v5e). Virtual CPUs: the machine types
# ct5lp-hightpu and ct6e-standard of cloud.google.com/kubernetes-engine. Clock of v4: Jouppi et al., "TPU v4" (ISCA
# 2023), Table 4. The memory is the limit that libtpu 0.0.42 reports when a program needs more. The two TensorCores of a
# tpu7x are two devices, which share the links of their chip.
CHIPS = {
  chip.name: chip
  for chip in (
    ChipKind("v4", "v4", PEAK_FLOPS["TPU v4"], 30.75 * 2**30, 45e9, 1.05e9, 3, True, {4: 240}),
    ChipKind(
      "v5e", "v5e", PEAK_FLOPS["TPU v5 lite"], 15.75 * 2**30, 45e9, 1.5e9, 2, False, {1: 24, 4: 112, 8: 224},
    ),
    ChipKind("v5p", "v5", PEAK_FLOPS["TPU v5"], 95.74 * 2**30, 90e9, 1.75e9, 3, True, {4: 208}),
    ChipKind(
      "v6e", "v6e", PEAK_FLOPS["TPU v6 lite"], 31.25 * 2**30, 90e9, None, 2, False, {1: 44, 4: 180, 8: 180}, 50e9,
    ),
    ChipKind("tpu7x", "tpu7x", PEAK_FLOPS["TPU7x"], 94.75 * 2**30, 90e9, None, 3, True, {4: 224}, 50e9, devices=2),
  )
}  # fmt: skip
# Chips of a host are arranged 2 x 2; the eight of the flat slice 2 x 4 are one host.
_HOST, _FLAT_HOST = (2, 2, 1), (2, 4, 1)
_FLAT_SHAPES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
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
  def num_devices(self) -> int:
    return self.chips * self.chip.devices

  @property
  def cores(self) -> int:
    """TensorCores that work as one device."""
    return 2 if self.chip.cores_in_name and self.chip.devices == 1 else 1

  @property
  def unit(self) -> str:
    """A device in words, for what is counted for each."""
    return "chip" if self.chip.devices == 1 else "device"

  @property
  def chips_per_host(self) -> int:
    return math.prod(self._host_bounds)

  @property
  def hosts(self) -> int:
    return self.chips // self.chips_per_host

  @property
  def host_cores(self) -> int:
    """Virtual CPUs of a host."""
    return self.chip.host_cores[self.chips_per_host]

  @property
  def description(self) -> str:
    devices = "" if self.chip.devices == 1 else f" of {self.chip.devices} devices"
    hosts = f"{self.hosts} host{'' if self.hosts == 1 else 's'}"
    return f"{self.name} ({self.usual_name}): {self.chips} chips{devices}, {hosts}"

  @property
  def allowance(self) -> str:
    """Explains `allowed` in a table."""
    return f"available on a {self.unit} of {self.chip.name}"

  @property
  def allowed(self) -> float:
    """Bytes of a device's memory that a program may use."""
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
      chip_config_name="megacore" if self.cores == 2 else "default",
      chips_per_host_bounds=self._host_bounds,
      num_slices=self.slices,
      wrap=(*self.wrap, False)[:3],
    )
    quiet.die_plainly()  # libtpu would print a stack trace
    return devices

  @property
  def _host_bounds(self) -> tuple[int, ...]:
    """The chips of a host along each axis."""
    bounds = _FLAT_HOST if self.shape == _FLAT_HOST[:2] else _HOST
    return tuple(map(min, bounds, (*self.shape, 1)[:3]))


def parse(name: str) -> Topology | GpuNode:
  """Parses `v4:4x4x4`, `v4-128` (v4, v5p, tpu7x count TensorCores, v5e and v6e chips), `2*v4-128` or `h100-8`.

  Raises UsageError if there is no such chip, or no slice of that size.
  """
  node = gpus.parse(name)
  if node is not None:
    return node
  match = re.fullmatch(
    r"(?:(\d{1,4})\*)?(v5litepod|v\d+[a-z]*|tpu\d+x)(?::(\d{1,4}(?:x\d{1,4})*)|-(\d{1,6}))", name
  )
  chip = _chip(match[2]) if match else None
  if match is None or chip is None:
    raise UsageError(
      f"--topology={name}: give a chip ({', '.join(CHIPS)}) and its slice, such as v4:4x4x4, v4-128 or 2*v4-128; or "
      f"GPUs that NVLink joins ({', '.join(gpus.KINDS)}), such as h100-8"
    )
  slices = int(match[1] or 1)
  if match[3]:
    shape = tuple(map(int, match[3].split("x")))
    if len(shape) != chip.dimensions or min(*shape, slices) < 1:
      raise UsageError(
        f"--topology={name}: give {chip.dimensions} sizes of at least 1 for a {chip.name} slice"
      )
    if not _is_offered(shape):
      flat = ", ".join("x".join(map(str, shape)) for shape in _FLAT_SHAPES)
      offered = f"one of {flat}" if chip.dimensions == 2 else "2x2x1, 2x2x2, 2x2x4, 2x4x4 or multiples of 4"
      raise UsageError(f"--topology={name}: no {chip.name} slice has this shape: give {offered}")
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
  chip = chip_of(slice_type)
  if chip is None:
    return
  chips, rest = divmod(int(count), 2 if chip.cores_in_name else 1)
  if rest or _shape(chips, chip.dimensions) is None:
    raise UsageError(f"{slice_type}: there is no {kind} slice of this size: give one such as {kind}-128")


def chip_of(slice_type: str) -> ChipKind | None:
  """The chip of a slice's type, such as v4-128; None if it is not known."""
  return _chip(slice_type.partition("-")[0])


def smaller(topology: Topology) -> Iterator[Topology]:
  """The slices of the same chips that are offered with fewer of them, smallest first."""
  dimensions = topology.chip.dimensions
  for chips in range(min(topology.chip.host_cores), topology.chips):
    if shape := _shape(chips, dimensions):
      yield Topology(topology.chip, shape)


def prepare_host() -> None:
  """Lets jax compile for a TPU on this host; call it before jax is imported.

  Otherwise jax would look for a TPU, libtpu would query the cloud's metadata server, and a second plan on this host
  would find libtpu locked.
  """
  for name, value in xla_flags.NO_TPU.items():
    os.environ.setdefault(name, value)
  os.environ["JAX_PLATFORMS"] = "cpu"
  quiet.guard()
  # jax gives libtpu more flags on a TPU VM, which are part of a program. It can write a program for chips that are not
  # attached to its cache, but cannot read it back. Processes that this one starts are to have neither.
  at_import = {_AS_ON_A_TPU_VM: "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}
  before = {name: os.environ[name] for name in at_import if name in os.environ}
  os.environ.update(at_import)
  import jax  # noqa: F401

  for name in at_import:
    del os.environ[name]
  os.environ.update(before)


def _chip(kind: str) -> ChipKind | None:
  return CHIPS.get({"v5litepod": "v5e"}.get(kind, kind))


def _shape(chips: int, dimensions: int) -> tuple[int, ...] | None:
  """The most compact shape that is offered, its sizes in ascending order."""
  if dimensions == 2:
    return next((shape for shape in _FLAT_SHAPES if math.prod(shape) == chips), None)
  if chips == 4:
    return _HOST
  sizes = [size for size in (2, *range(4, chips + 1, 4)) if chips % size == 0]
  shapes = [shape for shape in itertools.combinations_with_replacement(sizes, 3) if math.prod(shape) == chips]
  return min(shapes, key=lambda shape: (sum(shape), shape[-1]), default=None)


def _is_offered(shape: tuple[int, ...]) -> bool:
  """Whether a slice has this shape."""
  return shape in (*_FLAT_SHAPES, _HOST) or (
    len(shape) == 3 and all(size == 2 or size % 4 == 0 for size in shape)
  )
