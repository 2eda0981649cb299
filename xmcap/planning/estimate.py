"""An estimate of a step's time from its compiled program: the largest of four times, each of them a lower bound.

The arithmetic at the chip's peak; the exchanges on all links of a chip, both ways at once; those between slices on the
network of the hosts; and the compiler's schedule, its cycles for one operation after the other without exchanges. An
all-gather of V bytes sends V through a chip, a reduce-scatter too, an all-reduce 2 V, an all-to-all V / 4
(jax-ml.github.io/scaling-book/sharding).
"""

import math
from collections.abc import Mapping

from xmcap.planning.hlo import BETWEEN_SLICES
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
GPU_CAVEATS = {
  "memory": "the program that trains is autotuned, and may need more or less; CUDA and NCCL take memory of their own"
}


def bounds(
  flops: float, cycles: float, exchanges: Mapping[str, Mapping[str, int]], topology: Topology
) -> dict[str, float]:
  """Seconds of one run of a program by each bound; `schedule` is 0 where the chip's clock is not published.

  `flops`, `cycles` and `exchanges` are those of one chip.
  """
  chip = topology.chip
  axes = sum(size > 1 for size in topology.shape)
  sent = sum(
    _PASSES.get(kind, 1.0) * one["bytes"] for kind, one in exchanges.items() if kind != BETWEEN_SLICES
  )
  between = exchanges[BETWEEN_SLICES]["bytes"] if BETWEEN_SLICES in exchanges else 0
  # The chips of a host share its network.
  of_host = between * min(CHIPS_PER_HOST, math.prod(topology.shape))
  return {
    "arithmetic": flops / chip.flops,
    "links": sent / (2 * axes * chip.link_bandwidth) if axes else 0.0,
    "network": of_host / DCN_BANDWIDTH_OF_HOST,
    "schedule": cycles / chip.clock if chip.clock else 0.0,
  }
