"""The paper's models planned for 64 TPU v4 chips, and BB for H100: what `xmcap plan` says of each. No TPU is needed.

usage: python benchmarks/plan.py [--tables meshes lengths captions_per_image decode gpus node] [--models bb bg lg]
The search over meshes takes most of an hour; each of the others takes minutes a model. `gpus` and `node` need the extra
cuda.
"""

import argparse
import functools
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import report

_TOPOLOGY = "--topology=v4-128"
_RUN = "--gin_file=runs/train_coco35l.gin"
_ESTIMATE = (
  "Batch 2,048. Times are estimates for the compiled program (see docs/pods.md). Nothing was run on a TPU."
)
_NODE_MESHES = {
  "fsdp 8": (),
  "fsdp 2 x model 4": ("--gin.Partitioning.fsdp=2", "--gin.Partitioning.model=4"),
  "data 8": ("--gin.Partitioning.fsdp=1",),
  "replicas": (
    "--gin.Partitioning.fsdp=1",
    "--gin.Partitioning.extra_rules="
    + str([(axis, None) for axis in ("vocab", "mlp", "joined_kv", "head_vocab", "head_embed")]),
  ),
}
"""Options of the mesh of eight GPUs."""
_NODE = (
  "Per GPU, with 2,048 captions in all, K = 1, targets of 32 tokens. Compiled on a host without a GPU: nothing was run "
  "on one. Overlapped: with kernels between start and end. Times are at the peak of the links and of the GPU "
  "(docs/pods.md)."
)
_FEW_LAYERS = 2
"""Of 12: what they exchange repeats, and a step of all takes minutes to compile."""
_KEPT: dict[str, pathlib.Path] = {}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--tables", nargs="+", choices=_TABLES, default=list(_TABLES))
  parser.add_argument("--models", nargs="+", default=["bb", "bg", "lg"], help="of gin/models")
  parser.add_argument(
    "--keep", type=pathlib.Path, help="--keep=FOLDER keeps the plans there; a broken run goes on from them"
  )
  arguments = parser.parse_args()
  if arguments.keep:
    arguments.keep.mkdir(exist_ok=True)
    _KEPT["folder"] = arguments.keep
  for name in arguments.tables:
    _TABLES[name](arguments.models)


def planned(model: str, *options: str) -> Any:
  """What `xmcap plan --json` writes."""
  with tempfile.TemporaryDirectory() as folder:
    name = hashlib.sha256(" ".join((model, *options)).encode()).hexdigest()[:16]
    out = _KEPT.get("folder", pathlib.Path(folder)) / f"{name}.json"
    if not out.exists():
      command = [sys.executable, "-c", "from xmcap.cli import console; console()", "plan"]
      command += [f"--gin_file=models/{model}.gin", _RUN, *options, f"--json={out}"]
      subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text(encoding="utf-8"))


def meshes(models: list[str]) -> None:
  """Every mesh that fits, with scanned layers."""
  found = {model: planned(model, _TOPOLOGY, "--search", "--captions_per_image=8") for model in models}
  cells: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
  for model, plans in found.items():
    for plan in plans:
      variant = plan["variant"]
      mesh = " x ".join(str(variant[axis]) for axis in ("data", "fsdp", "model"))
      key = mesh, str(variant["captions_per_image"])
      cells.setdefault(key, {})[model] = _gib(plan["memory"]["total"]), _ms(plan["estimate"]["step_seconds"])
  report.write(
    "plan",
    "Meshes for 64 v4 chips",
    [
      (*key, *(cell for model in models for cell in by_model.get(model, ("-", "-"))))
      for key, by_model in cells.items()
    ],
    columns=("data x fsdp x model", "K", *(f"{model}: {what}" for model in models for what in ("GiB", "ms"))),
    notes=[_ESTIMATE + " Scanned layers; targets of 64 tokens. K > 1 is a different recipe.", _libtpu()],
  )


def lengths(models: list[str]) -> None:
  """Steps of the lengths that a batch may have, and their mean."""
  rows = []
  for model in models:
    found = planned(model, _TOPOLOGY, "--length_mix=16:0.44,32:0.5,64:0.06")["lengths"]
    means = found["mean_step_seconds"], found["mean_exposed_seconds"]
    rows.append((model, *map(_ms, (*found["step_seconds"].values(), *means))))
  report.write(
    "plan_lengths",
    "Targets of 16, 32 and 64 tokens on 64 v4 chips",
    rows,
    columns=("", "16: ms", "32: ms", "64: ms", "mean: ms", "mean, communication exposed: ms"),
    notes=[
      _ESTIMATE
      + " The mean weights the lengths by their share of steps with captions like COCO-35L's: 44%, 50% and 6%."
    ],
  )


def captions_per_image(models: list[str]) -> None:
  """K = 1 and K = 8 on the mesh of the model file."""
  rows = []
  for model in models:
    cells = []
    for options in ((), ("--gin.CAPTIONS_PER_IMAGE=8", "--gin.ViTConfig.remat=False")):
      plan = planned(model, _TOPOLOGY, "--gin.TARGET_LENGTH=32", *options)
      rate = plan["estimate"]["captions_per_second"]
      cells.append((plan, rate))
      sent = sum(one["bytes"] for one in plan["exchanges"].values())
      rows.append((
        model, "8" if options else "1", _gib(plan["memory"]["total"]), f"{sent / 1e9:.2f}",
        f"{plan['estimated_cycles'] / 1e6:.1f}", _ms(plan["estimate"]["step_seconds"]),
        _ms(plan["estimate"]["exposed_seconds"]), f"{rate:,.0f}", f"{rate / cells[0][1]:.2f}",
        plan["estimate"]["bound"],
      ))  # fmt: skip
  report.write(
    "plan_captions_per_image",
    "Captions per picture on 64 v4 chips",
    rows,
    columns=(
      "", "K", "GiB", "GB sent", "million cycles", "ms", "ms, communication exposed", "captions per second",
      "relative to K = 1", "bottleneck",
    ),
    notes=[
      _ESTIMATE
      + " Targets of 32 tokens. Captions per second are with all communication hidden."
    ],
  )  # fmt: skip


