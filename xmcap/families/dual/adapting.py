"""Trains the adapter of one language against the English captions or the images of a frozen dual tower.

Geigle et al., "Babel-ImageNet" (2024), section 6. The teacher is the same model before training; its embeddings are
computed once (`families/dual/taught_stream.py`).
"""

from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.objective import LossInputs, infonce_losses, spread
from xmcap.families.dual.text_tower import TextConfig
from xmcap.models.parts import ImageConfig
from xmcap.models.t5 import T5Config
from xmcap.training.objectives import Batch, Metrics

KINDS = ("mse", "contrastive", "lit")


@gin.configurable
class AdapterObjective:
  """Pulls the embeddings of a language's captions towards those of their English captions or their images.

  Freeze everything but the adapter (`Optimizer.frozen`); with `lit` the scale may learn too.

  Args:
    vit, text, dual: configuration of the dual tower; `text`, @T5Config() or @TextConfig(), must have an adapter.
    kind: `mse`, the squared distance to the English caption; `contrastive`, InfoNCE between captions and English
      captions; `lit`, InfoNCE between captions and images.
  """

  def __init__(
    self,
    vit: ImageConfig = gin.REQUIRED,
    text: T5Config | TextConfig = gin.REQUIRED,
    dual: DualConfig = gin.REQUIRED,
    kind: str = "mse",
  ):
    if kind not in KINDS:
      raise UsageError(f"AdapterObjective.kind is {kind!r}: give one of {', '.join(KINDS)}")
    if text.adapter == "none":
      raise UsageError(
        "AdapterObjective: the text tower has no adapter: set T5Config.adapter or TextConfig.adapter to 'bottleneck'"
      )
    self.module = DualTower(vit, text, dual)
    self.kind = kind

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables of the whole tower: `params` and `params_axes`. Only the shapes of `batch` matter."""
    size = self.module.vit.image_size
    image = jnp.zeros((1, size, size, 3), jnp.uint8)
    return self.module.init(rng, image, batch["target_tokens"])

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch of `TaughtStream` or `PairStream`.

    Returns:
      The loss, float32 [], a mean over captions of InfoNCE, or of the squared distance between normalized embeddings
      (summed over the width); and the metrics `similarity` (mean cosine to the English caption) and `weight` (number
      of captions).
    """
    tokens = batch["target_tokens"][:, 0]
    present = jnp.any(batch["target_weights"][:, 0] > 0, axis=-1)
    variables = {"params": params}
    text = cast(
      jax.Array,
      self.module.apply(variables, tokens, deterministic, method="embed_texts", rngs={"dropout": rng}),
    )
    teacher = batch["teacher_text"]
    weight = jnp.sum(present.astype(jnp.float32))
    if self.kind == "mse":
      losses = jnp.sum(jnp.square(text - teacher), axis=-1) * present
    else:
      if self.kind == "lit" and "teacher_image" not in batch:
        raise UsageError(
          "AdapterObjective.kind 'lit' needs the embeddings of pictures: embed them with the captions"
        )
      other = teacher if self.kind == "contrastive" else batch["teacher_image"]
      rows = LossInputs(other, present, text, present, jnp.arange(len(text), dtype=jnp.uint32))
      losses = spread(infonce_losses, False)(rows, jnp.exp(params["logit_scale"]), jnp.zeros(()))
    count = jnp.maximum(weight, 1e-9)
    similarity = jnp.sum(jnp.sum(text * teacher, axis=-1) * present) / count
    return jnp.sum(losses) / count, {"similarity": similarity, "weight": weight}
