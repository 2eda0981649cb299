"""Trains the adapter of one language against the English captions or the images of a frozen dual tower.

Geigle et al., "Babel-ImageNet" (2024), section 6, and B.3 for the objectives that did not help. The teacher is the
same model before training; its embeddings are computed once (`families/dual/taught_stream.py`).
"""

from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.objective import LossInputs, infonce_losses, one_way_losses, spread
from xmcap.families.dual.text_tower import TextConfig
from xmcap.models.parts import ImageConfig
from xmcap.models.t5 import T5Config
from xmcap.training.objectives import Batch, Metrics

_SECOND = "second_text"  # the texts' embeddings in a second pass with other dropout
_DROPOUT = "by which its two passes differ: set TextConfig.dropout_rate or T5Config.dropout_rate, such as 0.1"


def _distances(text: jax.Array, other: jax.Array, present: jax.Array, scale: jax.Array) -> jax.Array:
  del scale
  return jnp.sum(jnp.square(text - other), axis=-1) * present


def _infonce(text: jax.Array, other: jax.Array, present: jax.Array, scale: jax.Array) -> jax.Array:
  rows = LossInputs(other, present, text, present, jnp.arange(len(text), dtype=jnp.uint32))
  return spread(infonce_losses, False)(rows, scale, jnp.zeros(()))


def _one_way(text: jax.Array, other: jax.Array, present: jax.Array, scale: jax.Array) -> jax.Array:
  rows = LossInputs(text, present, other, present, jnp.arange(len(text), dtype=jnp.uint32))
  return spread(one_way_losses, False)(rows, scale, jnp.zeros(()))


KINDS = {
  "mse": ((_distances, "teacher_text"),),
  "contrastive": ((_infonce, "teacher_text"),),
  "lit": ((_infonce, "teacher_image"),),
  "lit_mse": ((_infonce, "teacher_image"), (_distances, "teacher_text")),
  "simcse": ((_one_way, _SECOND),),
}
"""Kind -> the terms of its loss, each of the captions' embeddings and a field of the batch, or their second pass."""


@gin.configurable
class AdapterObjective:
  """Pulls the embeddings of a language's captions towards those of their English captions or their images.

  Freeze everything but the adapter (`Optimizer.frozen`); with `lit` the scale may learn too.

  Args:
    vit, text, dual: configuration of the dual tower; `text`, @T5Config() or @TextConfig(), must have an adapter.
    kind: `mse`, the squared distance to the English caption; `contrastive`, InfoNCE between captions and English
      captions; `lit`, InfoNCE between captions and images; `lit_mse`, the sum of both, whose weights the paper does not
      say; `simcse`, of the captions alone, by two passes with dropout (Gao et al., 2021, whose code has the one-way
      softmax over the batch).
    temperature: of `simcse`, by which cosines are divided.
  """

  def __init__(
    self,
    vit: ImageConfig = gin.REQUIRED,
    text: T5Config | TextConfig = gin.REQUIRED,
    dual: DualConfig = gin.REQUIRED,
    kind: str = "mse",
    temperature: float = 0.05,
  ):
    if kind not in KINDS:
      raise UsageError(f"AdapterObjective.kind is {kind!r}: give one of {', '.join(KINDS)}")
    if text.adapter == "none":
      raise UsageError(
        "AdapterObjective: the text tower has no adapter: set T5Config.adapter or TextConfig.adapter to 'bottleneck'"
      )
    if kind == "simcse" and not text.dropout_rate:
      raise UsageError(f"AdapterObjective.kind 'simcse' needs dropout, {_DROPOUT}")
    if not temperature > 0:
      raise UsageError(f"AdapterObjective.temperature is {temperature}: give a number above 0, such as 0.05")
    self.module = DualTower(vit, text, dual)
    self.kind, self.temperature = kind, temperature

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables of the whole tower: `params` and `params_axes`. Only the shapes of `batch` matter."""
    size = self.module.vit.image_size
    image = jnp.zeros((1, size, size, 3), jnp.uint8)
    return self.module.init(rng, image, batch["target_tokens"])

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch of `TaughtStream` or `PairStream`.

    Returns:
      The loss, float32 [], a mean over captions of InfoNCE, or of the squared distance between normalized embeddings
      (summed over the width); and the metrics `similarity` (mean cosine to the English caption, or to the second pass
      of `simcse`) and `weight` (number of captions).

    Raises:
      UsageError: the batch lacks a teacher's embeddings.
    """
    tokens = batch["target_tokens"][:, 0]
    present = jnp.any(batch["target_weights"][:, 0] > 0, axis=-1)
    scale = jnp.exp(params["logit_scale"])

    def embed(rng: jax.Array) -> jax.Array:
      outputs = self.module.apply(
        {"params": params}, tokens, deterministic, method="embed_texts", rngs={"dropout": rng}
      )
      return cast(jax.Array, outputs)

    text, others = embed(rng), dict(batch)
    if self.kind == "simcse":
      others[_SECOND], scale = embed(jax.random.fold_in(rng, 1)), jnp.asarray(1 / self.temperature)
    for _, field in KINDS[self.kind]:
      if field not in others:
        of = "pictures" if field == "teacher_image" else "the English captions"
        raise UsageError(f"AdapterObjective.kind {self.kind!r} needs the embeddings of {of}: embed them, too")
    losses = sum(term(text, others[field], present, scale) for term, field in KINDS[self.kind])
    weight = jnp.sum(present.astype(jnp.float32))
    count = jnp.maximum(weight, 1e-9)
    near = others[_SECOND if self.kind == "simcse" else "teacher_text"]
    similarity = jnp.sum(jnp.sum(text * near, axis=-1) * present) / count
    return jnp.sum(losses) / count, {"similarity": similarity, "weight": weight}
