"""An estimate of a step's time from its compiled program: the largest of four times.

The arithmetic at the chip's peak; the exchanges on the links of a slice, and on the network between slices; and the
compiler's schedule, its cycles for one operation after the other without exchanges. Exchanges follow
jax-ml.github.io/scaling-book/sharding: rings along the axes of the torus, both ways at once. An all-gather of V bytes
over d axes of one-way bandwidth W takes V / (2 W d), or V / (W d) where an axis is no ring; a reduce-scatter takes as
long, an all-reduce twice, an all-to-all a quarter.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from xmcap.planning.hlo import Collective
from xmcap.planning.topologies import CHIPS_PER_HOST, DCN_BANDWIDTH_OF_HOST, Topology

# How often an array crosses the links, in units of an all-gather.
_PASSES = {"all-gather": 1.0, "reduce-scatter": 1.0, "all-reduce": 2.0, "all-to-all": 0.25}

CAVEATS = {
  "memory": "shapes as they are cut, and the compiler's own count for this version of it; what the runtime keeps for "
  "itself is not in it",
  "arithmetic": "too low: no chip reaches its peak. XLA's count, or where the program has loops, the model's matrix "
  "products cut evenly over the chips",
  "links": "too low where exchanges wait or share a link, too high where the program's groups are better laid out",
  "network": "too low where other traffic shares the hosts' network",
  "schedule": "the compiler's model of the chip, not a measurement; it leaves exchanges out, and is unknown where the "
  "clock of the chip is not published (v6e)",
  "estimate": "too low: the largest of the times above, as if all the others were hidden behind it",
}
"""How each number of a plan can be wrong."""


@dataclasses.dataclass(frozen=True)
class Bounds:
  """Seconds of a step by each of its bounds; `schedule` is 0 where the chip's clock is not published."""

  arithmetic: float
  links: float
  network: float
  schedule: float

  @property
  def seconds(self) -> float:
    """The estimate of a step."""
    return max(dataclasses.astuple(self))

  @property
  def name(self) -> str:
    """The name of the largest bound."""
    found = dataclasses.asdict(self)
    return max(found, key=found.get)


def bounds(
  flops: float, cycles: float, collectives: Sequence[Collective], topology: Topology, devices: Sequence
) -> Bounds:
  """The bounds of one run of a program.

  Args:
    flops: operations of one chip.
    cycles: of one chip, exchanges left out.
    collectives: of the program.
    topology: of the chips.
    devices: of the mesh, row-major; the groups of collectives count them.
  """
  places = np.array([[getattr(device, "slice_index", None) or 0, *device.coords] for device in devices])
  links = network = 0.0
  for collective in collectives:
    on_links, on_network = _exchange_seconds(collective, topology, places)
    links += collective.times * on_links
    network += collective.times * on_network
  chip = topology.chip
  return Bounds(flops / chip.flops, links, network, cycles / chip.clock if chip.clock else 0.0)


def _exchange_seconds(collective: Collective, topology: Topology, places: np.ndarray) -> tuple[float, float]:
  """Seconds of one exchange on the links of a slice, and on the network between slices.

  Args:
    collective: the exchange.
    topology: of the chips.
    places: int [chips, 1 + axes]: slice and coordinates of each chip, in the order that groups count.
  """
  if len(collective.group) < 2 or not collective.size:
    return 0.0, 0.0
  group = places[list(collective.group)]
  extents = {axis: len(set(group[:, axis].tolist())) for axis in range(1, group.shape[1])}
  across = [axis for axis, extent in extents.items() if extent > 1]
  slices = len(set(group[:, 0].tolist()))
  one_way = topology.chip.link_bandwidth
  if collective.kind == "collective-permute":
    on_links = collective.size / one_way if across else 0.0
    return on_links, collective.size * CHIPS_PER_HOST / DCN_BANDWIDTH_OF_HOST if slices > 1 else 0.0
  inside = len(collective.group) // slices
  # Only a group that has all of a wrapped axis is a ring; a line is used one way at a time.
  ways = sum(
    2.0 if topology.wrap[axis - 1] and extents[axis] == topology.shape[axis - 1] else 1.0 for axis in across
  )
  size = _PASSES[collective.kind] * collective.size
  links = size * (inside - 1) / inside / (ways * one_way) if ways else 0.0
  # Between slices each chip sends the share that its slice left to it; the chips of a host share its network.
  share = size / inside * (slices - 1) / slices
  return links, share * min(CHIPS_PER_HOST, math.prod(topology.shape)) / DCN_BANDWIDTH_OF_HOST
