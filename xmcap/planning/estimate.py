"""Estimates a step's time from its compiled program, as the largest of four lower bounds.

They are: arithmetic at the chip's peak; communication over all links of a chip, in both directions at once;
communication between slices over the hosts' network; and the compiler's schedule, its cycles for one operation after
the other without communication. An all-gather of V bytes sends V through a chip, a reduce-scatter too, an all-reduce
2 V, an all-to-all V / 4 (jax-ml.github.io/scaling-book/sharding).
"""

import math
from collections.abc import Mapping

from xmcap.planning.hlo import BETWEEN_SLICES
from xmcap.planning.topologies import CHIPS_PER_HOST, DCN_BANDWIDTH_OF_HOST, Topology

_PASSES = {"all-reduce": 2.0, "all-to-all": 0.25}

CAVEATS = {
  "memory": "sharded shapes, and the compiler's own count, which is exact for its version; memory of the runtime is "
  "not included",
  "arithmetic": "too low: no chip reaches its peak. It is XLA's count or, if the program has loops, the model's matrix "
  "products split evenly over the chips",
  "links": "too low: a group along one axis of the torus uses only the links of that axis, and transfers wait",
  "network": "too low if other traffic shares the network of the hosts",
  "schedule": "the compiler's model of the chip, not a measurement; it leaves communication out, and is unknown if the "
  "clock of the chip is not published (v6e)",
  "estimate": "too low: the largest of these times, as if the others overlapped with it completely",
}
"""How each number of a plan can be wrong."""
GPU_CAVEATS = {
  "memory": "training uses an autotuned program, which may need more or less; CUDA and NCCL need memory of their own"
}


def bounds(
  flops: float, cycles: float, exchanges: Mapping[str, Mapping[str, int]], topology: Topology
) -> dict[str, float]:
  """Seconds of one run of a program by each bound; `schedule` is 0 if the chip's clock is not published.

  `flops`, `cycles` and `exchanges` are per chip.
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
