"""Captions a second in a training step: K = 4 captions that share a picture's encoding against K = 1.

usage: python benchmarks/captions_per_image.py
Both train the tiny model of quickstart.sh on 128 captions a step, in one process, medians of 7 x 5 steps.
"""

import common
import jax
import report

from xmcap.data.stream import CaptionStream
from xmcap.training import step as step_lib
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer

_STEPS = 5


def captions_per_second(captions_per_image: int) -> float:
  """Captions a second of the compiled step, the batch being there already."""
  common.configure(
    f"CaptionStream.captions_per_image={captions_per_image}",
    "CaptionStream.bucket_window=1",
    "CaptionStream.target_lengths=(24,)",
  )
  from xmcap.models.t5 import T5Config
  from xmcap.models.vit import ViTConfig

  objective = CaptionObjective(ViTConfig(), T5Config())
  optimizer = Optimizer()
  batch = {name: array for name, array in CaptionStream().batch(0).items() if name != "key"}
  params = objective.init(jax.random.key(0), batch)["params"]
  train_step = jax.jit(step_lib.make_train_step(objective, optimizer, total_steps=1_000))
  state = step_lib.create_state(params, optimizer)

  def steps():
    now = state
    for _ in range(_STEPS):
      now, metrics = train_step(now, batch)
    return metrics

  captions = batch["target_tokens"].shape[0] * batch["target_tokens"].shape[1]
  return _STEPS * captions / common.seconds(steps)


def main():
  shared, single = captions_per_second(4), captions_per_second(1)
  print(
    f"training step, tiny model, 128 captions: K=4 {shared:,.0f} captions/s, K=1 {single:,.0f} captions/s"
  )
  print(f"ratio K=4 / K=1: {shared / single:.2f}")
  report.write(
    "captions_per_image",
    "Captions per picture in a training step (tiny model)",
    [
      ("captions per second, K = 4", f"{shared:,.0f}"),
      ("captions per second, K = 1", f"{single:,.0f}"),
      ("K = 4 / K = 1", f"{shared / single:.2f}"),
    ],
    notes=["Training steps of 128 captions with 24 target tokens."],
  )


if __name__ == "__main__":
  main()
