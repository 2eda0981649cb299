"""What the GPUs of a node exchange in a step, from its compiled program, and how much of it computing can hide.

A GPU sends and receives at the rate of its NVLinks at most. Of V bytes over n GPUs, an all-gather, a reduce-scatter and
an all-to-all send V (n - 1) / n from each, an all-reduce twice that. XLA issues kernels between the start and the end
of an exchange. Their matrix products, at the peak rate of the GPU, hide at least as much of it as they take; whatever
else runs there is not counted.
"""

from collections.abc import Iterable

from xmcap.planning.gpus import GpuNode
from xmcap.planning.hlo import Collective
from xmcap.training.reporting.chips import PEAK_FLOPS

_PASSES = {"all-reduce": 2.0}
_SUMS: tuple[str, ...] = ("count", "bytes", "overlapped_bytes", "seconds", "hidden_seconds")


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
    seconds = _PASSES.get(one.kind, 1.0) * one.bytes * (size - 1) / size / node.kind.links
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
