"""What a run learns: captions, or tags. The loop knows neither, only `init` and `loss`."""

import math
from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.errors import UsageError
from xmcap.models.captioner import Captioner
from xmcap.models.t5 import T5Config
from xmcap.models.tagger import Tagger
from xmcap.models.vit import ViTConfig

Batch = Mapping[str, jax.Array]
Metrics = dict[str, jax.Array]


@gin.configurable
class CaptionObjective:
  """The mean cross-entropy of a caption's tokens, with label smoothing and z-loss, as in t5x.

  Args:
    vit: of the captioner.
    t5: of the captioner.
    label_smoothing: probability spread over all other tokens; the loss of a perfect guess is still 0, since
      the entropy of the smoothed target is taken off.
    z_loss: weight of log(Z)^2, which keeps the softmax's normaliser near 1 (Chowdhery et al. 2022).
  """

  def __init__(
    self,
    vit: ViTConfig = gin.REQUIRED,
    t5: T5Config = gin.REQUIRED,
    label_smoothing: float = 0.0,
    z_loss: float = 1e-4,
  ):
    if not 0 <= label_smoothing < 1 or z_loss < 0:
      raise UsageError(
        f"CaptionObjective: label_smoothing {label_smoothing} must be in [0, 1), z_loss {z_loss} >= 0"
      )
    self.module = Captioner(vit, t5)
    self.label_smoothing = label_smoothing
    self.z_loss = z_loss

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    inputs = (batch["image"], batch["prompt_tokens"], batch["target_tokens"])
    return self.module.init(rng, *inputs)

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch.

    Args:
      batch: `image` uint8 [B, H, W, 3], `prompt_tokens` [B, K, P], `target_tokens` and `target_weights`
        [B, K, T].

    Returns:
      The loss, float32 [], a mean by weight over tokens; and metrics: `cross_entropy` (with neither smoothing
      nor z-loss, nats a token), `accuracy` (of the next token, given the true ones before), `weight` (of all
      tokens).
    """
    inputs = (batch["image"], batch["prompt_tokens"], batch["target_tokens"])
    outputs = self.module.apply({"params": params}, *inputs, deterministic, rngs={"dropout": rng})
    logits = cast(jax.Array, outputs)
    targets, weights = batch["target_tokens"], batch["target_weights"]
    of_targets = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    losses, cross_entropy = token_losses(logits, of_targets, self.label_smoothing, self.z_loss)
    # Not argmax: the maximum is needed for the softmax anyway, and XLA's argmax is slow on CPUs.
    right = of_targets >= jnp.max(logits, -1)
    weight = jnp.sum(weights)

    def mean(values):
      return jnp.sum(values * weights) / jnp.maximum(weight, 1e-9)

    metrics = {"cross_entropy": mean(cross_entropy), "accuracy": mean(right), "weight": weight}
    return mean(losses), metrics


@gin.configurable
class TagObjective:
  """Naming what a picture shows: in order (a softmax for each slot), and as a set (a sigmoid for each class).

  Args:
    vit: of the tagger; its parameters are `vit/...`, as in the captioner.
    num_classes: C, of the corpus (lines of its `tags.txt`).
    num_slots: S, the most tags of one picture that count; the stream's.
    labels_weight: of the sigmoid loss (summed over the classes, as big_vision does) beside the softmax loss
      (mean over the slots).
  """

  def __init__(
    self,
    vit: ViTConfig = gin.REQUIRED,
    num_classes: int = gin.REQUIRED,
    num_slots: int = 3,
    labels_weight: float = 0.1,
  ):
    if labels_weight < 0:
      raise UsageError(f"TagObjective.labels_weight is {labels_weight}: give a number >= 0")
    self.module = Tagger(vit, num_classes, num_slots)
    self.labels_weight = labels_weight

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    return self.module.init(rng, batch["image"])

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch.

    Args:
      batch: `image` uint8 [B, H, W, 3]; `tags` int32 [B, S], class + 1, 0 for an empty slot; `weights` float32 [B], 1
        if it is absent: a picture of weight 0 counts nowhere.

    Returns:
      The loss, float32 [], a mean by weight over pictures; and metrics, such means too: `accuracy` (share of a
      picture's tags that are right; of a picture without tags, whether all slots are named empty), `exact` (whether
      all slots are right), `labels_loss`; and `weight` (of all pictures).
    """
    outputs = self.module.apply({"params": params}, batch["image"], deterministic, rngs={"dropout": rng})
    slots, labels = cast(tuple[jax.Array, jax.Array], outputs)
    tags = batch["tags"]
    of_tags = jnp.take_along_axis(slots, tags[..., None], axis=-1)[..., 0]
    slot_losses, _ = token_losses(slots, of_tags)
    present = jnp.max(jax.nn.one_hot(tags - 1, labels.shape[-1]), axis=1)
    label_losses = jnp.sum(jax.nn.softplus(labels) - labels * present, -1)

    right, filled = jnp.argmax(slots, -1) == tags, tags > 0
    exact = jnp.all(right, -1).astype(jnp.float32)
    count = jnp.sum(filled, -1)
    accuracy = jnp.where(count > 0, jnp.sum(right & filled, -1) / jnp.maximum(count, 1), exact)

    weights = batch.get("weights", jnp.ones(len(tags), jnp.float32))
    weight = jnp.sum(weights)

    def mean(values):
      return jnp.sum(values * weights) / jnp.maximum(weight, 1e-9)

    metrics = {
      "labels_loss": mean(label_losses), "accuracy": mean(accuracy), "exact": mean(exact), "weight": weight,
    }  # fmt: skip
    return mean(jnp.mean(slot_losses, -1)) + self.labels_weight * metrics["labels_loss"], metrics


def token_losses(
  logits: jax.Array, of_targets: jax.Array, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> tuple[jax.Array, jax.Array]:
  """Cross-entropy of each token, with and without smoothing and z-loss; t5x's `cross_entropy_with_logits`.

  Args:
    logits: [..., V]; all is computed in float32.
    of_targets: [...], those of the right tokens among them.
    label_smoothing: e; the target is 1 - e for the right token and e / (V - 1) for each other.
    z_loss: weight of log(Z)^2.

  Returns:
    The loss of each token and its plain cross-entropy, float32 [...] both.
  """
  logits = logits.astype(jnp.float32)
  log_z = jax.nn.logsumexp(logits, axis=-1)
  cross_entropy = loss = log_z - of_targets
  if label_smoothing:
    others = logits.shape[-1] - 1
    right, wrong = 1.0 - label_smoothing, label_smoothing / others
    entropy = -(right * math.log(right) + others * wrong * math.log(wrong))
    loss = right * cross_entropy + wrong * (others * log_z - (jnp.sum(logits, -1) - of_targets)) - entropy
  return loss + z_loss * jnp.square(log_z), cross_entropy
