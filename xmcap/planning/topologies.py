"""TPU slices by their usual names, what their chips can do, and their devices on a host that has none."""

import dataclasses
import math
import os
import re

from xmcap.errors import UsageError, XmcapError
from xmcap.planning import gpus
from xmcap.training.reporting.chips import PEAK_FLOPS


@dataclasses.dataclass(frozen=True)
class ChipKind:
  """A chip as its maker publishes it: per chip, decimal units.

  Attributes:
    name: such as `v4`.
    platform: libtpu's name of it.
    flops: bfloat16 operations a second at most.
    hbm: bytes of its memory that a program may have.
    hbm_bandwidth: bytes a second between chip and its memory.
    link_bandwidth: bytes a second of one link in one direction; each axis of a slice has two links a chip.
    clock: cycles a second of a TensorCore; None: not published.
    dimensions: of its torus.
    cores_in_name: `v4-128` counts TensorCores, two a chip; `v6e-64` counts chips.
  """

  name: str
  platform: str
  flops: float
  hbm: float
  hbm_bandwidth: float
  link_bandwidth: float
  clock: float | None
  dimensions: int
  cores_in_name: bool


# Sources: cloud.google.com/tpu/docs, the pages v4, v5e, v5p, v6e (memory, interconnect: all of a chip's links
# together, both directions: 2,400, 1,600, 4,800 and 3,584 Gbit/s there), and, of one link in one direction,
# jax-ml.github.io/scaling-book/tpus. v4's clock: Jouppi et al., "TPU v4" (ISCA 2023), Table 4. The memory a program may
# have: what libtpu 0.0.42 names when one needs more.
CHIPS = {
  chip.name: chip
  for chip in (
    ChipKind("v4", "v4", PEAK_FLOPS["TPU v4"], 30.75 * 2**30, 1.228e12, 45e9, 1.05e9, 3, True),
    ChipKind("v5e", "v5e", PEAK_FLOPS["TPU v5 lite"], 15.75 * 2**30, 0.819e12, 45e9, None, 2, False),
    ChipKind("v5p", "v5", PEAK_FLOPS["TPU v5"], 95.74 * 2**30, 2.765e12, 90e9, 1.75e9, 3, True),
    ChipKind("v6e", "v6e", PEAK_FLOPS["TPU v6 lite"], 31.25 * 2**30, 1.64e12, 90e9, None, 2, False),
  )
}
# Bytes a second between slices, of one host: 200 Gbit/s (cloud.google.com/tpu/docs, network of a host).
DCN_BANDWIDTH_OF_HOST = 25e9
# All hosts of these slices hold four chips, 2 x 2.
CHIPS_PER_HOST = 4
_HOST = (2, 2, 1)
_NO_TPU_HERE = {
  "TPU_SKIP_MDS_QUERY": "1",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "TPU_ACCELERATOR_TYPE": "v4-8",
  "TPU_WORKER_HOSTNAMES": "localhost",
  "TPU_MIN_LOG_LEVEL": "3",
  "TPU_STDERR_LOG_LEVEL": "3",
  "TF_CPP_MIN_LOG_LEVEL": "3",
}


