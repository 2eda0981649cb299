"""The checks of a dry run that compute: one training step, and the evaluators on a few images."""

import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xmcap.errors import XmcapError
from xmcap.models.parts import input_shape
from xmcap.training import sharding
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.deferred import at_once
from xmcap.training.metrics import summarise
from xmcap.training.optimizer import Optimizer
from xmcap.training.state import StatePlan
from xmcap.training.step import make_train_step

Batch = Mapping[str, np.ndarray]

_GRADIENT = "grad_norm/"


def shapes(objective: Any, stream: Any) -> Batch:
  """A batch with the right shapes to initialize parameters; the stream is read only if no batch can be made up."""
  return batch(objective, None if _has_pictures(objective) else stream, 1)


def batch(objective: Any, stream: Any, images: int) -> Batch:
  """The numeric arrays of a small batch of the stream, or of a made-up batch if it is None.

  Raises:
    XmcapError: none of the first images has a caption, or no batch can be made up for this objective.
  """
  if stream is None:
    if not _has_pictures(objective):
      raise XmcapError(f"{type(objective).__name__} needs a batch from its stream, which cannot be read")
    return _made_up(objective.module, images)
  small = stream.resized(images) if hasattr(stream, "resized") else stream
  for step in range(16):
    arrays = {name: array[:images] for name, array in sharding.numeric(small.batch(step)).items()}
    if np.any(arrays.get("target_weights", 1)):
      return arrays
  raise XmcapError("none of the first pictures has a caption in the languages of the mixture")


def take_step(
  objective: Any,
  optimizer: Optimizer,
  plan: StatePlan,
  state: TrainState | None,
  arrays: Batch,
  total_steps: int,
  seed: int,
  rng_impl: str | None,
) -> tuple[str, TrainState]:
  """Compiles the run's step for a small batch and runs it once, from `state` (donated) or a fresh state.

  Returns a text, with the time that compiling took, and the updated state.

  Raises:
    XmcapError: the loss or gradient is not finite, or a trained part gets no gradient.
  """
  origin = " (with random parameters)" if state is None else ""
  state = plan.create() if state is None else state
  step = make_train_step(
    objective, optimizer, total_steps, seed, rng_impl=rng_impl, param_shardings=plan.shardings.params
  )
  with sharding.use(plan.mesh, plan.rules):
    placed = sharding.put_batch(arrays, plan.mesh)
    began = time.monotonic()
    compiled = plan.jit(step).lower(state, placed).compile()
    seconds = time.monotonic() - began
    updated, metrics = compiled(state, placed)
  metrics = jax.device_get(metrics)
  loss = float(metrics["loss"])
  norms = {name.removeprefix(_GRADIENT): norm for name, norm in metrics.items() if name.startswith(_GRADIENT)}
  for name, value in {"loss": loss, **{f"gradient of {part}": norm for part, norm in norms.items()}}.items():
    if not np.isfinite(value):
      raise XmcapError(f"the {name} of the first step is {value}: check the weights, and train in float32")
  for part, norm in norms.items():
    if norm == 0:
      raise XmcapError(f"the gradient of {part} is {norm} in the first step, so {part} would not learn")
  images = len(next(iter(arrays.values())))
  plural = "" if images == 1 else "s"
  text = f"loss {loss:.4f} on {images} picture{plural}; gradients in {', '.join(norms)}{origin}"
  return f"{text}; compiled in {seconds:.1f} s for {_length(arrays)}", updated


def _length(arrays: Batch) -> str:
  return f"targets of {arrays['target_tokens'].shape[-1]}" if "target_tokens" in arrays else "this batch"


def evaluate(evaluator: Any, params: Any, plan: StatePlan, images: int) -> tuple[str, dict[str, float]]:
  """Runs an evaluator on a few images; returns a line of text, and metric -> value.

  Raises:
    XmcapError: it measured nothing, or a value is not finite.
  """
  if not hasattr(evaluator, "small"):
    return "not run: it has no method small(pictures)", {}
  groups = sharding.axis_size(plan.mesh, sharding.BATCH_AXES)
  small = evaluator.small(-(-images // groups) * groups)
  with sharding.use(plan.mesh, plan.rules):
    rows = list(at_once(small.run(params, 0)))
  if not rows:
    raise XmcapError("it measured nothing: check its split")
  for language, name, value in rows:
    if not np.isfinite(value):
      raise XmcapError(f"{name}{f' of {language}' if language else ''} is {value}")
  summary = summarise(rows)
  return "  ".join(f"{name} {value:.4f}" for name, value in summary.items()), summary


def _has_pictures(objective: Any) -> bool:
  module = getattr(objective, "module", None)
  return hasattr(module, "t5") or hasattr(module, "num_slots")


def _made_up(module: Any, images: int) -> Batch:
  random = np.random.default_rng(0)
  image = random.integers(0, 256, (images, *input_shape(module.vit)), np.uint8)
  if not hasattr(module, "t5"):
    return {"image": image, "tags": np.ones((images, module.num_slots), np.int32)}
  tokens = random.integers(1, module.t5.vocab_size, (images, 1, 12), np.int32)
  targets = tokens[..., 2:]
  return {
    "image": image,
    "prompt_tokens": tokens[..., :2],
    "target_tokens": targets,
    "target_weights": np.ones(targets.shape, np.float32),
  }
