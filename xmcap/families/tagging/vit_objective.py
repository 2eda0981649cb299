"""Trains a ViT with a tagging head on the tags of images, before it is the image tower of a captioner.

The paper's ViTs were pretrained to classify JFT. This head does the same for corpora whose images have an ordered
list of classes. The parameters of the ViT (`vit`) are those of the captioner's.
"""

from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models.layers import Dense, resolve_dtype
from xmcap.models.parts import ImageConfig, image_tower
from xmcap.training.objectives import Batch, Metrics
from xmcap.training.token_logits import reduced
from xmcap.training.token_loss import token_losses


class Tagger(nn.Module):
  """Predicts the classes in an image, in order and as a set.

  Parameters: `vit`, `slots_dense`, `labels_dense`.

  Attributes:
    vit: the image tower; with pool `none` the patch tokens are averaged.
    num_classes: C, the number of classes in the corpus.
    num_slots: S, the largest number of classes per image.
  """

  vit: ImageConfig
  num_classes: int
  num_slots: int

  def setup(self):
    if self.num_classes < 1 or self.num_slots < 1:
      raise UsageError(
        f"a tagger with {self.num_classes} classes and {self.num_slots} slots: both must be at least 1"
      )
    dtype = resolve_dtype(self.vit.dtype)
    self.image_tower = image_tower(self.vit)
    slots = self.num_slots * (self.num_classes + 1)
    self.slots_dense = Dense(slots, ("embed", "classes"), use_bias=True, dtype=dtype)
    self.labels_dense = Dense(self.num_classes, ("embed", "classes"), use_bias=True, dtype=dtype)

  def __call__(self, image: jax.Array, deterministic: bool = True) -> tuple[jax.Array, jax.Array]:
    """Images [B, H, W, 3] with values 0..255 -> the logits of each slot and of each label.

    The slots are float32 [B, S, C + 1], where class 0 is an empty slot, and the labels float32 [B, C], where label i is
    class i + 1 of a slot.
    """
    x = jnp.mean(self.image_tower(image, deterministic), axis=1)
    slots = self.slots_dense(x).reshape(-1, self.num_slots, self.num_classes + 1)
    return slots.astype(jnp.float32), self.labels_dense(x).astype(jnp.float32)


@gin.configurable
class TagObjective:
  """Predicts an image's tags: in order (a softmax per slot), and as a set (a sigmoid per class).

  Args:
    vit: configuration of the ViT; its parameters are `vit/...`, as in the captioner.
    num_classes: C, the number of lines in the corpus's `tags.txt`.
    num_slots: S, the largest number of tags per image, as in the stream.
    labels_weight: weight of the sigmoid loss (summed over the classes, as in big_vision) relative to the softmax loss
      (mean over the slots).
  """

  def __init__(
    self,
    vit: ImageConfig = gin.REQUIRED,
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
      batch: `image` uint8 [B, H, W, 3]; `tags` int32 [B, S], class + 1, or 0 for an empty slot; `weights` float32 [B],
        0 for padding; all 1 if absent.

    Returns:
      The loss, float32 [], a weighted mean over images; and the metrics `accuracy` (share of an image's tags that
      are right; for an image without tags, whether all slots are predicted empty), `exact` (whether all slots are
      right), `labels_loss`, all weighted means too, and `weight` (sum over images).
    """
    outputs = self.module.apply({"params": params}, batch["image"], deterministic, rngs={"dropout": rng})
    slots, labels = cast(tuple[jax.Array, jax.Array], outputs)
    tags = batch["tags"]
    slot_losses, _ = token_losses(reduced(slots, tags), slots.shape[-1])
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
