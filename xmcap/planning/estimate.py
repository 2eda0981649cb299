"""How long a step takes, from what its program does and what its chips can do: a roofline, and the compiler's schedule.

A step takes at least as long as its arithmetic, its traffic with the chip's memory, and its exchanges between chips
each take, and as long as the compiler expects of its operations one after the other, exchanges left out; the largest is
the estimate. Exchanges go by rings along the axes of the torus, both ways at
once, as in jax-ml.github.io/scaling-book/sharding: an all-gather of V bytes over d axes of one-way bandwidth W takes
V / (2 W d), where an axis is no ring V / (W d); a reduce-scatter as long, an all-reduce twice, an all-to-all a
quarter.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from xmcap.planning.program import Collective
from xmcap.planning.topologies import CHIPS_PER_HOST, DCN_BANDWIDTH_OF_HOST, Topology

# How often an array crosses the links, in units of an all-gather.
_PASSES = {"all-gather": 1.0, "reduce-scatter": 1.0, "all-reduce": 2.0, "all-to-all": 0.25}


@dataclasses.dataclass(frozen=True)
class Bounds:
  """Seconds of a step, by what bounds it.

  Attributes:
    arithmetic: at the chip's peak.
    memory: of the traffic between chip and its memory.
    links: of exchanges within a slice.
    network: of those between slices.
    schedule: of the cycles that the compiler expects; 0 where the chip's clock is not published.
  """

  arithmetic: float
  memory: float
  links: float
  network: float
  schedule: float = 0.0

  @property
  def seconds(self) -> float:
    """The estimate of a step."""
    return max(dataclasses.astuple(self))

  @property
  def name(self) -> str:
    """Of the largest."""
    found = dataclasses.asdict(self)
    return max(found, key=found.get)


def bounds(
  flops: float,
  traffic: float,
  collectives: Sequence[Collective],
  topology: Topology,
  devices: Sequence,
  cycles: float = 0,
) -> Bounds:
  """What bounds one run of a program.

  Args:
    flops: of one chip.
    traffic: bytes between one chip and its memory.
    collectives: of the program.
    topology: of the chips.
    devices: of the mesh, row-major: the collectives' groups count them.
    cycles: the compiler's estimate for one chip, exchanges left out.
  """
  places = np.array([[getattr(device, "slice_index", None) or 0, *device.coords] for device in devices])
  links = network = 0.0
  for collective in collectives:
    on_links, on_network = exchange_seconds(collective, topology, places)
    links += collective.times * on_links
    network += collective.times * on_network
  chip = topology.chip
  schedule = cycles / chip.clock if chip.clock else 0.0
  return Bounds(flops / chip.flops, traffic / chip.hbm_bandwidth, links, network, schedule)


def exchange_seconds(collective: Collective, topology: Topology, places: np.ndarray) -> tuple[float, float]:
  """Seconds of one exchange on the links of a slice, and on the network between slices.

  Args:
    collective: one of them.
    topology: of the chips.
    places: int [chips, 1 + axes]: each chip's slice and coordinates, in the order that groups count.
  """
  if len(collective.group) < 2 or not collective.size:
    return 0.0, 0.0
  group = places[list(collective.group)]
  across = [axis for axis in range(1, group.shape[1]) if len(set(group[:, axis].tolist())) > 1]
  slices = len(set(group[:, 0].tolist()))
  one_way = topology.chip.link_bandwidth
  if collective.kind == "collective-permute":
    return (collective.size / one_way if across else 0.0), (
      collective.size * CHIPS_PER_HOST / DCN_BANDWIDTH_OF_HOST if slices > 1 else 0.0
    )
  inside = len(collective.group) // slices
  # A ring only where the group has all of a wrapped axis; else a line, which is used one way at a time.
  ways = sum(
    2.0 if topology.wrap[axis - 1] and len(set(group[:, axis].tolist())) == topology.shape[axis - 1] else 1.0
    for axis in across
  )
  passes = _PASSES[collective.kind]
  links = passes * collective.size * (inside - 1) / inside / (ways * one_way) if ways else 0.0
  # Between slices each chip sends what is left to it after its slice's part; a host's chips share its network.
  shares = passes * collective.size / inside * (slices - 1) / slices
  return links, shares * min(CHIPS_PER_HOST, math.prod(topology.shape)) / DCN_BANDWIDTH_OF_HOST
