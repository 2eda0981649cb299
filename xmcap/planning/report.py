"""A plan for people (text) and for programs (JSON)."""

import dataclasses
from typing import Any

import numpy as np

from xmcap.planning import program
from xmcap.planning.step import DoesNotFit, StepPlan
from xmcap.scoring.grid import Grid

_GIB = 2**30


def text(plan: StepPlan, price: float | None = None) -> str:
  """A plan as tables.

  Args:
    plan: of a step.
    price: of a chip and hour, if the run's cost is wanted.
  """
  variant, topology = plan.run.variant, plan.topology
  lines = [
    f"{plan.parameters:,} parameters on {topology.name} ({topology.usual_name}): {topology.chips} chips, "
    f"{topology.hosts} hosts",
    f"{_mesh(variant)}; {plan.run.batch_size:,} captions a step, {variant.captions_per_image} a picture"
    + (f", in {variant.microbatches} parts" if variant.microbatches > 1 else "")
    + _switches(variant),
    "",
    _memory(plan).text(),
    _step(plan).text(),
    _run(plan, price).text(),
    "Times are estimates, not measured: what the compiled program comes to (docs/plan.md).",
  ]
  return "\n".join(lines) + "\n"


def ranking(plans: list[StepPlan], refused: list[DoesNotFit], recipe: int) -> str:
  """The plans of a search, the fastest first; then those that do not fit.

  Args:
    plans: of one run in variants.
    refused: variants that do not fit.
    recipe: captions a picture that the run's files say; other numbers are another recipe.
  """
  rows = [
    (
      _mesh(plan.run.variant),
      *_choices(plan.run.variant, recipe),
      f"{plan.memory.total / _GIB:.1f}",
      f"{plan.seconds * 1e3:.1f}",
      plan.bounds.name,
      f"{plan.cycles / 1e6:.1f}",
      f"{plan.captions_per_second:,.0f}",
      f"{plan.utilisation:.0%}",
    )
    for plan in plans
  ]
  rows += [
    (
      _mesh(error.variant),
      *_choices(error.variant, recipe),
      f"{error.needed / _GIB:.1f}",
      "does not fit",
      *[""] * 4,
    )
    for error in refused
  ]
  headings = (
    "mesh", "K", "remat", "parts", "GiB a chip", "step ms", "bound by", "M cycles", "captions/s", "MFU",
  )  # fmt: skip
  note = (
    ""
    if all(row[1].isdigit() for row in rows)
    else "* another recipe: more captions of a picture in a step.\n"
  )
  return Grid(headings, tuple(rows)).text() + note


def document(plan: StepPlan) -> dict[str, Any]:
  """A plan as JSON's types; sizes in bytes, times in seconds, of one chip where nothing else is said."""
  return {
    "topology": plan.topology.name,
    "chips": plan.topology.chips,
    "hosts": plan.topology.hosts,
    "parameters": plan.parameters,
    "variant": dataclasses.asdict(plan.run.variant),
    "batch_size": plan.run.batch_size,
    "rows_by_host": [rows.tolist() for rows in plan.fed],
    "memory": {
      **dataclasses.asdict(plan.memory),
      "total": plan.memory.total,
      "allowed": plan.topology.chip.hbm,
    },
    "flops": plan.flops,
    "bytes_accessed": plan.accessed,
    "hbm_bytes": plan.traffic,
    "estimated_cycles": plan.cycles,
    "collectives": {
      kind: {"count": count, "bytes": size}
      for kind, (count, size) in program.by_kind(plan.collectives).items()
    },
    "estimate": {
      **{f"{name}_seconds": value for name, value in dataclasses.asdict(plan.bounds).items()},
      "step_seconds": plan.seconds,
      "bound": plan.bounds.name,
      "captions_per_second": plan.captions_per_second,
      "model_flops_utilisation": plan.utilisation,
      "pictures_per_second_and_host": plan.pictures_per_host,
      "hours": _hours(plan),
      "chip_hours": None if _hours(plan) is None else _hours(plan) * plan.topology.chips,
    },
    "model_flops": plan.model_flops,
    "total_steps": plan.run.total_steps,
    "compile_seconds": plan.compile_seconds,
  }


