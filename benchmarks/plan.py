"""The paper's models planned for 64 TPU v4 chips, and BB for H100: what `xmcap plan` says of each. No TPU is needed.

usage: python benchmarks/plan.py [--tables captions_per_image parts remat ablations decode node]
  [--policies dots full no] [--keep=FOLDER]     (default: all; each takes minutes; plans in FOLDER are not made again)
`node` needs the extra cuda.
"""

import argparse
import collections
import functools
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import report

_TOPOLOGY = "--topology=v4-128"
_RUN = "--gin_file=runs/train_coco35l.gin"
_ESTIMATE = (
  "Batch 2,048. Times are estimates for the compiled program (see docs/pods.md). Nothing was run on a TPU."
)
_POLICIES = ("dots", "full", "no")  # of `remat`
_arguments = argparse.Namespace()
_NODE = (
  "Per GPU, with 2,048 captions in all, K = 1, targets of 32 tokens. Compiled on a host without a GPU: nothing was run "
  "on one. Overlapped: with kernels between start and end. Times are at the peak of the links and of the GPU "
  "(docs/pods.md)."
)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--tables", nargs="+", choices=_TABLES, default=list(_TABLES))
  parser.add_argument("--policies", nargs="+", choices=_POLICIES, default=list(_POLICIES))
  parser.add_argument("--keep", default="")
  parser.parse_args(namespace=_arguments)
  for name in _arguments.tables:
    _TABLES[name]()


def planned(model: str, *options: str) -> Any:
  """What `xmcap plan --json` writes."""
  command = [sys.executable, "-c", "from xmcap.cli import console; console()", "plan"]
  command += [f"--gin_file=models/{model}.gin", _RUN, *options]

  def plan() -> Any:
    with tempfile.TemporaryDirectory() as folder:
      out = pathlib.Path(folder, "plan.json")
      subprocess.run([*command, f"--json={out}"], check=True, stdout=subprocess.DEVNULL)
      return json.loads(out.read_text(encoding="utf-8"))

  return kept("_".join((model, *options)).replace("/", "_"), plan)


def kept(name: str, plan: Callable[[], Any]) -> Any:
  """A plan, made once for all calls with the same `--keep`."""
  file = pathlib.Path(_arguments.keep, f"{name}.json")
  if not _arguments.keep:
    return plan()
  if not file.exists():
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(plan()), encoding="utf-8")
  return json.loads(file.read_text(encoding="utf-8"))


