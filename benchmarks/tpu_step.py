"""mT5-base's training step compiled for v4:4x4x4, beside t5x's compiled the same way; no TPU is needed.

usage: python benchmarks/tpu_step.py [--mesh=data,fsdp,model ...] [--layers=12]
The model without its picture: batch 2,048, inputs 8, targets 32, 250,112 rows, no dropout, no microbatches, no remat,
bfloat16 activations, float32 parameters, rbg keys, z-loss 1e-4, Adafactor. t5x's figures are of cc342d4 with the same
settings and libtpu 0.0.42; what it does with data 64 where its embedding gathers is the fair column, as by default it
looks tokens up by a product. All are of one chip, and the compiler's.
"""

import argparse
import time

from xmcap.planning import topologies

topologies.prepare_host()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import report  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from xmcap_train_step import Text  # noqa: E402

from xmcap.models.t5 import T5Config  # noqa: E402
from xmcap.models.vit import ViTConfig  # noqa: E402
from xmcap.planning import hlo  # noqa: E402
from xmcap.training import sharding  # noqa: E402
from xmcap.training.objectives import CaptionObjective  # noqa: E402
from xmcap.training.optimizer import Optimizer  # noqa: E402
from xmcap.training.state import plan_state  # noqa: E402
from xmcap.training.step import make_train_step  # noqa: E402

# flops, bytes accessed, peak memory in bytes, sum of estimated cycles (None: not known)
_T5X = {
  "t5x, data 64": (2.956e12, 53.6e9, 4.48e9, 57.3e6),
  "t5x, data 64, embedding gathers": (1.972e12, 52.6e9, 4.65e9, None),
  "t5x, data 16 x model 4": (2.955e12, 31.1e9, 2.60e9, 42.0e6),
}
_BATCH, _INPUTS, _TARGETS = 2_048, 8, 32


def main() -> None:
  """Prints a line for each."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--mesh", nargs="+", default=["4,16,1"], help="data,fsdp,model of each")
  parser.add_argument("--layers", type=int, default=12, help="of each stack")
  parser.add_argument("--vocabulary", type=int, default=250_112)
  arguments = parser.parse_args()
  devices = topologies.parse("v4:4x4x4").devices()
  print(f"{'a chip':34} {'Tflop':>7} {'GB':>7} {'GB at most':>11} {'M cycles':>9}")
  rows = []
  for name, (flops, traffic, peak, cycles) in _T5X.items():
    said = "-" if cycles is None else f"{cycles / 1e6:.1f}"
    print(f"{name:34} {flops / 1e12:7.3f} {traffic / 1e9:7.1f} {peak / 1e9:11.2f} {said:>9}")
    rows.append(_row(name, flops, traffic, peak, said))
  for mesh in arguments.mesh:
    rows.append(line(mesh, devices, arguments))
  report.write(
    "tpu_step",
    "mT5-base's training step on 64 v4 chips, compared with t5x",
    rows,
    columns=("per chip", "Tflop", "GB accessed", "GB at most", "million cycles"),
    notes=["Reported by XLA and libtpu for the compiled program. Nothing was run on a TPU. `-`: unknown."],
  )


def _row(name: str, flops: float, traffic: float, peak: float, cycles: str) -> tuple[str, ...]:
  return name, f"{flops / 1e12:.2f}", f"{traffic / 1e9:.1f}", f"{peak / 1e9:.2f}", cycles


def line(mesh: str, devices, arguments) -> tuple[str, ...]:
  """Compiles for one mesh, prints what it comes to, and returns it as a row of the report."""
  data, fsdp, model = (int(size) for size in mesh.split(","))
  t5 = T5Config(arguments.vocabulary, 768, 12, 64, arguments.layers, arguments.layers, 2048, dtype="bfloat16")
  vit = ViTConfig(768, 1, 3072, 12, 16, 224, dtype="bfloat16")
  objective = CaptionObjective(vit, t5)
  objective.module = Text(vit, t5)
  partitioning = sharding.Partitioning(data=data, fsdp=fsdp, model=model)
  placed, rules = partitioning.mesh(devices), partitioning.logical_rules()
  lies = NamedSharding(placed, PartitionSpec(sharding.BATCH_AXES))

  def shape(dtype, *sizes):
    return jax.ShapeDtypeStruct((_BATCH, *sizes), dtype, sharding=lies)

  batch = {
    "image": shape(jnp.uint8, 1, 1, 3),
    "prompt_tokens": shape(jnp.int32, 1, _INPUTS),
    "target_tokens": shape(jnp.int32, 1, _TARGETS),
    "target_weights": shape(jnp.float32, 1, _TARGETS),
  }
  # t5x does not clip.
  optimizer = Optimizer(clip_norm=None)
  plan = plan_state(objective, optimizer, batch, placed, rules, 0, "rbg")
  step = make_train_step(
    objective, optimizer, total_steps=1_000, rng_impl="rbg", param_shardings=plan.shardings.params
  )
  began = time.monotonic()
  with sharding.use(placed, rules):
    compiled = plan.jit(step).lower(plan.target, batch).compile()
  seconds = time.monotonic() - began
  module, counted = hlo.Module(compiled.as_text()), compiled.cost_analysis()
  memory = compiled.memory_analysis()
  peak = memory.argument_size_in_bytes + memory.temp_size_in_bytes
  exchanges = ", ".join(
    f"{one['count']} {kind} of {one['bytes'] / 1e9:.2f} GB" for kind, one in module.exchanges().items()
  )
  name = f"xmcap, data {data} x fsdp {fsdp} x model {model}"
  flops, accessed, cycles = counted["flops"], counted["bytes accessed"], module.cycles()
  print(
    f"{name:34} {flops / 1e12:7.3f} {accessed / 1e9:7.1f} {peak / 1e9:11.2f} "
    f"{cycles / 1e6:9.1f}   {exchanges}; compiled in {seconds:.0f} s",
    flush=True,
  )
  return _row(name, flops, accessed, peak, f"{cycles / 1e6:.1f}")


if __name__ == "__main__":
  main()
