"""Evaluates an objective's loss on a split."""

import copy
from collections.abc import Iterator
from typing import Any

import gin
import jax

from xmcap.evaluation import sharded_params
from xmcap.evaluation.split_evaluator import batches_of


@gin.configurable
class LossEvaluator:
  """An objective's loss and metrics on a split, without dropout.

  They are weighted means, so they do not depend on the batch size or the number of devices.

  Args:
    objective: has `loss(params, batch, rng, deterministic)`, whose metrics are means over `metrics["weight"]`.
    stream: the stream of the split.
    num_batches: evaluate as many images as are in this many batches; 0: every image of the split once.
    name: prefix of the names of the rows, such as `validation`.
  """

  def __init__(
    self, objective: Any = gin.REQUIRED, stream: Any = gin.REQUIRED, num_batches: int = 0, name: str = ""
  ):
    self.stream = stream
    self.num_batches = num_batches
    self.prefix = f"{name}/" if name else ""
    self._loss = jax.jit(lambda params, batch: objective.loss(params, batch, jax.random.key(0), True))

  def small(self, images: int) -> "LossEvaluator":
    """An evaluator of one batch of a few images."""
    evaluator = copy.copy(self)
    evaluator.stream, evaluator.num_batches = self.stream.resized(images), 1
    return evaluator

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields ("", name, value) for `loss` and each metric of the objective."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    count = self.num_batches * self.stream.num_images or len(self.stream.source)
    batches = batches_of(self.stream, count, self._loss, sharded, f"{self.prefix}loss")
    measured = [{**metrics, "loss": loss} for loss, metrics in batches]
    weights = [float(metrics.pop("weight")) for metrics in measured]
    for name in measured[0]:
      total = sum(float(metrics[name]) * weight for metrics, weight in zip(measured, weights, strict=True))
      yield "", f"{self.prefix}{name}", total / max(sum(weights), 1e-9)
