"""The figures of run.py as tables: the goals first, then what explains them.

usage: python benchmarks/gpu/tables.py OUT
Merges OUT/*.json into benchmarks/gpu/measured/TOPOLOGY.json, with which calibration.py compares the plan, and writes
benchmarks/results/gpu_*.json, of which `python benchmarks/all.py` prints the tables.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import plans
import recipe

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
MEASURED = BENCHMARKS / "gpu" / "measured"
COMMAND = "python benchmarks/gpu/run.py PATH --carried=PATH"
_NONE = "-"
_STEP = ("captions_per_image", "captions")

Figures = Mapping[str, Any]
"""Name of a part -> what it wrote."""


class Table(NamedTuple):
  """A result of benchmarks/results; see report.py beside this folder."""

  name: str
  title: str
  rows: Sequence[Sequence[str]]
  columns: Sequence[str]
  notes: Sequence[str] = ()


def collected(out: pathlib.Path) -> dict[str, Any]:
  """The figures of a run: the parts that wrote any, and under `plan` what `xmcap plan` says of the same steps."""
  found = {file.stem: recipe.read(file) for file in sorted(out.glob("*.json"))}
  for kind, prefixes in (("training", ("training_", "ablations")), ("peer", ("peer_",))):
    names = [name for prefix in prefixes for name in found if name.startswith(prefix)]
    found[kind] = [step for name in names for step in found.pop(name)]
  device = found.get("device", {})
  for step in found["training"]:
    if "tflops" in step and device:
      step["utilisation"] = step["tflops"] / device["product_tflops"]
  return {**found, "plan": recipe.read(plans.PLANNED / f"{device.get('topology')}.json") or []}


# ---- goals ----------------------------------------------------------------------------------------


def goals(found: Figures) -> list[tuple[str, float, float | None]]:
  """(what is measured, the least that is wanted, what was measured or None)."""
  ours, theirs = (lambda k, c, part=part: _one(found, part, k, c) for part in ("training", "peer"))

  def ratio(k: int, peers_k: int, captions: int) -> float | None:
    return _ratio(ours(k, captions), theirs(peers_k, captions), "captions_per_second")

  def accuracy(k: int, captions: int) -> float | None:
    """The smaller of the planned and the real memory / the larger."""
    for step in found.get("training") or ():
      both = _planned(found, step), _peak(step)
      if (step["captions_per_image"], step["captions"]) == (k, captions) and all(both):
        return min(both) / max(both)
    return None

  rows = []
  for captions in (128, 512):
    rows += [
      (f"{captions} captions, K = 1: xmcap / transformers", 1.3, ratio(1, 1, captions)),
      (f"{captions} captions, K = 8: xmcap / transformers, pictures shared by hand", 1.0, ratio(8, 8, captions)),
      (f"{captions} captions, K = 8: xmcap / transformers, usual way", 3.0, ratio(8, 1, captions)),
    ]  # fmt: skip
  for k in (1, 8):
    used = (ours(k, 512) or {}).get("utilisation")
    rows.append((f"model flops / those of a large product, K = {k}, 512 captions", 0.45, used))
  for k in (1, 8):
    for captions in (128, 512):
      rows.append(
        (
          f"memory, K = {k}, {captions} captions: planned / measured or its inverse",
          0.9,
          accuracy(k, captions),
        )
      )
  rates = (found.get("decoding") or {}).get("captions_per_second", {})
  rows.append(
    ("greedy decoding: xmcap / generate, pictures shared by hand", 2.0, _decoded(rates, "best case"))
  )
  return rows


def _one(found: Figures, part: str, k: int, captions: int) -> dict[str, Any] | None:
  """The program of so many captions as it is; if that was not measured, the fastest variant."""
  steps = [
    step
    for step in found.get(part) or ()
    if (step["captions_per_image"], step["captions"]) == (k, captions) and "step_ms" in step
  ]
  return min(steps, key=lambda step: (step.get("variant") != "default", step["step_ms"]), default=None)


def _ratio(one: Figures | None, other: Figures | None, name: str) -> float | None:
  return one[name] / other[name] if one and other else None


def _planned(found: Figures, step: Mapping[str, Any]) -> float | None:
  """Bytes that the planner expects of such a step."""
  same = ("variant", "captions_per_image", "captions", "microbatches")
  for plan in found.get("plan") or ():
    if all(plan[name] == step.get(name) for name in same):
      return plan["memory"]["total"]
  return None


def _peak(step: Mapping[str, Any]) -> float | None:
  """Bytes that a step took at most; None if it failed, or the peak may be that of a program before it."""
  return step.get("peak_bytes") if step.get("peak_is_own", True) else None


def _decoded(rates: Mapping[str, float], way: str) -> float | None:
  theirs = next((rate for name, rate in rates.items() if way in name), None)
  return rates["xmcap"] / theirs if theirs else None


# ---- tables ---------------------------------------------------------------------------------------


def tables(found: Figures) -> list[Table]:
  """All tables that have rows."""
  makers: list[Callable[[Figures], Table]] = [_goals, _training, _parts, _decoding, _other]
  return [table for make in makers if (table := make(found)).rows]


def _goals(found: Figures) -> Table:
  rows = []
  for what, wanted, measured in goals(found):
    reached = "not measured" if measured is None else "met" if measured >= wanted else "missed"
    rows.append((what, f"{wanted:g}", _NONE if measured is None else f"{measured:.2f}", reached))
  device = found.get("device", {})
  notes = [
    f"bfloat16, one device. Large products of bfloat16 reach {_figure(device.get('product_tflops'))} Tflop/s, copies"
    f" {_figure(device.get('copy_gb_per_second'))} GB/s (read and written).",
    "xmcap's figures are those of `xmcap` in the next table, or of its fastest variant where that was not measured.",
    *sorted(
      {f"Memory was planned on {plan['date']}, with jax {plan['jax']}." for plan in found.get("plan") or ()}
    ),
    "The peer: transformers' ViT and mT5 in PyTorch, autocast to bfloat16, SDPA, torch.compile, torch's Adafactor.",
  ]
  return Table(
    "gpu_goals",
    "What was wanted, and what was measured",
    rows,
    ("", "at least", "measured", "reached"),
    notes,
  )


def _training(found: Figures) -> Table:
  rows = []
  for name, part in (("xmcap", "training"), ("transformers", "peer")):
    for step in found.get(part) or ():
      k, captions = step["captions_per_image"], step["captions"]
      variant = step.get("way") or step["variant"].replace("_", " ").replace("+", ", ")
      who = name if variant == "default" else f"{name}, {variant}"
      if "error" in step:
        rows.append((who, str(k), str(captions), step["error"][:60], *[_NONE] * 7))
        continue
      planned = _planned(found, step) if part == "training" else None
      rows.append((
        who, str(k), str(captions), f"{step['step_ms']:.1f} ± {step['spread_ms'] / 2:.1f}",
        f"{step['captions_per_second']:,.0f}", _percent(step.get("utilisation")), _gib(_peak(step)),
        _gib(planned), _gib(step.get("memory", {}).get("total")), _figure(step.get("compile_seconds")),
        f"{step['loss']:.6f}",
      ))  # fmt: skip
  columns = (
    "", "K", "captions", "ms", "captions per second", "utilisation", "GiB at most", "GiB planned",
    "GiB by the compiler", "seconds to compile", "first loss",
  )  # fmt: skip
  notes = ["Utilisation: model flops / those of the fastest large product.", *found.get("notes", ())]
  return Table("gpu_training", "BB's training step", rows, columns, notes)


def _parts(found: Figures) -> Table:
  steps = [step for step in found.get("training") or () if step.get("parts_ms")]
  names = {name: None for step in steps for name in step["parts_ms"]}
  rows = [
    (name, *(f"{step['parts_ms'].get(name, 0.0):.2f}" for step in steps))
    for name in sorted(names, key=lambda name: -max(step["parts_ms"].get(name, 0.0) for step in steps))
  ]
  columns = ("", *(f"K = {step['captions_per_image']}, {step['captions']} captions" for step in steps))
  return Table("gpu_parts", "Where BB's training step spends its time, ms of kernels", rows, columns)


def _decoding(found: Figures) -> Table:
  rows = []
  for part in ("decoding", "decoding_static", "decoding_float32"):
    decoded = found.get(part) or {}
    for name, rate in decoded.get("captions_per_second", {}).items():
      ours = decoded["captions_per_second"]["xmcap"]
      rows.append((name, decoded["dtype"], str(decoded["pictures"]), f"{rate:,.0f}", f"{ours / rate:.2f}",
                   _percent(decoded["same_captions"]) if name != "xmcap" else ""))  # fmt: skip
  columns = (
    "",
    "dtype",
    "pictures",
    "captions per second",
    "slowdown relative to xmcap",
    "same captions, best case",
  )
  note = (
    "Greedy, at most 32 tokens, 36 languages, the same random weights on both sides. In bfloat16 two logits are often"
    " nearly equal, so captions are compared in float32."
  )
  return Table("gpu_decoding", "Captions in 36 languages, BB", rows, columns, [note])


def _other(found: Figures) -> Table:
  rows = []
  if quick := found.get("quickstart"):
    rows += [
      (f"quickstart, {quick['steps']} steps of training on the {name}: {what}", f"{value:.4g}")
      for name in ("gpu", "cpu")
      for what, value in quick.get(name, {}).items()
    ]  # fmt: skip
    for dtype in ("float32", "bfloat16"):
      if (same := quick.get(f"same_captions_{dtype}")) is not None:
        what = f"its captions on the GPU in {dtype} that are those of the CPU, of {quick['captions']:,}"
        rows.append((what, _percent(same)))
  for wait in found.get("data_wait") or ():
    model = f"{wait['model']}, K = {wait['captions_per_image']}"
    rows += [
      (f"{model}: share of time that the GPU waits for data", _percent(wait["waiting_for_data"])),
      (f"{model}: captions per second, stream / the same batch repeated", f"{wait['of_repeated']:.2f}"),
    ]
  return Table("gpu_runs", "Whole runs", rows, ("measured", "figure"))


def _figure(value: float | None) -> str:
  return _NONE if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
  return _NONE if value is None else f"{value:.1%}"


def _gib(value: float | None) -> str:
  return _NONE if value is None else f"{value / 2**30:.1f}"


def lines(found: Figures) -> list[str]:
  """The tables as text."""
  text = []
  for table in tables(found):
    text += [
      "",
      table.title,
      " | ".join(table.columns),
      *(" | ".join(row) for row in table.rows),
      *table.notes,
    ]
  return text


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("out", type=pathlib.Path, help="the folder that run.py wrote")
  found = collected(parser.parse_args().out)
  device = found.get("device")
  if not device:
    raise SystemExit("no device.json: this is no folder that benchmarks/gpu/run.py wrote")
  sys.path.append(str(BENCHMARKS))
  import report

  MEASURED.mkdir(exist_ok=True)
  done = [step for step in found.get("training", ()) if "error" not in step]
  recipe.write(MEASURED / f"{device['topology']}.json", {**found, "training": done})
  machine = {
    name: device[name] for name in ("gpu", "cores", "memory_gib", "python", "jax", "torch", "transformers")
  }
  for table in tables(found):
    report.write(*table, made_by=(COMMAND, device["date"], machine))


if __name__ == "__main__":
  main()