@dataclasses.dataclass(frozen=True)
class Topology:
  """Slices of chips.

  Attributes:
    chip: its kind.
    shape: chips along each axis of one slice.
    slices: how many, joined by the data centre's network.
  """

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
    """What a slice is ordered by, such as `v4-128`."""
    chips = math.prod(self.shape)
    return f"{self.chip.name}-{2 * chips if self.chip.cores_in_name else chips}"

  @property
  def chips(self) -> int:
    """Of all slices."""
    return self.slices * math.prod(self.shape)

  @property
  def hosts(self) -> int:
    """Of all slices."""
    return max(1, self.chips // CHIPS_PER_HOST)

  @property
  def wrap(self) -> tuple[bool, ...]:
    """Whether an axis is a ring: in three dimensions where all axes are multiples of 4, in two those of 16."""
    if self.chip.dimensions == 3:
      return (all(size % 4 == 0 for size in self.shape),) * 3
    return tuple(size == 16 for size in self.shape)

  def devices(self) -> list:
    """The devices of the slices, to compile for; none of them is there.

    Raises:
      XmcapError: libtpu is not installed, or knows no such slice.
    """
    from jax.experimental import topologies

    bounds = tuple(min(host, size) for host, size in zip(_HOST, (*self.shape, 1)[:3], strict=True))
    try:
      return topologies.get_topology_desc(
        platform="tpu",
        topology_name=f"{self.chip.platform}:{'x'.join(map(str, self.shape))}",
        chip_config_name="megacore" if self.chip.cores_in_name else "default",
        chips_per_host_bounds=bounds,
        num_slices=self.slices,
        wrap=(*self.wrap, False)[:3],
      ).devices
    except Exception as error:
      # jax, PJRT and libtpu each have their own.
      reason = " ".join(str(error).split())[:200]
      if "not installed" in reason:
        raise XmcapError(
          "xmcap plan compiles with libtpu, which is not installed: pip install 'xmcap[plan]'"
        ) from None
      raise XmcapError(f"libtpu cannot plan for {self.name}: {reason}") from None


def parse(name: str) -> Topology:
  """Reads `v4:4x4x4`, `v4-128` (TensorCores, as v4 and v5p are named; v5e and v6e count chips), or `2*v4-128`.

  Raises:
    UsageError: no such chip, or no slice of that size.
  """
  match = re.fullmatch(r"(?:(\d+)\*)?(v5litepod|v[0-9]+[a-z]*)(?::([0-9x]+)|-(\d+))", name)
  chip = CHIPS.get({"v5litepod": "v5e"}.get(match[2], match[2])) if match else None
  if chip is None:
    raise UsageError(
      f"--topology={name}: give a chip ({', '.join(CHIPS)}) and its slice, such as v4:4x4x4, v4-128 or 2*v4-128; or "
      f"GPUs of one node ({', '.join(gpus.KINDS)}), such as h100-8"
    )
  slices = int(match[1] or 1)
  if match[3]:
    sizes = match[3].split("x")
    shape = tuple(int(size) for size in sizes if size)
    if len(sizes) != len(shape) or len(shape) != chip.dimensions or min(shape) < 1 or slices < 1:
      raise UsageError(f"--topology={name}: a {chip.name} slice has {chip.dimensions} sizes of at least 1")
    return Topology(chip, shape, slices)
  count = int(match[4])
  chips = count // 2 if chip.cores_in_name else count
  shape = _shape(chips, chip.dimensions)
  if shape is None or slices < 1 or (chip.cores_in_name and count % 2):
    unit = "TensorCores, two a chip" if chip.cores_in_name else "chips"
    raise UsageError(
      f"--topology={name}: no {chip.name} slice has {count} {unit}; give its shape, such as {chip.name}:"
      + "x".join("4" * chip.dimensions)
    )
  return Topology(chip, shape, slices)


def prepare_host() -> None:
  """Lets jax compile for a TPU here: to be called before jax is imported.

  Without it jax would look for a TPU, libtpu would ask the cloud's metadata server where it runs, and a second plan
  beside this one would find libtpu locked.
  """
  os.environ["JAX_PLATFORMS"] = "cpu"
  # A program for absent chips can be written to jax's cache, but not read back.
  os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
  for name, value in _NO_TPU_HERE.items():
    os.environ.setdefault(name, value)


def _shape(chips: int, dimensions: int) -> tuple[int, ...] | None:
  """The most compact shape of 2 or multiples of 4 along each axis, as slices are sold; sizes rise."""
  if chips == 1:
    return (1,) * dimensions
  sizes = [size for size in (2, *range(4, chips + 1, 4)) if chips % size == 0]
  if dimensions == 2:
    pairs = [
      (a, chips // a) for a in sizes if a <= chips // a and chips // a in sizes and a <= 16 >= chips // a
    ]
    return max(pairs, default=None)
  triples = [
    (a, b, chips // (a * b))
    for a in sizes
    for b in sizes
    if chips % (a * b) == 0 and a <= b <= chips // (a * b) and chips // (a * b) in sizes
  ]
  # 2x2x1 is written with its host first; all larger ones rise.
  return (2, 2, 1) if chips == 4 else min(triples, key=lambda shape: (sum(shape), shape[2]), default=None)
