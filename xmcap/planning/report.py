"""A plan for people (text) and for programs (JSON)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xmcap.planning.estimate import CAVEATS
from xmcap.planning.mix import Mix
from xmcap.planning.run import Variant
from xmcap.planning.step import DoesNotFit, StepPlan
from xmcap.scoring.grid import Grid

_GIB = 2**30


def text(plan: StepPlan, price: float | None = None) -> str:
  """A plan as tables; for GPUs, its memory alone.

  Args:
    plan: of a step.
    price: of a chip and hour, if the run's cost is wanted.
  """
  variant = plan.run.variant
  parts = f", in {variant.microbatches} parts" if variant.microbatches > 1 else ""
  remat = f", remat of {variant.remat}" if variant.remat != "no" else ""
  lines = [
    f"{plan.parameters:,} parameters on {plan.topology.description}",
    f"{variant.mesh}; {plan.run.batch_size:,} captions a step, {variant.captions_per_image} a picture"
    f"{parts}{', scan' if variant.scan else ''}{remat}",
    "",
    _memory(plan).text(),
  ]
  if plan.bounds:
    lines += [_step(plan).text(), _run(plan, price).text()]
  lines.append("Nothing is measured (docs/plan.md). How each number can be wrong:")
  lines += [f"  {name}: {caveat}" for name, caveat in _caveats(plan).items()]
  return "\n".join(lines) + "\n"


def ranking(plans: Sequence[StepPlan], refused: Sequence[DoesNotFit], recipe: int) -> str:
  """The plans of a search, the fastest first; then the meshes on which nothing fits.

  Args:
    plans: of one run in variants.
    refused: variants that do not fit.
    recipe: captions a picture that the run's files say; other numbers are marked as another recipe.
  """

  def choices(variant: Variant) -> tuple[str, ...]:
    captions = variant.captions_per_image
    mark = "" if captions == recipe else "*"
    return variant.mesh, f"{captions}{mark}", variant.remat, str(variant.microbatches)

  rows = [
    (
      *choices(plan.run.variant),
      f"{plan.memory.total / _GIB:.1f}",
      _ms(plan.seconds),
      plan.bounds.name,
      f"{plan.cycles / 1e6:.1f}",
      f"{plan.captions_per_second:,.0f}",
      f"{plan.utilisation:.0%}",
    )
    for plan in plans
  ]
  rows += [
    (*choices(error.variant), f"{error.needed / _GIB:.1f}", "does not fit", "", "", "", "")
    for error in refused
  ]
  headings = (
    "mesh", "K", "remat", "parts", "GiB a chip", "step ms", "bound by", "M cycles", "captions/s", "MFU",
  )  # fmt: skip
  other = any(row[1].endswith("*") for row in rows)
  note = "* another recipe: more captions of a picture in a step.\n" if other else ""
  return Grid(headings, tuple(rows)).text() + note


def mix_text(mix: Mix, price: float | None = None) -> str:
  """The steps of a run with several lengths of targets, and their mean."""
  rows = tuple(
    (
      f"{length}",
      "unknown" if mix.shares is None else f"{mix.shares.get(length, 0):.0%}",
      _ms(plan.seconds),
      f"{plan.captions_per_second:,.0f}",
    )
    for length, plan in mix.plans.items()
  )
  heads = ("targets of", "share of steps", "ms a step", "captions a second")
  if mix.seconds is None:
    note = f"The mean is not known: {mix.why_unknown}; or give --length_mix=LENGTH:SHARE,...\n"
    return Grid(heads, rows).text() + note
  *_, longest = mix.plans.values()
  mean = ("mean", "", _ms(mix.seconds), f"{longest.run.batch_size / mix.seconds:,.0f}")
  table = Grid(heads, rows, (mean,)).text()
  steps = longest.run.total_steps
  if steps is None:
    return table
  hours = steps * mix.seconds / 3600
  chip_hours = hours * longest.topology.chips
  cost = "" if price is None else f", {chip_hours * price:,.0f} at {price:g} a chip and hour"
  return table + f"{steps:,} steps at the mean: {hours:,.2f} hours, {chip_hours:,.0f} chip-hours{cost}\n"


def document(plan: StepPlan) -> dict[str, Any]:
  """A plan as JSON's types; sizes in bytes, times in seconds, of one chip where nothing else is said."""
  topology = plan.topology
  found = {
    "topology": topology.name,
    "chips": topology.chips,
    "parameters": plan.parameters,
    "variant": dataclasses.asdict(plan.run.variant),
    "batch_size": plan.run.batch_size,
    "total_steps": plan.run.total_steps,
    "memory": {**dataclasses.asdict(plan.memory), "total": plan.memory.total, "allowed": topology.allowed},
    "compile_seconds": plan.compile_seconds,
  }
  found["caveats"] = _caveats(plan)
  if plan.bounds is None:
    return found
  return {
    **found,
    "hosts": topology.hosts,
    "rows_by_host": [rows.tolist() for rows in plan.fed],
    "flops": plan.flops,
    "model_flops": plan.model_flops,
    "estimated_cycles": plan.cycles,
    "exchanges": {kind: {"count": one.count, "bytes": one.size} for kind, one in plan.exchanges.items()},
    "estimate": {
      **{f"{name}_seconds": value for name, value in dataclasses.asdict(plan.bounds).items()},
      "step_seconds": plan.seconds,
      "bound": plan.bounds.name,
      "captions_per_second": plan.captions_per_second,
      "model_flops_utilisation": plan.utilisation,
      "pictures_per_second_and_host": plan.pictures_per_host,
      "hours": plan.hours,
      "chip_hours": plan.chip_hours,
    },
  }


