"""Estimates a step's time on TPUs from its compiled program, and what the GPUs of a node exchange in it.

On TPUs the time lies between two sums of four lower bounds: arithmetic at the chip's peak; communication over the links
of a chip, in both directions at once; communication between slices over the hosts' network; and the compiler's
schedule, its cycles for one operation after the other without communication. An all-gather of V bytes sends V through
a chip, a reduce-scatter too, an all-reduce 2 V, an all-to-all V / 4 (jax-ml.github.io/scaling-book/sharding). A group
uses only the links of the axes of the torus along which its chips lie. Two devices of a chip (tpu7x) share its links:
each takes a half, unless both are in the group, which then sends its bytes once. A step takes the largest bound if all
communication is hidden behind computing, and computing plus communication if it is all exposed.

A GPU sends and receives at the rate of its NVLinks at most. Of V bytes over n GPUs, an all-gather, a reduce-scatter and
an all-to-all send V (n - 1) / n from each, an all-reduce twice that. XLA issues kernels between the start and the end
of an exchange. Their matrix products, at the peak rate of the GPU, hide at least as much of it as they take; whatever
else runs there is not counted.
"""

from collections.abc import Iterable, Mapping, Sequence

from xmcap.planning.gpus import GpuNode
from xmcap.planning.hlo import BETWEEN_SLICES, Collective
from xmcap.planning.topologies import Topology
from xmcap.training.reporting.chips import PEAK_FLOPS

_PASSES = {"all-reduce": 2.0, "all-to-all": 0.25}
_PASSES_OF_GPUS = {"all-reduce": 2.0}
_SUMS: tuple[str, ...] = ("count", "bytes", "overlapped_bytes", "seconds", "hidden_seconds")

CAVEATS = {
  "memory": "sharded shapes, and the compiler's own count, which is exact for its version; memory of the runtime is "
  "not included",
  "arithmetic": "too low: no chip reaches its peak. It is XLA's count or, if the program has loops, the model's matrix "
  "products split evenly over the chips",
  "links": "too low: transfers wait, and no transfer reaches the bandwidth of all links along the axes of its group",
  "network": "too low if other traffic shares the network of the hosts",
  "schedule": "the compiler's model of the chip, not a measurement, and of a kernel in Pallas its bundles or "
  "bytes on v4; it leaves communication out, and is unknown if the clock of the chip is not published (v6e, tpu7x)",
  "hidden": "too low: the largest of these times, as if the others overlapped with it completely",
  "exposed": "computing plus communication, as if nothing overlapped; too low as far as its parts are",
}
"""How each number of a plan can be wrong."""
GPU_CAVEATS = {
  "memory": "training uses an autotuned program, which may need more or less; CUDA and NCCL need memory of their own",
  "arithmetic": "too low: no GPU reaches its peak",
  "links": "too low: no exchange reaches the rate of all links, and each has a start of some microseconds",
  "hidden": "too low as far as other kernels than matrix products run beside an exchange; too high as far as exchanges "
  "slow down what runs beside them",
}


def bounds(
  flops: float,
  cycles: float,
  collectives: Iterable[Collective],
  topology: Topology,
  coordinates: Sequence[Sequence[int]] = (),
) -> dict[str, float]:
  """Seconds of one run of a program by each bound; `schedule` is 0 if the chip's clock is not published.

  `flops`, `cycles` and `collectives` are per device; `coordinates` is the place on the torus of each partition.
  """
  chip = topology.chip
  links, between = 0.0, 0
  for one in collectives:
    if one.kind == BETWEEN_SLICES:
      between += one.bytes
    elif axes := _axes(one, topology, coordinates):
      sharing = _sharing(one, topology, coordinates)
      links += _PASSES.get(one.kind, 1.0) * sharing * one.bytes / (2 * axes * chip.link_bandwidth)
  # The devices of a host share its network: of four chips, or of eight, which have two such hosts' network.
  of_host = between * chip.devices * min(4, topology.chips_per_host)
  return {
    "arithmetic": flops / chip.flops,
    "links": links,
    "network": of_host / chip.network,
    "schedule": cycles / chip.clock if chip.clock else 0.0,
  }


def exposed(times: Mapping[str, float]) -> float:
  """Seconds of a program whose communication overlaps with nothing, from its `bounds`."""
  return max(times["arithmetic"], times["schedule"]) + times["links"] + times["network"]


def _axes(one: Collective, topology: Topology, coordinates: Sequence[Sequence[int]]) -> int:
  """The number of axes of the torus along which a group lies; of the whole slice if the group is not known."""
  along = sum(size > 1 for size in topology.shape)
  if one.kind == "collective-permute":  # from chip to chip, of which the first pair may be one chip
    return min(1, along)
  if not one.group:
    return along
  places = [coordinates[partition] for partition in one.group]
  return sum(len(set(places_of_axis)) > 1 for places_of_axis in zip(*places, strict=True))


def _sharing(one: Collective, topology: Topology, coordinates: Sequence[Sequence[int]]) -> float:
  """How many groups send over the links of a chip at once, each from another device of it; 1 if that is not known."""
  if not one.group or one.kind == "collective-permute":
    return 1.0
  places = [tuple(coordinates[partition]) for partition in one.group]
  return topology.chip.devices * len(set(places)) / len(places)


def exchanges(collectives: Iterable[Collective], node: GpuNode) -> dict[str, dict[str, float]]:
  """What a GPU exchanges in a step, by kind and element type, such as `all-gather bf16`; the last is `total`.

  Returns:
    For each, `count`; `bytes`; `overlapped_bytes`, of exchanges with kernels between their start and end; `seconds` at
    the rate of the links, and `hidden_seconds` of those. An exchange of several types counts once in `total`, and its
    seconds are divided by bytes.
  """
  by_type: dict[str, dict[str, float]] = {}
  total = dict.fromkeys(_SUMS, 0.0)
  for one in collectives:
    size = len(one.group) or node.chips
    seconds = _PASSES_OF_GPUS.get(one.kind, 1.0) * one.bytes * (size - 1) / size / node.kind.links
    hidden = min(seconds, one.flops / PEAK_FLOPS[node.kind.device_kind])
    for dtype, part in one.dtypes.items():
      share = part / one.bytes if one.bytes else 0.0
      values = {
        "count": one.count,
        "bytes": part,
        "overlapped_bytes": part if one.kernels else 0,
        "seconds": seconds * share,
        "hidden_seconds": hidden * share,
      }
      row = by_type.setdefault(f"{one.kind} {dtype}", dict.fromkeys(_SUMS, 0.0))
      for name, value in values.items():
        row[name] += value
        total[name] += 0 if name == "count" else value
    total["count"] += one.count
  return {**dict(sorted(by_type.items())), "total": total} if by_type else {}


def arithmetic_seconds(model_flops: float, node: GpuNode) -> float:
  """Seconds of the model's matrix products, split evenly over the GPUs, at their peak rate."""
  return model_flops / (node.chips * PEAK_FLOPS[node.kind.device_kind])
