"""Objectives for captions and for tags. The training loop uses only their `init` and `loss`."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.data import features
from xmcap.errors import UsageError
from xmcap.models.captioner import Captioner
from xmcap.models.layers import pieces
from xmcap.models.parts import (
  IMAGE,
  ImageConfig,
  LanguageModelConfig,
  check_stored,
  image_tower,
  input_shape,
  reads_stored,
)
from xmcap.training import token_logits, token_loss

Batch = Mapping[str, jax.Array]
Metrics = dict[str, jax.Array]

_DIFFERENCE = 0.05  # largest relative difference of a stored vector; bfloat16 makes some thousandths


@gin.configurable
class CaptionObjective:
  """The mean cross-entropy of a caption's tokens, with label smoothing and z-loss, as in t5x.

  Args:
    vit, t5: configurations of the image tower, such as @ViTConfig(), and of the language model, such as @T5Config().
    label_smoothing: probability spread over all other tokens. The entropy of the smoothed target is subtracted, so
      that a perfect prediction has loss 0.
    z_loss: weight of log(Z)^2, which keeps the softmax's normalizer Z near 1 (Chowdhery et al. 2022).
    one_pass: sum exponentials while a TPU makes the logits; the loss is infinite where log Z is 118 above the mean
      logit + log(vocabulary). See `token_logits`.
  """

  def __init__(
    self,
    vit: ImageConfig = gin.REQUIRED,
    t5: LanguageModelConfig = gin.REQUIRED,
    label_smoothing: float = 0.0,
    z_loss: float = 1e-4,
    one_pass: bool = True,
  ):
    if not 0 <= label_smoothing < 1 or z_loss < 0:
      raise UsageError(
        f"CaptionObjective: label_smoothing {label_smoothing} must be in [0, 1), z_loss {z_loss} >= 0"
      )
    self.module = Captioner(vit, t5)
    self.label_smoothing = label_smoothing
    self.z_loss = z_loss
    self.one_pass = one_pass

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    # Not the stored vectors of an image tower, so that it has its parameters too.
    image = jnp.zeros((len(batch["prompt_tokens"]), *input_shape(self.module.vit)), jnp.uint8)
    return self.module.init(rng, image, batch["prompt_tokens"], batch["target_tokens"])

  def check(self, params: Any, stream: Any) -> None:
    """Raises UsageError if a stream has stored vectors of images, and they are not those of the run's image tower.

    Two images are compared. The captioner that is trained on vectors will see images through this tower. Of a tower
    that sees none, the vectors are what it reads.
    """
    if not getattr(stream, "features", ""):
      return
    if reads_stored(self.module.vit):
      check_stored(self.module.vit, features.read(stream.features).vectors, stream.features)
      return
    rows = range(min(2, stream.num_images))
    pixels = dataclasses.replace(stream, features="").batch(0, rows)["image"]
    stored = self._pictures(stream.batch(0, rows))

    def difference(params, pixels, stored):
      own = image_tower(self.module.vit, name=None).apply({"params": params}, pixels)
      own = cast(jax.Array, own)[:, 0].astype(jnp.float32)
      return jnp.max(jnp.linalg.norm(own - stored, axis=1) / jnp.linalg.norm(own, axis=1))

    gap = float(jax.jit(difference)(params[IMAGE], pixels, stored))
    if not gap < _DIFFERENCE:
      raise UsageError(
        f"{stream.features}: not the vectors of this run's ViT (they differ by {gap:.0%} of their length): make them"
        " with `xmcap features --model_dir=WEIGHTS` and start from --gin.PRETRAINED=WEIGHTS"
      )

  def _pictures(self, batch: Batch) -> jax.Array:
    """The images of a batch, or the stored vectors of its image tower; UsageError if they do not fit the tower."""
    if "features" not in batch:
      return batch["image"]
    vit, stored = self.module.vit, batch["features"]
    width = vit.width
    if reads_stored(vit):
      (width,) = input_shape(vit)
    elif vit.num_tokens > 1:
      raise UsageError(
        "CaptionStream.features: one vector for each picture, but with ViTConfig.pool = 'none' the model reads all"
        " patch tokens: train on pixels, or use a ViT with the pool gap, map or tok"
      )
    if stored.shape[-1] != width:
      raise UsageError(
        f"CaptionStream.features: vectors of {stored.shape[-1]} numbers, but the model's have {width}: give those"
        " of its image tower"
      )
    return stored

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch.

    Args:
      batch: `image` uint8 [B, H, W, 3], or `features` float32 [B, D], the stored vectors of its image tower, which then
        does not learn; `prompt_tokens` [B, K, P], `target_tokens` and `target_weights` [B, K, T].

    Returns:
      The loss, float32 [], a weighted mean over tokens; and the metrics `cross_entropy` (nats per token, without
      smoothing and z-loss), `accuracy` (of the next token, with teacher forcing) and `weight` (sum over tokens).
    """
    inputs = (self._pictures(batch), batch["prompt_tokens"], batch["target_tokens"])
    hidden = cast(
      jax.Array,
      self.module.apply({"params": params}, *inputs, deterministic, rngs={"dropout": rng}, method="hidden"),
    )
    head = {"decoder": {"logits_dense": params["decoder"]["logits_dense"]}}
    targets, weights = batch["target_tokens"], batch["target_weights"]
    logits = targets.size, self.module.t5.vocab_size
    bytes_of_all = 4 * math.prod(logits) / pieces(logits, "batch", "logits")
    parts = token_loss.parts_of(targets.shape[2], bytes_of_all)
    loss, metrics = token_loss.summed(self.sums, parts, head, hidden, (targets, weights))
    weight = jnp.sum(weights)
    loss, metrics = jax.tree.map(lambda total: total / jnp.maximum(weight, 1e-9), (loss, metrics))
    return loss, {**metrics, "weight": weight}

  def sums(
    self, head: Any, hidden: jax.Array, targets: jax.Array, weights: jax.Array
  ) -> tuple[jax.Array, Metrics]:
    """The loss and the metrics of tokens, summed by weight, as `token_loss.summed` takes them.

    Args:
      head: the parameters that make logits of `hidden` [..., E], as a part of all.
      targets, weights: [...].
    """
    # One row per token: of more axes, a TPU would copy the exponentials into another layout.
    hidden, targets, weights = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1), weights.reshape(-1)
    logits = cast(jax.Array, self.module.apply({"params": head}, hidden, method="logits"))
    if self.one_pass:
      bound = token_logits.lower_bound(head["decoder"]["logits_dense"], hidden)
      reduced = token_logits.reduced_in_one_pass(logits, targets, bound, hidden.dtype)
    else:
      reduced = token_logits.reduced(logits, targets)
    losses, cross_entropy = token_loss.token_losses(
      reduced, logits.shape[-1], self.label_smoothing, self.z_loss
    )
    # Not argmax, which is slow in XLA on CPUs.
    right = reduced.of_targets >= reduced.highest
    metrics = {"cross_entropy": jnp.sum(cross_entropy * weights), "accuracy": jnp.sum(right * weights)}
    return jnp.sum(losses * weights), metrics
