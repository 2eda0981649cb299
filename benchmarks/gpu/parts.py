"""Where a step's time goes: the kernels of a profile, summed by the part of the model that they compute."""

import collections
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import jax

# One kernel may be named by its instruction alone; the program's text says what the instruction computes.
_INSTRUCTION = re.compile(r'^\s*(?:ROOT )?%?([\w.-]+) = .*op_name="([^"]+)"', re.MULTILINE)
_TOWERS = (
  ("logits", "logits"), ("/vit/", "vit"), ("encode_image", "vit"), ("/encoder/", "encoder"),
  ("token_embedder", "embedding"), ("decoder", "decoder"), ("encode", "encoder"),
)  # fmt: skip
_LAYERS = (
  ("/mlp/", "mlp"), ("norm", "norm"), ("/out/", "projections"), ("project", "projections"), ("combine", "attention"),
)  # fmt: skip


def measure(run: Callable[[], Any], program: str, steps: int, keep: pathlib.Path) -> dict[str, Any]:
  """Profiles `run`, which takes so many steps; keeps the profile and the program at KEEP.*.

  Returns:
    `parts_ms`: milliseconds of a step by part; `kernels_ms`: by kernel, the 20 that take longest; `busy_ms`: of all
    kernels; `parts_share`: the share of them that the program's text names.
  """
  names = dict(_INSTRUCTION.findall(program))
  parts, kernels = collections.Counter(), collections.Counter()
  named = 0.0
  keep.parent.mkdir(exist_ok=True)
  keep.with_suffix(".hlo.txt").write_text(program, encoding="utf-8")
  for event in _events(run, keep.with_suffix(".xplane.pb")):
    operation = _operation(event, names)
    named += event.duration_ns if operation else 0.0
    parts[part(operation)] += event.duration_ns
    kernels[event.name[:80]] += event.duration_ns
  total = sum(kernels.values())

  def milliseconds(counter, most=None):
    return {name: round(ns / steps / 1e6, 4) for name, ns in counter.most_common(most)}

  return {
    "parts_ms": milliseconds(parts),
    "kernels_ms": milliseconds(kernels, 20),
    "busy_ms": total / steps / 1e6,
    "parts_share": named / total if total else 0.0,
  }


def part(operation: str) -> str:
  """The part of a training step that an operation belongs to, by the names of flax's modules in it."""
  if not operation:
    return "unnamed"
  if "jvp(" not in operation:
    return "optimizer"
  way = "backward" if "transpose(" in operation else "forward"
  tower = next((name for mark, name in _TOWERS if mark in operation), None)
  if tower is None:
    return f"{way} loss"
  if tower in ("logits", "embedding"):
    return f"{way} {tower}"
  return f"{way} {tower} {next((name for mark, name in _LAYERS if mark in operation), 'rest')}"


def _events(run: Callable[[], Any], keep: pathlib.Path) -> list[Any]:
  """The kernels of a profile of `run`; on a CPU, what XLA's threads computed."""
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
      jax.block_until_ready(run())
    (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
    # The events are read from the data, which goes with it.
    data = jax.profiler.ProfileData.from_serialized_xspace(file.read_bytes())
    shutil.copyfile(file, keep)
  on_cpu = jax.default_backend() == "cpu"
  found = []
  for plane in data.planes:
    for line in plane.lines:
      if on_cpu or (plane.name.startswith("/device:GPU") and "Stream" in line.name):
        found += [event for event in line.events if not on_cpu or "hlo_op" in dict(event.stats)]
  return found


def _operation(event: Any, names: dict[str, str]) -> str:
  stats = dict(event.stats)
  found = names.get(str(stats.get("hlo_op", "")), "")
  return found or next((text for text in map(str, stats.values()) if text.startswith("jit(")), "")