def captions_per_image() -> None:
  """K = 1 and K = 8 of BB on the mesh of the model file."""
  rows, rates = [], []
  for options in ((), ("--gin.CAPTIONS_PER_IMAGE=8", "--gin.ViTConfig.remat=no")):
    plan = planned(
      "bb", _TOPOLOGY, "--gin.TARGET_LENGTH=32", "--gin.CaptionStream.target_lengths=()", *options
    )
    rates.append(plan["estimate"]["captions_per_second"])
    sent = sum(exchange["bytes"] for exchange in plan["exchanges"].values())
    rows.append((
      "bb", "8" if options else "1", _gib(plan["memory"]["total"]), f"{sent / 1e9:.2f}",
      f"{plan['estimated_cycles'] / 1e6:.1f}", _ms(plan["estimate"]["step_seconds"]),
      _ms(plan["estimate"]["exposed_seconds"]), f"{rates[-1]:,.0f}", f"{rates[-1] / rates[0]:.2f}",
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


def parts() -> None:
  """The step of BB by parts."""
  plan = kept("parts", _parts)
  total = sum(plan["cycles"].values())
  rows = [
    (name, f"{cycles / 1e6:.2f}", f"{cycles / total:.1%}")
    for name, cycles in sorted(plan["cycles"].items(), key=lambda part: -part[1])
  ]
  report.write(
    "plan_parts",
    "BB's training step on 64 v4 chips, by parts",
    [*rows, ("all", f"{total / 1e6:.2f}", "100.0%")],
    columns=("forward and backward", "million cycles", "share"),
    notes=[
      f"{_ESTIMATE} K = 1, targets of 32 tokens. A fusion counts as the operation that XLA names it by, the kernel of "
      "attention with the larger of its bundles and its bytes."
    ],
  )


def _parts() -> Any:
  """`cycles` by part of a step, forward and backward together."""
  from xmcap.planning import topologies

  topologies.prepare_host()  # before jax is imported
  from gpu.parts import part

  from xmcap.planning import hlo, run, step

  slice_ = _configured("bb", "CaptionStream.target_lengths=()")
  _, lowered = step.lower(run.of_gin(slice_), slice_.devices())
  cycles: collections.Counter[str] = collections.Counter()
  for operation, count in hlo.Module(lowered.compile().as_text(), slice_.cores).cycles_by_operation().items():
    cycles[part(operation).removeprefix("forward ").removeprefix("backward ")] += count
  return {"cycles": cycles}


def remat() -> None:
  """Bg and Lg with each policy of the ViT, with layers scanned; of one that does not fit, the memory alone."""
  rows = []
  for policy, model in itertools.product(_arguments.policies, ("bg", "lg")):
    plan = kept(f"remat_{model}_{policy}", functools.partial(_scanned, model, policy))
    memory, said = plan["memory"], plan.get("estimate")
    of = f"{_gib(memory['total'])} of {memory['allowed'] / 2**30:.2f}"
    rows.append((model, policy, of, *(("does not fit", *[""] * 4) if said is None else (
      f"{plan['estimated_cycles'] / 1e6:.1f}", _ms(said["step_seconds"]), _ms(said["exposed_seconds"]),
      f"{said['captions_per_second']:,.0f}", said["bound"],
    ))))  # fmt: skip
  report.write(
    "plan_remat",
    "Rematerialisation of Bg and Lg on 64 v4 chips",
    rows,
    columns=(
      "", "ViTConfig.remat", "GiB", "million cycles", "ms", "ms, communication exposed", "captions per second",
      "bottleneck",
    ),
    notes=[f"{_ESTIMATE} K = 1, targets of 32 tokens, scanned layers. The T5 recomputes nothing."],
  )  # fmt: skip


def _scanned(model: str, policy: str) -> dict[str, Any]:
  """The plan with a policy. `xmcap plan` would answer one that does not fit by compiling others."""
  from xmcap.planning import topologies

  topologies.prepare_host()  # before jax is imported
  from xmcap.planning import run, step

  slice_ = _configured(model)
  try:
    return step.plan_step(run.of_gin(slice_, scan=True, image_remat=policy), slice_)
  except step.DoesNotFit as error:
    return {"memory": {"total": error.needed, "allowed": error.allowed}}


def _configured(model: str, *bindings: str) -> Any:
  """Binds the model's run in gin; returns the slice to plan for."""
  import gin

  from xmcap import configuration
  from xmcap.planning import topologies

  gin.clear_config()
  configuration.parse([f"models/{model}.gin", "runs/train_coco35l.gin"], ["TARGET_LENGTH=32", *bindings])
  return topologies.parse("v4-128")


def ablations() -> None:
  """The loss of BB with the product of the logits, and attention of its ViT: compiled alone, in both their forms."""
  rows = []
  for setting, measure, values in (
    ("CaptionObjective.one_pass", _loss, (False, True)),
    ("ViTConfig.attention", _attention, ("plain", "pallas")),
  ):
    for value in values:
      plan = kept(f"{setting}_{value}", functools.partial(measure, value))
      rows.append((
        f"{setting} = {value}", f"{plan['cycles'] / 1e6:.2f}", f"{plan['accessed'] / 1e9:.2f}",
        f"{plan['working'] / 1e9:.2f}",
      ))  # fmt: skip
  report.write(
    "plan_ablations",
    "Parts of BB on 64 v4 chips, by their form",
    rows,
    columns=("per chip", "million cycles", "GB accessed", "GB working"),
    notes=[
      "Loss: 2,048 targets of 32 tokens, from the input of the logits to its gradient and that of their kernel."
      " Attention: one layer for 2,048 pictures, with its projections and all gradients. Nothing was run on a TPU."
    ],
  )


def _loss(one_pass: bool) -> dict[str, float]:
  """Of the loss by itself, of a chip: `cycles`, and bytes `accessed` and `working`."""
  from xmcap.planning import topologies

  topologies.prepare_host()  # before jax is imported
  import jax
  from jax.sharding import NamedSharding, PartitionSpec

  from xmcap.models import layers
  from xmcap.planning import run
  from xmcap.training import sharding

  slice_ = _configured("bb", "CaptionStream.target_lengths=()", f"CaptionObjective.one_pass={one_pass}")
  planned = run.of_gin(slice_)
  t5, partitioning = planned.objective.module.t5, planned.partitioning
  mesh, rules = partitioning.mesh(slice_.devices()), partitioning.logical_rules()
  shape = (t5.emb_dim, t5.vocab_size)
  axes = layers.mesh_axes(shape, ("head_embed", "head_vocab"), rules, mesh.shape)
  of_kernel, of_batch = NamedSharding(mesh, PartitionSpec(*axes)), sharding.batch_sharding(mesh)
  tokens = [planned.shapes[name] for name in ("target_tokens", "target_weights")]
  arrays = [(shape, "float32"), ((*tokens[0][0], t5.emb_dim), "bfloat16"), *tokens]

  def loss(kernel: jax.Array, *tokens: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    return planned.objective.sums({"decoder": {"logits_dense": {"kernel": kernel}}}, *tokens)

  with sharding.use(mesh, rules):
    step = jax.jit(
      jax.value_and_grad(loss, (0, 1), has_aux=True), out_shardings=(None, (of_kernel, of_batch))
    )
    compiled = step.lower(*(
      jax.ShapeDtypeStruct(*array, sharding=place)
      for array, place in zip(arrays, (of_kernel, *[of_batch] * 3), strict=True)
    )).compile()  # fmt: skip
  return _costs(compiled, slice_.cores)


def _attention(implementation: str) -> dict[str, float]:
  """Of the attention of a layer by itself, of a chip: as `_loss`."""
  from xmcap.planning import topologies

  topologies.prepare_host()  # before jax is imported
  import jax
  from jax.sharding import NamedSharding, PartitionSpec

  from xmcap.models import blocks, layers
  from xmcap.planning import run
  from xmcap.training import sharding

  slice_ = _configured("bb")
  planned = run.of_gin(slice_)
  vit, partitioning = planned.objective.module.vit, planned.partitioning
  mesh, rules = partitioning.mesh(slice_.devices()), partitioning.logical_rules()
  attention, of_batch = blocks.attention(vit, implementation), sharding.batch_sharding(mesh)
  inputs = jax.ShapeDtypeStruct((planned.pictures, vit.num_patches, vit.width), "bfloat16", sharding=of_batch)

  def placed(shape, axes):
    places = layers.mesh_axes(shape.shape, axes.names, rules, mesh.shape)
    return jax.ShapeDtypeStruct(
      shape.shape, shape.dtype, sharding=NamedSharding(mesh, PartitionSpec(*places))
    )

  def with_gradients(params, inputs, gradient):
    output, backward = jax.vjp(lambda params, x: attention.apply({"params": params}, x, x), params, inputs)
    return output, backward(gradient)

  with sharding.use(mesh, rules):
    variables = jax.eval_shape(lambda x: attention.init(jax.random.key(0), x, x), inputs)
    axes = {
      name: {leaf.removesuffix("_axes"): names for leaf, names in leaves.items()}
      for name, leaves in variables["params_axes"].items()
    }
    params = jax.tree.map(placed, variables["params"], axes)
    places = of_batch, (jax.tree.map(lambda leaf: leaf.sharding, params), of_batch)
    compiled = jax.jit(with_gradients, out_shardings=places).lower(params, inputs, inputs).compile()
  return _costs(compiled, slice_.cores)


def _costs(compiled: Any, cores: int) -> dict[str, float]:
  from xmcap.planning import hlo

  return {
    "cycles": hlo.Module(compiled.as_text(), cores).cycles(),
    "accessed": compiled.cost_analysis()["bytes accessed"],
    "working": compiled.memory_analysis().temp_size_in_bytes,
  }


def decode() -> None:
  """An evaluation of BB and Lg on XM3600."""
  rows = []
  for model in ("bb", "lg"):
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


def node() -> None:
  """What eight H100 exchange in a step of BB, by kind."""
  plan = planned("bb", "--topology=h100-8", "--gin.TARGET_LENGTH=32")
  report.write(
    "plan_node_exchanges",
    "What eight H100 exchange in a training step of BB",
    [
      (
        name, f"{exchange['count']:,.0f}", _mb(exchange["bytes"]), _mb(exchange["overlapped_bytes"]),
        f"{exchange['seconds'] * 1e3:.2f}", f"{exchange['hidden_seconds'] * 1e3:.2f}",
      )
      for name, exchange in plan["exchanges"].items()
    ],
    columns=("", "number", "MB", "MB overlapped", "ms of the links", "ms hidden at least"),
    notes=[
      f"{_NODE} The mesh of models/bb.gin, fsdp 8. The model's matrix products take each GPU at least "
      f"{_ms(plan['arithmetic_seconds'])} ms. An exchange of several element types counts once in the total."
    ],
  )  # fmt: skip


def _mb(size: float) -> str:
  return f"{size / 1e6:,.1f}"


def _gib(size: float) -> str:
  return f"{size / 2**30:.1f}"


def _ms(seconds: float) -> str:
  return f"{seconds * 1e3:.1f}"


_TABLES = {
  "captions_per_image": captions_per_image,
  "parts": parts,
  "remat": remat,
  "ablations": ablations,
  "decode": decode,
  "node": node,
}


if __name__ == "__main__":
  main()
