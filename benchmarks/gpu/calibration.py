"""How far `xmcap plan` is from a chip on which it was measured, term by term.

A measurement is the file `measured/KIND.json` beside this script, such as `measured/h100.json`, which tables.py writes.

usage: python benchmarks/gpu/calibration.py TOPOLOGY     (such as h100-8)
"""

import pathlib
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from xmcap.errors import XmcapError, one_line
from xmcap.grid import Grid
from xmcap.planning import topologies
from xmcap.planning.gpus import GpuNode
from xmcap.planning.topologies import Topology
from xmcap.training.reporting.chips import PEAK_FLOPS

_FOLDER = pathlib.Path(__file__).parent / "measured"
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Device(msgspec.Struct):
  """The GPU, and the rates that it reaches: of bfloat16 products, and of a copy (bytes read and written)."""

  gpu: str
  date: str
  jax: str
  product_tflops: _Positive
  copy_gb_per_second: _Positive


class _Step(msgspec.Struct):
  """A training step, without `step_ms` if it failed.

  `xla_gb` is XLA's count of memory traffic. `peak_is_own`: no earlier program set the peak of memory.
  """

  model: str
  variant: str
  captions: int
  captions_per_image: int
  tokens: int
  microbatches: int
  step_ms: _Positive | None = None
  model_tflop: _Positive | None = None
  xla_gb: _Positive | None = None
  peak_bytes: _Positive | None = None
  peak_is_own: bool = False

  @property
  def name(self) -> str:
    parts = f", {self.microbatches} microbatches" if self.microbatches > 1 else ""
    return (
      f"{self.model}, {self.captions} captions of {self.tokens} tokens, K = {self.captions_per_image}{parts}"
    )


class _Memory(msgspec.Struct):
  total: _Positive


class _Planned(msgspec.Struct):
  """What the planner said of the memory of such a step."""

  variant: str
  captions: int
  captions_per_image: int
  tokens: int
  microbatches: int
  memory: _Memory


class _Measurement(msgspec.Struct):
  device: _Device
  training: list[_Step] = []
  plan: list[_Planned] = []


def of(topology: Topology | GpuNode) -> dict[str, Any] | None:
  """The planner's error on this kind of chip; None if it was never measured.

  Returns:
    `device`, `date` and `jax` of the measurement, and `terms`: for each its name, and [low, high] of what the planner
    assumes, what was measured, and the relative error of the planned time or memory (-0.2: the plan is 20% too low).
    `arithmetic` and `memory traffic` are rates in operations and bytes per second; `memory` is in bytes. `overlap` is
    the step in seconds, at the measured rates: low if arithmetic and memory traffic overlap fully, high if not at all.

  Raises:
    XmcapError: the file is not such a measurement.
  """
  if not isinstance(topology, GpuNode):
    return None
  kind, file = topology.kind, _FOLDER / f"{topology.kind.name}.json"
  if not file.is_file():
    return None
  try:
    found = msgspec.json.decode(file.read_bytes(), type=_Measurement)
  except (msgspec.DecodeError, UnicodeDecodeError) as error:
    why = f"no measurement as benchmarks/gpu writes it: {one_line(error)}"
    raise XmcapError(f"{file}: {why}; measure again, or remove it") from None
  device = found.device
  product, copy = device.product_tflops * 1e12, device.copy_gb_per_second * 1e9
  peak = PEAK_FLOPS[kind.device_kind]
  terms = [
    _rate("arithmetic", peak, product),
    _rate("memory traffic", kind.bandwidth, copy),
  ]
  planned = {_key(one): one.memory.total for one in found.plan}
  steps = [step for step in found.training if _key(step) in planned]
  for step in steps:
    if step.peak_bytes and step.peak_is_own and (total := planned.get(_key(step))):
      terms.append(_relative(f"memory, {step.name}", (total, total), step.peak_bytes))
  for step in steps:
    if step.step_ms and step.model_tflop and step.xla_gb:
      parts = step.model_tflop * 1e12 / product, step.xla_gb * 1e9 / copy
      terms.append(_relative(f"overlap, {step.name}", (max(parts), sum(parts)), step.step_ms / 1e3))
  return {"device": device.gpu, "date": device.date, "jax": device.jax, "terms": terms}


def text(found: Mapping[str, Any]) -> str:
  """Returns the terms as a table."""
  rows = []
  for term in found["terms"]:
    name, (low, high), measured = term["term"], term["planned"], term["measured"]
    kind = name.split(",")[0]
    scale, unit = {"memory": (2**30, "GiB"), "overlap": (1e-3, "ms")}.get(kind, (1e12, "T/s"))
    planned = f"{low / scale:.2f}" + (f" to {high / scale:.2f}" if high > low else "")
    errors = dict.fromkeys(f"{error:+.0%}" for error in term["error"])
    rows.append((name, f"{planned} {unit}", f"{measured / scale:.2f} {unit}", " to ".join(errors)))
  said = f"Compared with one {found['device']} on {found['date']}, jax {found['jax']} (docs/plan.md):\n\n"
  heads = ("term", "planned", "measured", "error of the planned time or memory")
  return said + Grid(heads, tuple(rows)).text()


def _key(step: _Step | _Planned) -> tuple[str | int, ...]:
  return step.variant, step.captions, step.captions_per_image, step.tokens, step.microbatches


def _rate(name: str, assumed: float, measured: float) -> dict[str, Any]:
  error = measured / assumed - 1  # of the time: a rate that is assumed too high makes it too low
  return _term(name, (assumed, assumed), measured, (error, error))


def _relative(name: str, planned: tuple[float, float], measured: float) -> dict[str, Any]:
  low, high = (value / measured - 1 for value in planned)
  return _term(name, planned, measured, (low, high))


def _term(
  name: str, planned: tuple[float, float], measured: float, error: tuple[float, float]
) -> dict[str, Any]:
  return {"term": name, "planned": [*planned], "measured": measured, "error": [*error]}


def main() -> None:
  """Prints the comparison."""
  found = of(topologies.parse(sys.argv[1]))
  print(text(found) if found else f"{sys.argv[1]}: never measured")


if __name__ == "__main__":
  main()