def _memory(plan: StepPlan) -> Grid:
  kinds = dataclasses.asdict(plan.memory)
  return Grid(
    ("memory of a chip", "GiB"),
    tuple((kind, f"{size / _GIB:.3f}") for kind, size in kinds.items()),
    (
      ("together", f"{plan.memory.total / _GIB:.3f}"),
      (f"a {plan.topology.chip.name} allows", f"{plan.topology.chip.hbm / _GIB:.2f}"),
    ),
  )


def _step(plan: StepPlan) -> Grid:
  rows = [
    ("arithmetic", f"{plan.flops / 1e12:.3f} Tflop", _ms(plan.bounds.arithmetic)),
    ("memory traffic", f"{plan.traffic / 1e9:.1f} GB", _ms(plan.bounds.memory)),
  ]
  exchanges = program.by_kind(plan.collectives)
  for kind, (count, size) in sorted(exchanges.items()):
    rows.append((kind, f"{count} of {size / 1e9:.3f} GB together", ""))
  rows.append(("links of the slice", "", _ms(plan.bounds.links)))
  if plan.topology.slices > 1:
    rows.append(("network between slices", "", _ms(plan.bounds.network)))
  if plan.cycles:
    said = _ms(plan.bounds.schedule) if plan.bounds.schedule else ""
    rows.append(
      ("the compiler's schedule", f"{plan.cycles / 1e6:.1f} million cycles, exchanges left out", said)
    )
  return Grid(
    ("a step, for each chip", "what", "ms"),
    tuple(rows),
    (("estimate", f"bound by {plan.bounds.name}", _ms(plan.seconds)),),
  )


def _run(plan: StepPlan, price: float | None) -> Grid:
  rows = [
    ("captions a second", f"{plan.captions_per_second:,.0f}"),
    ("model-flops utilisation", f"{plan.utilisation:.1%}"),
    (f"rows of a batch of {plan.run.pictures:,} pictures that each host feeds", _feeding(plan)),
    ("pictures a second that each host feeds", f"{plan.pictures_per_host:,.0f}"),
  ]
  hours = _hours(plan)
  if hours is None:
    rows.append(("hours", "unknown: the number of steps follows from the data"))
  else:
    chip_hours = hours * plan.topology.chips
    rows += [
      ("steps", f"{plan.run.total_steps:,}"),
      ("hours", f"{hours:,.2f}"),
      ("chip-hours", f"{chip_hours:,.0f}"),
    ]
    if price is not None:
      rows.append((f"cost at {price:g} a chip and hour", f"{chip_hours * price:,.0f}"))
  return Grid(("the run, estimated", ""), tuple(rows))


def _feeding(plan: StepPlan) -> str:
  counts = sorted({len(rows) for rows in plan.fed})
  blocks = max(len(ranges(rows)) for rows in plan.fed)
  return " to ".join(f"{count:,}" for count in counts[:: max(1, len(counts) - 1)]) + (
    f", in {blocks} blocks" if blocks > 1 else ""
  )


def ranges(rows: np.ndarray) -> list[tuple[int, int]]:
  """Ascending numbers as blocks (first, last) without a gap."""
  parts = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
  return [(int(part[0]), int(part[-1])) for part in parts]


def _hours(plan: StepPlan) -> float | None:
  steps = plan.run.total_steps
  return None if steps is None else steps * plan.seconds / 3600


def _ms(seconds: float) -> str:
  return f"{seconds * 1e3:.2f}"


def _mesh(variant: Any) -> str:
  return f"data {variant.data} x fsdp {variant.fsdp} x model {variant.model}"


def _switches(variant: Any) -> str:
  remat = "" if variant.remat == "no" else f", remat of {variant.remat}"
  return (", scan" if variant.scan else "") + remat


def _choices(variant: Any, recipe: int) -> tuple[str, str, str]:
  captions = variant.captions_per_image
  mark = "" if captions == recipe else "*"
  return f"{captions}{mark}", variant.remat, str(variant.microbatches)
