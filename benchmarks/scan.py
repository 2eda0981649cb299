"""Scan and rematerialisation against layers one by one: compile time, memory, and the loss of five steps.

usage: python benchmarks/scan.py [--model=bb] [--batch=8] [--length=24]
Each variant of the whole training step (Adafactor) is compiled at the model's full size, which takes no memory for
its parameters; memory is what the compiled step holds beside its state, as XLA plans it. Five steps are then trained
at an eighth of the width, with the same fresh parameters.
"""

import argparse
import dataclasses
import time
from typing import Any

import jax
import numpy as np
import report

from xmcap import configuration
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer
from xmcap.training.step import create_state, make_train_step

_VARIANTS = {
  "without scan": {},
  "remat": {"remat": "full"},
  "scan": {"scan": True},
  "scan + remat": {"scan": True, "remat": "full"},
}
_STEPS = 5


def main() -> None:
  """Prints what the docstring says."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--model", default="bb", help="of gin/models")
  parser.add_argument("--batch", type=int, default=8, help="captions per step")
  parser.add_argument("--length", type=int, default=24, help="tokens of a caption")
  arguments = parser.parse_args()
  configuration.parse([f"models/{arguments.model}.gin"])
  vit = dataclasses.replace(ViTConfig(), dropout_rate=0.0)
  t5 = dataclasses.replace(T5Config(), dropout_rate=0.0)
  batch = _batch(arguments.batch, arguments.length, vit.image_size, t5.vocab_size)

  print(
    f"{arguments.model}, {arguments.batch} captions of {arguments.length} tokens, {jax.default_backend()}"
  )
  print(f"{'':20} {'compile s':>10} {'GB beside state':>16} {'loss of five steps, an eighth of the width'}")
  base, rows = None, []
  for name, changes in _VARIANTS.items():
    seconds, temporary = _compile(_objective(vit, t5, changes), batch)
    losses = _losses(_objective(_narrow(vit), _narrow(t5), changes), batch)
    base = base or (seconds, temporary, losses)
    difference = max(abs(a - b) for a, b in zip(losses, base[2], strict=True))
    shown = " ".join(f"{loss:.6f}" for loss in losses)
    print(f"{name:20} {seconds:10.1f} {temporary / 2**30:16.2f} {shown}  largest difference {difference:.1e}")
    print(f"{'':20} {base[0] / seconds:9.1f}x {base[1] / temporary:15.1f}x of layers one by one", flush=True)
    rows.append((name, f"{seconds:.1f}", f"{temporary / 2**30:.2f}", f"{difference:.1e}"))
  report.write(
    "scan",
    f"Scan and rematerialisation, {arguments.model}",
    rows,
    columns=("layers", "seconds to compile", "GiB beside the state", "largest difference in five losses"),
    notes=[f"A training step of {arguments.batch} captions of {arguments.length} tokens, compiled on a CPU."],
  )


def _objective(vit: ViTConfig, t5: T5Config, changes: dict[str, Any]) -> CaptionObjective:
  return CaptionObjective(dataclasses.replace(vit, **changes), dataclasses.replace(t5, **changes))


def _narrow(config):
  if isinstance(config, ViTConfig):
    return dataclasses.replace(config, width=config.width // 8, mlp_dim=config.mlp_dim // 8, num_heads=2)
  return dataclasses.replace(config, emb_dim=config.emb_dim // 8, mlp_dim=config.mlp_dim // 8, num_heads=2)


def _batch(captions: int, length: int, size: int, vocabulary: int) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(0)
  return {
    "image": rng.integers(0, 256, (captions, size, size, 3), np.uint8),
    "prompt_tokens": rng.integers(3, vocabulary, (captions, 1, 1), np.int32),
    "target_tokens": rng.integers(3, vocabulary, (captions, 1, length), np.int32),
    "target_weights": np.ones((captions, 1, length), np.float32),
  }


def _compile(objective: CaptionObjective, batch: dict[str, np.ndarray]) -> tuple[float, int]:
  """Returns seconds to trace and compile the step, and the bytes that it holds beside state and batch."""
  optimizer = Optimizer()
  state = jax.eval_shape(
    lambda rng: create_state(objective.init(rng, batch)["params"], optimizer), jax.random.key(0)
  )
  began = time.perf_counter()
  step = (
    jax.jit(make_train_step(objective, optimizer, _STEPS), donate_argnums=0).lower(state, batch).compile()
  )
  return time.perf_counter() - began, step.memory_analysis().temp_size_in_bytes


def _losses(objective: CaptionObjective, batch: dict[str, np.ndarray]) -> list[float]:
  optimizer = Optimizer()
  params = jax.jit(lambda rng: objective.init(rng, batch)["params"])(jax.random.key(0))
  state, losses = create_state(params, optimizer), []
  step = jax.jit(make_train_step(objective, optimizer, _STEPS), donate_argnums=0)
  for _ in range(_STEPS):
    state, metrics = step(state, batch)
    losses.append(float(metrics["loss"]))
  return losses


if __name__ == "__main__":
  main()
