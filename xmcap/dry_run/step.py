"""The checks of a dry run that compute: one step, and the evaluators on a few pictures.

Each returns what to say about it and a value for those that come after; what is wrong is raised.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xmcap.errors import XmcapError
from xmcap.training import optimizer as optimizer_lib
from xmcap.training import sharding
from xmcap.training import step as step_lib
from xmcap.training.metrics import summarise
from xmcap.training.state import StatePlan

Batch = Mapping[str, np.ndarray]


def shapes(objective: Any, stream: Any) -> Batch:
  """A batch whose shapes are good enough to make parameters for: made up, or the stream's where that cannot be."""
  known = hasattr(getattr(objective, "module", None), "vit")
  return batch(objective, None if known else stream, 1)


def batch(objective: Any, stream: Any, pictures: int) -> Batch:
  """A batch of so many pictures of the stream, or made up where there is no stream: numeric arrays.

  Raises:
    XmcapError: no picture among the first has a caption, or none can be made up for this objective.
  """
  if stream is None:
    if not hasattr(getattr(objective, "module", None), "vit"):
      raise XmcapError(f"{type(objective).__name__} needs a batch of its stream, which cannot be read")
    return _made_up(objective.module, pictures)
  small = stream.resized(pictures) if hasattr(stream, "resized") else stream
  for step in range(16):
    arrays = {name: np.asarray(array)[:pictures] for name, array in small.batch(step).items()}
    arrays = {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}
    if np.any(arrays.get("target_weights", 1)):
      return arrays
  raise XmcapError("none of the first pictures has a caption in the languages of the mixture")


def _made_up(module: Any, pictures: int) -> Batch:
  random = np.random.default_rng(0)
  side = module.vit.image_size
  arrays = {"image": random.integers(0, 256, (pictures, side, side, 3), np.uint8)}
  if hasattr(module, "t5"):
    tokens = random.integers(1, module.t5.vocab_size, (pictures, 1, 12), np.int32)
    weights = np.ones(tokens[..., 2:].shape, np.float32)
    return {
      **arrays,
      "prompt_tokens": tokens[..., :2],
      "target_tokens": tokens[..., 2:],
      "target_weights": weights,
    }
  return {**arrays, "tags": np.ones((pictures, module.num_slots), np.int32)}


def step(
  objective: Any,
  optimizer: optimizer_lib.Optimizer,
  plan: StatePlan,
  state: step_lib.TrainState | None,
  arrays: Batch,
  total_steps: int,
  seed: int,
  rng_impl: str | None,
) -> tuple[str, step_lib.TrainState]:
  """Compiles the run's step for a small batch and takes it.

  Args:
    objective, optimizer, total_steps, seed, rng_impl: of the run.
    plan: of its state.
    state: to begin with, and given away; None: a fresh one.
    arrays: of `batch`.

  Raises:
    XmcapError: loss or gradient is not finite, or a part that is trained gets no gradient.
  """
  fresh = state is None
  if fresh:
    state = plan.create()
  train_step = step_lib.make_train_step(
    objective, optimizer, total_steps, seed, rng_impl=rng_impl, param_shardings=plan.shardings.params
  )
  with sharding.use(plan.mesh, plan.rules):
    state, metrics = plan.jit(train_step)(state, sharding.put_batch(arrays, plan.mesh))
  metrics = jax.device_get(metrics)
  loss = float(metrics["loss"])
  of_parts = "grad_norm/"
  norms = {name.removeprefix(of_parts): norm for name, norm in metrics.items() if name.startswith(of_parts)}
  if not np.isfinite(loss):
    raise XmcapError(f"the loss of the first step is {loss}: check the weights, and train in float32")
  for part, norm in norms.items():
    if not np.isfinite(norm):
      raise XmcapError(
        f"the gradient of {part} is {norm} in the first step: check the weights, and train in float32"
      )
    if norm == 0:
      raise XmcapError(f"the gradient of {part} is {norm} in the first step, so {part} would not learn")
  pictures = len(next(iter(arrays.values())))
  text = (
    f"loss {loss:.4f} on {pictures} picture{'' if pictures == 1 else 's'}; gradients in {', '.join(norms)}"
  )
  return text + (" (of fresh parameters)" if fresh else ""), state


def evaluator(
  evaluator: Any, params: Any, plan: StatePlan, pictures: int, measured: dict[str, float]
) -> tuple[str, bool]:
  """Runs an evaluator on a few pictures; adds what it measured to `measured`.

  Raises:
    XmcapError: it measured nothing, or no number.
  """
  if not hasattr(evaluator, "small"):
    return "not run: it has no method small(pictures)", True
  groups = sharding.axis_size(plan.mesh, sharding.BATCH_AXES)
  small = evaluator.small(-(-pictures // groups) * groups)
  with sharding.use(plan.mesh, plan.rules):
    rows = list(small.run(params, 0))
  if not rows:
    raise XmcapError("it measured nothing: check its split")
  for language, name, value in rows:
    if not np.isfinite(value):
      raise XmcapError(f"{name}{f' of {language}' if language else ''} is {value}")
  found = summarise(rows)
  measured.update(found)
  return "  ".join(f"{name} {value:.4f}" for name, value in found.items()), True
