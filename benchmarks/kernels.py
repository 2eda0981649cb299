"""What each tuned form of models/kernels.py buys: a step with it, and with `Kernels.plain = True`.

usage: python benchmarks/kernels.py [--models bb lg] [--captions_per_image 1 8] [--unrolled] [--steps 60]
BB and Lg are compiled for 64 v4 chips (minutes each; no TPU is needed). Their gin files leave the one kernel off; here
it may make logits for 60% of the positions. The quickstart's captioner, whose gin file asks for it, takes real steps.
"""

import argparse
import statistics
import time

import common
import gin
import jax
import report
from plan import planned

from xmcap.data.stream import CaptionStream
from xmcap.training import sharding
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer
from xmcap.training.state import plan_state
from xmcap.training.step import make_train_step

_SCANNED = "--gin.ViTConfig.scan=True", "--gin.T5Config.scan=True"
_CAPACITY = "--gin.CaptionObjective.logits_capacity=0.6"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--models", nargs="*", default=["bb", "lg"], help="of gin/models")
  parser.add_argument("--captions_per_image", nargs="+", type=int, default=[1, 8])
  parser.add_argument(
    "--unrolled", action="store_true", help="layers one by one, as the model files have them"
  )
  parser.add_argument("--steps", type=int, default=60, help="of the quickstart's captioner, each way")
  arguments = parser.parse_args()
  rows = [_quickstart(arguments.steps)]
  for model in arguments.models:
    for captions in arguments.captions_per_image:
      rows.append(_pod(model, captions, () if arguments.unrolled else _SCANNED))
  report.write(
    "kernels",
    "Tuned forms beside the plain ones",
    rows,
    columns=("step", "kernel", "tuned", "plain", "plain / tuned"),
    notes=[
      "v4-128: estimates of the compiled program, batch 2,048, targets of 32 tokens; bb.gin and lg.gin leave it off."
    ],
  )


def _pod(model: str, captions: int, options: tuple[str, ...]) -> tuple[str, ...]:
  """A row for a model on 64 v4 chips."""
  options = (
    *options,
    "--topology=v4-128",
    "--gin.TARGET_LENGTH=32",
    f"--gin.CAPTIONS_PER_IMAGE={captions}",
    _CAPACITY,
  )
  if captions > 1:
    options += ("--gin.ViTConfig.remat=False",)
  tuned, plain = (planned(model, *options, f"--gin.Kernels.plain={plain}") for plain in (False, True))

  def said(plan) -> str:
    return f"{plan['cycles'] / 1e6:.1f} M cycles, {plan['memory']['total'] / 2**30:.1f} GiB"

  ratio = plain["cycles"] / tuned["cycles"]
  return f"{model}, K = {captions}, v4-128", "summed_over_tokens", said(tuned), said(plain), f"{ratio:.2f}"


def _quickstart(steps: int) -> tuple[str, ...]:
  """A row for the quickstart's captioner: medians of steps that take turns."""
  common.configure()
  stream, objective, optimizer = CaptionStream(), CaptionObjective(), Optimizer()
  partitioning = sharding.Partitioning()
  mesh, rules = partitioning.mesh(), partitioning.logical_rules()
  batch = {name: array for name, array in stream.batch(0).items() if array.dtype.kind in "biuf"}
  plan = plan_state(objective, optimizer, batch, mesh, rules)
  placed, ways = sharding.put_batch(batch, mesh), {}
  with sharding.use(mesh, rules):
    for plain in (False, True):
      with gin.unlock_config():
        gin.bind_parameter("Kernels.plain", plain)
      step = plan.jit(make_train_step(objective, optimizer, steps))
      ways[plain] = [step, step(plan.create(), placed)[0], []]
    for _ in range(steps):
      for way in ways.values():
        began = time.perf_counter()
        way[1], metrics = way[0](way[1], placed)
        jax.block_until_ready(metrics)
        way[2].append(time.perf_counter() - began)
  tuned, plain = (statistics.median(ways[plain][2]) for plain in (False, True))
  said = f"{tuned * 1e3:.0f} ms", f"{plain * 1e3:.0f} ms", f"{plain / tuned:.2f}"
  return "quickstart, this machine", "summed_over_tokens", *said


if __name__ == "__main__":
  main()