def mix_document(mix: Mix) -> dict[str, Any]:
  """A mix as JSON's types, times in seconds."""
  return {
    "step_seconds": {str(length): plan.seconds for length, plan in mix.plans.items()},
    "shares": mix.shares and {str(length): share for length, share in mix.shares.items()},
    "mean_step_seconds": mix.seconds,
  }


def _caveats(plan: StepPlan) -> dict[str, str]:
  if plan.bounds:
    return CAVEATS
  return {
    "memory": "the program that trains is autotuned, and may need more or less; CUDA and NCCL take memory of their own"
  }


def _memory(plan: StepPlan) -> Grid:
  kinds = dataclasses.asdict(plan.memory)
  return Grid(
    ("memory of a chip", "GiB"),
    tuple((kind, f"{size / _GIB:.3f}") for kind, size in kinds.items()),
    (
      ("together", f"{plan.memory.total / _GIB:.3f}"),
      (plan.topology.allowance, f"{plan.topology.allowed / _GIB:.2f}"),
    ),
  )


def _step(plan: StepPlan) -> Grid:
  rows = [("arithmetic", f"{plan.flops / 1e12:.3f} Tflop", _ms(plan.bounds.arithmetic))]
  for kind, one in sorted(plan.exchanges.items()):
    rows.append((kind, f"{one.count} of {one.size / 1e9:.3f} GB together", ""))
  rows.append(("links of the slice", "", _ms(plan.bounds.links)))
  if plan.topology.slices > 1:
    rows.append(("network between slices", "", _ms(plan.bounds.network)))
  known = _ms(plan.bounds.schedule) if plan.bounds.schedule else "unknown"
  rows.append(("schedule of the compiler", f"{plan.cycles / 1e6:.1f} million cycles", known))
  return Grid(
    ("a step, for each chip", "amount", "ms"),
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
  if plan.hours is None:
    rows.append(("hours", "unknown: the number of steps follows from the data"))
    return Grid(("the run, estimated", ""), tuple(rows))
  rows += [
    ("steps", f"{plan.run.total_steps:,}"),
    ("hours", f"{plan.hours:,.2f}"),
    ("chip-hours", f"{plan.chip_hours:,.0f}"),
  ]
  if price is not None:
    rows.append((f"cost at {price:g} a chip and hour", f"{plan.chip_hours * price:,.0f}"))
  return Grid(("the run, estimated", ""), tuple(rows))


def _feeding(plan: StepPlan) -> str:
  counts = sorted({len(rows) for rows in plan.fed})
  blocks = max(1 + int((np.diff(rows) > 1).sum()) for rows in plan.fed)
  few_to_many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
  return few_to_many + (f", in {blocks} blocks" if blocks > 1 else "")


def _ms(seconds: float) -> str:
  return f"{seconds * 1e3:.2f}"
