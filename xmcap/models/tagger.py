"""The ViT with a tagging head: what the image tower learns before it sees a caption.

The paper's ViTs were pretrained on classification of JFT; this head does that for corpora whose pictures
carry an ordered list of classes. Its ViT is the captioner's, parameter for parameter (`vit`).
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models.layers import Dense, resolve_dtype
from xmcap.models.vit import ViT, ViTConfig


class Tagger(nn.Module):
  """Pictures to the classes seen in them, in order and as a set.

  Parameters: `vit`, `slots_dense`, `labels_dense`.

  Attributes:
    vit: the image tower; with pool `none` the head reads the mean of the patch tokens.
    num_classes: C, of the corpus.
    num_slots: S, the most classes that a picture has in order.
  """

  vit: ViTConfig
  num_classes: int
  num_slots: int

  def setup(self):
    if self.num_classes < 1 or self.num_slots < 1:
      raise UsageError(
        f"a tagger of {self.num_classes} classes and {self.num_slots} slots: both must be at least 1"
      )
    dtype = resolve_dtype(self.vit.dtype)
    self.image_tower = ViT(self.vit, name="vit")
    slots = self.num_slots * (self.num_classes + 1)
    self.slots_dense = Dense(slots, ("embed", "classes"), use_bias=True, dtype=dtype)
    self.labels_dense = Dense(self.num_classes, ("embed", "classes"), use_bias=True, dtype=dtype)

  def __call__(self, image: jax.Array, deterministic: bool = True) -> tuple[jax.Array, jax.Array]:
    """Pictures [B, H, W, 3] of values 0..255 -> logits of each slot, and of each label's presence.

    They are float32 [B, S, C + 1], class 0 for an empty slot, and [B, C], label i being class i + 1 of a slot.
    """
    x = jnp.mean(self.image_tower(image, deterministic), axis=1)
    slots = self.slots_dense(x).reshape(-1, self.num_slots, self.num_classes + 1)
    return slots.astype(jnp.float32), self.labels_dense(x).astype(jnp.float32)
