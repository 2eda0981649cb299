"""A ViT with a tagging head, to pretrain the image tower before captioning.

The paper's ViTs were pretrained to classify JFT. This head does the same for corpora whose pictures have an ordered
list of classes. The parameters of the ViT (`vit`) are those of the captioner's.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models.layers import Dense, resolve_dtype
from xmcap.models.parts import ImageConfig, image_tower


class Tagger(nn.Module):
  """Predicts the classes in a picture, in order and as a set.

  Parameters: `vit`, `slots_dense`, `labels_dense`.

  Attributes:
    vit: the image tower; with pool `none` the patch tokens are averaged.
    num_classes: C, the number of classes in the corpus.
    num_slots: S, the largest number of classes per picture.
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
    """Pictures [B, H, W, 3] with values 0..255 -> the logits of each slot and of each label.

    The slots are float32 [B, S, C + 1], where class 0 is an empty slot, and the labels float32 [B, C], where label i is
    class i + 1 of a slot.
    """
    x = jnp.mean(self.image_tower(image, deterministic), axis=1)
    slots = self.slots_dense(x).reshape(-1, self.num_slots, self.num_classes + 1)
    return slots.astype(jnp.float32), self.labels_dense(x).astype(jnp.float32)