def decode(models: list[str]) -> None:
  """An evaluation on XM3600."""
  rows = []
  for model in models:
    plan = planned(model, "--gin_file=runs/eval_xm3600.gin", _TOPOLOGY, "--decode")
    said, memory = plan["estimate"], plan["memory"]
    rows.append((
      model, _gib(memory["arguments"] + memory["working"]), _ms(said["encoding_seconds"]), _ms(said["token_seconds"]),
      f"{said['captions_per_second']:,.0f}", f"{3600 * 36 / said['captions_per_second']:.1f}",
    ))  # fmt: skip
  report.write(
    "plan_decode",
    "Decoding an evaluation on 64 v4 chips",
    rows,
    columns=(
      "",
      "GiB per chip",
      "ms per batch",
      "ms per token",
      "captions per second",
      "seconds for XM3600",
    ),
    notes=[
      _ESTIMATE
      + " Greedy search; each host decodes 32 pictures at a time in 36 languages; captions of 64 tokens."
      " The time per batch is that of encoding, and of copying the caches when finished captions are dropped."
    ],
  )


def gpus(models: list[str]) -> None:
  """Memory of BB on one and on eight H100; `models` is not used."""
  rows = []
  for count, captions, length, parts in (
    (1, 128, 32, 1), (1, 2048, 64, 32), (8, 2048, 32, 1), (8, 2048, 64, 1), (8, 2048, 64, 4),
  ):  # fmt: skip
    plan = planned(
      "bb", f"--topology=h100-{count}", f"--gin.BATCH_SIZE={captions}", f"--gin.TARGET_LENGTH={length}",
      f"--gin.train.microbatches={parts}", "--gin.ViTConfig.scan=True", "--gin.T5Config.scan=True",
    )  # fmt: skip
    rows.append((str(count), f"{captions:,}", str(length), str(parts), _gib(plan["memory"]["total"])))
  report.write(
    "plan_gpus",
    "Memory of BB's training step on H100",
    rows,
    columns=("GPUs", "captions per step", "tokens", "microbatches", "GiB per GPU"),
    notes=["Scanned layers, compiled on a host without a GPU. Nothing was run on a GPU."],
  )


def node(models: list[str]) -> None:
  """What eight H100 exchange in a step of BB: by kind on the default mesh, and by mesh; `models` is not used."""
  planned_here = functools.partial(planned, "bb", "--topology=h100-8", "--gin.TARGET_LENGTH=32")
  sums = ("number", "MB", "MB overlapped", "ms of the links", "ms hidden at least")
  default = planned_here()
  report.write(
    "plan_node_exchanges",
    "What eight H100 exchange in a training step of BB",
    [
      (
        name, f"{one['count']:,.0f}", _mb(one["bytes"]), _mb(one["overlapped_bytes"]),
        f"{one['seconds'] * 1e3:.2f}", f"{one['hidden_seconds'] * 1e3:.2f}",
      )
      for name, one in default["exchanges"].items()
    ],
    columns=("", *sums),
    notes=[
      f"{_NODE} The mesh of models/bb.gin, fsdp 8. The model's matrix products take each GPU at least "
      f"{_ms(default['arithmetic_seconds'])} ms. An exchange of several element types counts once in the total."
    ],
  )  # fmt: skip
  stacks = ("ViTConfig.depth", "T5Config.num_encoder_layers", "T5Config.num_decoder_layers")
  short = [f"--gin.{stack}={_FEW_LAYERS}" for stack in stacks]
  rows = []
  for mesh, options in _NODE_MESHES.items():
    plan = planned_here(*options, *short)
    total = plan["exchanges"]["total"]
    single = sum(one["bytes"] for name, one in plan["exchanges"].items() if name.endswith(" f32"))
    rows.append((
      mesh, f"{total['count']:,.0f}", _mb(total["bytes"]), _mb(single), _mb(total["overlapped_bytes"]),
      f"{total['seconds'] * 1e3:.2f}", f"{total['hidden_seconds'] * 1e3:.2f}", _gib(plan["memory"]["total"]),
    ))  # fmt: skip
  report.write(
    "plan_node",
    f"The same by mesh, for {_FEW_LAYERS} layers of each stack",
    rows,
    columns=("mesh", "number", "MB", "MB in float32", *sums[2:], "GiB per GPU"),
    notes=[
      _NODE,
      "On `data 8` parameters are sharded too, and gathered for each layer; `replicas` holds all of them on each GPU.",
    ],
  )


def _mb(size: float) -> str:
  return f"{size / 1e6:,.1f}"


def _gib(size: float) -> str:
  return f"{size / 2**30:.1f}"


def _ms(seconds: float) -> str:
  return f"{seconds * 1e3:.1f}"


def _libtpu() -> str:
  return f"libtpu {importlib.metadata.version('libtpu')}."


_TABLES = {
  "meshes": meshes, "lengths": lengths, "captions_per_image": captions_per_image, "decode": decode, "gpus": gpus,
  "node": node,
}  # fmt: skip


if __name__ == "__main__":
  main()
