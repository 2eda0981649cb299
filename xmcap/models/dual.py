"""The dual tower: a picture and its captions in one space.

The image tower is the captioner's ViT, and the text tower its T5 encoder, each with a linear head; so a captioner can
start from a dual tower's `vit`, `token_embedder` and `encoder`, and the other way round.
"""

import dataclasses
from typing import NamedTuple

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.models import limits
from xmcap.models.layers import Dense, constrain, parameter, resolve_dtype
from xmcap.models.t5 import PAD_ID, Encoder, T5Config, TokenEmbedder
from xmcap.models.vit import ViT, ViTConfig

_SHORTEST = 1e-6  # of an embedding before it is divided by its length


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DualConfig:
  """What a dual tower has beside the sizes of its towers.

  Attributes:
    embed_dim: E, the width of the space.
  """

  embed_dim: limits.Width

  def __post_init__(self):
    limits.check(self)


class Embeddings(NamedTuple):
  """Of B pictures with K captions each, all float32: image [B, E] and text [B, K, E] have length 1.

  Similarities are `scale` (text . image) + `bias`, both [].
  """

  image: jax.Array
  text: jax.Array
  scale: jax.Array
  bias: jax.Array


class DualTower(nn.Module):
  """Pictures and captions to embeddings of length 1.

  Parameters: `vit`, `image_head`, `token_embedder`, `encoder`, `text_head`, `logit_scale` (the logarithm of it),
  `logit_bias`.

  Attributes:
    vit: the image tower; with pool `none` the mean of the patch tokens counts.
    t5: sizes of the text tower: the encoder of a T5, whose outputs are averaged over the pieces of a caption.
    dual: the space.
    log_scale, bias: what `logit_scale` and `logit_bias` begin with.
    max_log_scale: above which the scale does not rise.
  """

  vit: ViTConfig
  t5: T5Config
  dual: DualConfig
  log_scale: float
  bias: float
  max_log_scale: float

  def setup(self):
    self.image_tower = ViT(self.vit, name="vit")
    self.image_head = Dense(
      self.dual.embed_dim, ("embed", "image_embed"), dtype=resolve_dtype(self.vit.dtype)
    )
    self.token_embedder = TokenEmbedder(self.t5)
    self.encoder = Encoder(self.t5)
    self.text_head = Dense(self.dual.embed_dim, ("embed", "image_embed"), dtype=resolve_dtype(self.t5.dtype))
    self.logit_scale = parameter("logit_scale", nn.initializers.constant(self.log_scale), (), ())
    self.logit_bias = parameter("logit_bias", nn.initializers.constant(self.bias), (), ())

  def embed_images(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """Pictures [B, H, W, 3] with values 0..255 -> float32 [B, E]."""
    pooled = jnp.mean(self.image_tower(image, deterministic), axis=1)
    return _normalized(self.image_head(pooled))

  def embed_texts(self, tokens: jax.Array, deterministic: bool = True) -> jax.Array:
    """Captions, int32 [N, T], padded with 0 -> float32 [N, E]; one without a piece has no direction, and is 0."""
    mask = tokens != PAD_ID
    embedded = constrain(self.token_embedder(tokens), "batch", "length", "embed")
    encoded = self.encoder(embedded, mask, deterministic).astype(jnp.float32)
    total = jnp.sum(encoded * mask[..., None], axis=1)
    mean = total / jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
    return _normalized(self.text_head(mean))

  def __call__(self, image: jax.Array, tokens: jax.Array, deterministic: bool = True) -> Embeddings:
    """Pictures [B, H, W, 3], and their captions, int32 [B, K, T]; the pictures are encoded once."""
    images = self.embed_images(image, deterministic)
    texts = self.embed_texts(tokens.reshape(-1, tokens.shape[-1]), deterministic)
    scale = jnp.exp(jnp.minimum(self.logit_scale, self.max_log_scale))
    return Embeddings(images, texts.reshape(*tokens.shape[:2], -1), scale, self.logit_bias)


def _normalized(x: jax.Array) -> jax.Array:
  x = x.astype(jnp.float32)
  return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1, keepdims=True), _SHORTEST**2))
