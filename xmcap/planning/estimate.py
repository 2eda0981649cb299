"""An estimate of a step's time from its compiled program: the largest of four times, each of them a lower bound.

The arithmetic at the chip's peak; the exchanges on all links of a chip, both ways at once; those between slices on the
network of the hosts; and the compiler's schedule, its cycles for one operation after the other without exchanges. An
all-gather of V bytes sends V through a chip, a reduce-scatter too, an all-reduce 2 V, an all-to-all V / 4
(jax-ml.github.io/scaling-book/sharding).
"""

import dataclasses
import math
from collections.abc import Mapping

from xmcap.planning.hlo import BETWEEN_SLICES, Exchanges
from xmcap.planning.topologies import CHIPS_PER_HOST, DCN_BANDWIDTH_OF_HOST, Topology

_PASSES = {"all-reduce": 2.0, "all-to-all": 0.25}

CAVEATS = {
  "memory": "shapes as they are cut, and the compiler's own count, exact for its version; what the runtime keeps for "
  "itself is not in it",
  "arithmetic": "too low: no chip reaches its peak. XLA's count, or where the program has loops, the model's matrix "
  "products cut evenly over the chips",
  "links": "too low: a group along one axis of the torus uses the links of that axis alone, and exchanges wait",
  "network": "too low where other traffic shares the network of the hosts",
  "schedule": "the compiler's model of the chip, not a measurement; it leaves exchanges out, and is unknown where the "
  "clock of the chip is not published (v6e)",
  "estimate": "too low: the largest of these times, as if the others were hidden behind it",
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


def bounds(flops: float, cycles: float, exchanges: Mapping[str, Exchanges], topology: Topology) -> Bounds:
  """The bounds of one run of a program; `flops`, `cycles` and `exchanges` are those of one chip."""
  chip = topology.chip
  axes = sum(size > 1 for size in topology.shape)
  sent = sum(_PASSES.get(kind, 1.0) * one.size for kind, one in exchanges.items() if kind != BETWEEN_SLICES)
  between = exchanges[BETWEEN_SLICES].size if BETWEEN_SLICES in exchanges else 0
  # The chips of a host share its network.
  of_host = between * min(CHIPS_PER_HOST, math.prod(topology.shape))
  return Bounds(
    flops / chip.flops,
    sent / (2 * axes * chip.link_bandwidth) if axes else 0.0,
    of_host / DCN_BANDWIDTH_OF_HOST,
    cycles / chip.clock if chip.clock else 0.0,
  )
