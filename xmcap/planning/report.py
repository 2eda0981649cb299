"""Formats plans as text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.data import workers
from xmcap.files import ramp
from xmcap.grid import Grid
from xmcap.planning.run import Variant
from xmcap.planning.step import DoesNotFit
from xmcap.planning.topologies import GpuNode, Topology

_GIB = 2**30
_OVERLAP = ("communication hidden", "exposed")

Plan = Mapping[str, Any]
"""The result of `step.plan_step`."""


def text(plan: Plan, topology: Topology | GpuNode, price: float | None = None, lengths: int = 1) -> str:
  """A plan as tables; for GPUs, its memory and exchanges.

  `price` is per chip-hour; of several `lengths` of targets the plan is that of the longest.
  """
  variant = Variant(**plan["variant"])
  parts = f", in {variant.microbatches} microbatches" if variant.microbatches > 1 else ""
  remat = f", remat {variant.remat}" if variant.remat != "no" else ""
  lines = [
    f"{plan['parameters']:,} parameters on {topology.description}",
    f"{variant.mesh}; {plan['batch_size']:,} captions per step, {variant.captions_per_image} per picture"
    f"{parts}{', scan' if variant.scan else ''}{remat}",
    *([f"XLA flags: {plan['xla_flags']}"] if plan["xla_flags"] else []),
    "",
    _memory(plan, topology).text(),
  ]
  if isinstance(topology, Topology):
    lines += [_step(plan, topology).text(), _run(plan, topology, price, lengths).text()]
    if small := plan["smallest"]:
      lines.append(
        f"The smallest slice of these chips that should hold it is {small['topology']}, with at most "
        f"{small['memory'] / _GIB:.1f} GiB per {topology.unit}: a step takes longer there, and costs about the same. "
        f"Plan it with --topology={small['topology']}.\n"
      )
  else:
    if plan["exchanges"]:
      lines += [_exchanges(plan["exchanges"]).text()]
    seconds = plan["arithmetic_seconds"]
    lines.append(f"The model's matrix products take each GPU at least {_ms(seconds)} ms, at its peak rate.\n")
  lines.append("Nothing is measured; docs/pods.md says how far plans were from the one chip that was.")
  lines.append("How each number can be wrong:")
  lines += [f"  {name}: {caveat}" for name, caveat in plan["caveats"].items()]
  return "\n".join(lines) + "\n"


def ranking(plans: Sequence[Plan], refused: Sequence[DoesNotFit], recipe: int) -> str:
  """The plans of a search, fastest first, then the meshes on which nothing fits.

  The step is with all communication hidden, and `exposed` with none.
  `recipe` is the configured number of captions per image; other numbers are marked as another recipe.
  """

  def choices(variant: Variant) -> tuple[str, ...]:
    captions = f"{variant.captions_per_image}{'' if variant.captions_per_image == recipe else '*'}"
    return variant.mesh, captions, variant.remat, str(variant.microbatches)

  rows = []
  for plan in plans:
    estimate = plan["estimate"]
    rows.append((
      *choices(Variant(**plan["variant"])),
      f"{plan['memory']['total'] / _GIB:.1f}",
      _ms(estimate["step_seconds"]),
      _ms(estimate["exposed_seconds"]),
      estimate["bound"],
      f"{plan['estimated_cycles'] / 1e6:.1f}",
      f"{estimate['captions_per_second']:,.0f}",
      f"{estimate['model_flops_utilisation']:.0%}",
    ))  # fmt: skip
  for error in refused:
    rows.append((*choices(error.variant), f"{error.needed / _GIB:.1f}", "does not fit", "", "", "", "", ""))
  headings = (
    "mesh", "K", "remat", "microbatches", "GiB per device", "step ms", "exposed ms", "bound by", "M cycles",
    "captions/s", "MFU",
  )  # fmt: skip
  other = any(row[1].endswith("*") for row in rows)
  note = "* another recipe: more captions per picture in a step.\n" if other else ""
  return Grid(headings, tuple(rows), spare=("M cycles", "microbatches", "exposed ms")).text() + note


def mix_text(mix: Mapping[str, Any], longest: Plan, price: float | None = None) -> str:
  """The result of `plan_mix`: the steps for each target length, and their mean."""

  def row(name: str, share: str, seconds: float, exposed: float) -> tuple[str, ...]:
    return name, share, _ms(seconds), _ms(exposed), f"{longest['batch_size'] / seconds:,.0f}"

  shares, mean, exposed = mix["shares"], mix["mean_step_seconds"], mix["exposed_seconds"]
  rows = tuple(
    row(length, f"{shares.get(length, 0):.0%}" if shares else "unknown", seconds, exposed[length])
    for length, seconds in mix["step_seconds"].items()
  )
  heads = ("targets of", "share of steps", "ms per step", "exposed ms", "captions per second")
  if mean is None:
    note = f"The mean is unknown: {mix['why_unknown']}; or give --length_mix=LENGTH:SHARE,...\n"
    return Grid(heads, rows).text() + note
  both = mean, mix["mean_exposed_seconds"]
  table = Grid(heads, rows, (row("mean", "", *both),)).text()
  return table + Grid(("the run at the mean", *_OVERLAP), _length_of_run(longest, both, price)).text()


def _memory(plan: Plan, topology: Topology | GpuNode) -> Grid:
  sizes = dict(plan["memory"])
  allowed, total = sizes.pop("allowed"), sizes.pop("total")
  rows = tuple((kind, f"{size / _GIB:.3f}") for kind, size in sizes.items())
  foot = (("total", f"{total / _GIB:.3f}"), (topology.allowance, f"{allowed / _GIB:.2f}"))
  return Grid((f"memory per {topology.unit}", "GiB"), rows, foot)


def _step(plan: Plan, topology: Topology | GpuNode) -> Grid:
  estimate = plan["estimate"]
  rows = [("arithmetic", f"{plan['flops'] / 1e12:.3f} Tflop", _ms(estimate["arithmetic_seconds"]))]
  for kind, one in sorted(plan["exchanges"].items()):
    rows.append((kind, f"{one['count']}, {one['bytes'] / 1e9:.3f} GB in total", ""))
  rows.append(("links of the slice", "", _ms(estimate["links_seconds"])))
  if topology.slices > 1:
    rows.append(("network between slices", "", _ms(estimate["network_seconds"])))
  schedule = _ms(estimate["schedule_seconds"]) if estimate["schedule_seconds"] else "unknown"
  rows.append(("schedule of the compiler", f"{plan['estimated_cycles'] / 1e6:.1f} million cycles", schedule))
  foot = (
    ("step, communication hidden", f"bound by {estimate['bound']}", _ms(estimate["step_seconds"])),
    ("step, communication exposed", "computing and communication", _ms(estimate["exposed_seconds"])),
  )
  return Grid((f"a step, per {topology.unit}", "amount", "ms"), tuple(rows), foot)


def _exchanges(exchanges: Mapping[str, Mapping[str, float]]) -> Grid:
  def row(name: str) -> tuple[str, ...]:
    one = exchanges[name]
    seconds = one["seconds"], one["hidden_seconds"]
    sizes = (f"{one[part] / 1e6:,.1f}" for part in ("bytes", "overlapped_bytes"))
    return name, f"{one['count']:,.0f}", *sizes, *map(_ms, seconds)

  rows = tuple(row(name) for name in exchanges if name != "total")
  heads = ("between GPUs, a step of each", "number", "MB", "overlapped MB", "ms of the links", "hidden ms")
  return Grid(heads, rows, (row("total"),))


def _run(plan: Plan, topology: Topology, price: float | None, lengths: int) -> Grid:
  estimate = plan["estimate"]
  images = plan["batch_size"] // plan["variant"]["captions_per_image"]
  both = estimate["step_seconds"], estimate["exposed_seconds"]
  busiest = max(map(len, plan["rows_by_host"]))

  def row(name: str, values: Callable[[float], str]) -> tuple[str, ...]:
    return name, *map(values, both)

  rows = (
    row("captions per second", lambda seconds: f"{plan['batch_size'] / seconds:,.0f}"),
    row(
      "model-flops utilisation",
      lambda seconds: f"{estimate['model_flops_utilisation'] * both[0] / seconds:.1%}",
    ),
    (f"pictures that each host feeds, of a batch of {images:,}", _feeding(plan["rows_by_host"]), ""),
    row("pictures per second that each host feeds", lambda seconds: f"{busiest / seconds:,.0f}"),
    ("GB of disk, a checkpoint's parameters", f"{4 * plan['parameters'] / 1e9:,.1f}", ""),
  )
  if plan["decodes_pictures"]:
    name = f"cores for {workers.MARGIN:g} times as many, if each decodes {workers.PER_CORE}"
    rows += (row(name, lambda seconds: _cores(busiest / seconds, topology)),)
    rows += tuple(row(*of_bucket) for of_bucket in _bucket(images, plan["reading"]))
  # Shorter targets, whose steps are not planned yet, take less time.
  head = "the run, estimated" if lengths == 1 else "the run, if all targets were the longest"
  return Grid((head, *_OVERLAP), rows + _length_of_run(plan, both, price))


def _length_of_run(plan: Plan, both: tuple[float, float], price: float | None) -> tuple[tuple[str, ...], ...]:
  """Rows about a run whose steps take the one or the other time; `price` is per chip-hour."""
  steps = plan["total_steps"]
  if steps is None:
    return (("hours", "unknown: the number of steps depends on the data", ""),)
  hours = [steps * seconds / 3600 for seconds in both]
  chip_hours = [span * plan["chips"] for span in hours]
  rows = (
    ("steps", f"{steps:,}", ""),
    ("hours", *(f"{span:,.2f}" for span in hours)),
    ("chip-hours", *(f"{span:,.0f}" for span in chip_hours)),
  )
  if price is None:
    return rows
  return (*rows, (f"cost at {price:g} per chip-hour", *(f"{span * price:,.0f}" for span in chip_hours)))


def _cores(images: float, topology: Topology) -> str:
  """The cores that read so many images a second, of those that a host has."""
  needed = workers.cores_for(images)
  own = topology.host_cores
  return f"{needed:,} of {own} of a host" + ("" if needed <= own else ": too few; raise captions_per_image")


def _bucket(images: int, reading: Mapping[str, Any]) -> list[tuple[str, Callable[[float], str]]]:
  """What a bucket must give all hosts for a batch in so many seconds, if nothing is cached."""
  requests, size = reading["requests_per_picture"], reading["record_bytes"]
  begins = f"reads per second of a bucket, which begins with about {ramp.PUBLISHED:,}"
  rows = [(begins, lambda seconds: f"{images * requests / seconds:,.0f}")]
  if size is not None:
    rows.append(("MB per second of a bucket", lambda seconds: f"{images * size / seconds / 1e6:,.0f}"))
  return rows


def _feeding(rows_by_host: Sequence[Sequence[int]]) -> str:
  counts = sorted({len(rows) for rows in rows_by_host})
  blocks = max(1 + int((np.diff(rows) > 1).sum()) for rows in rows_by_host)
  few_to_many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
  return few_to_many + (f", in {blocks} blocks" if blocks > 1 else "")


def _ms(seconds: float) -> str:
  return f"{seconds * 1e3:.2f}"
