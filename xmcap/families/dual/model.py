"""The dual tower: an image and its captions in one space.

The image tower is the captioner's ViT, and the text tower its T5 encoder, each with a linear head; so a captioner can
start from a dual tower's `vit`, `token_embedder` and `encoder`, and the other way round. Weights from elsewhere bring
text towers of other kinds (`text_tower.py`).
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.families.dual.text_tower import TextConfig, TextTower
from xmcap.models import limits
from xmcap.models.layers import ACTIVATIONS, Dense, constrain, normalized, parameter, resolve_dtype
from xmcap.models.parts import ImageConfig, image_tower
from xmcap.models.t5 import PAD_ID, Encoder, T5Config, TokenEmbedder

IMAGE_HEADS = ("linear", "linear_bias", "none")
TEXT_HEADS = (*IMAGE_HEADS, "mlp")
RESIZES = (
  "bilinear", "bilinear_square", "bilinear_crop", "bilinear_crop_even", "bicubic", "bicubic_crop", "bicubic_crop_even"
)  # fmt: skip


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DualConfig:
  """The embedding space of a dual tower, and the heads that map its two towers to it.

  Attributes:
    embed_dim: E, the width of the space.
    image_head, text_head: maps a tower's vector to the space: `linear`; `linear_bias`; `mlp` (texts only: two dense
      layers without biases and a GELU); or `none`, if the tower is as wide as the space.
    resize: how `xmcap embed` makes an image square: `bilinear`, as in training here; `bicubic` (SigLIP) or
      `bilinear_square` (SigLIP 2), by that filter at full resolution; `bicubic_crop`, the center of an image whose
      short side is resized (CLIP in transformers); `bicubic_crop_even`, the same, but a crop that would begin at half
      a pixel begins at an even one (torchvision); `bilinear_crop`, `bilinear_crop_even`.
  """

  embed_dim: limits.Width
  image_head: str = "linear"
  text_head: str = "linear"
  resize: str = "bilinear"

  def __post_init__(self):
    limits.check(self)
    limits.check_names(self, image_head=IMAGE_HEADS, text_head=TEXT_HEADS, resize=RESIZES)


class Embeddings(NamedTuple):
  """Unit embeddings of B images with K captions each, all float32: image [B, E] and text [B, K, E].

  Similarities are `scale` (text . image) + `bias`, both [].
  """

  image: jax.Array
  text: jax.Array
  scale: jax.Array
  bias: jax.Array


class DualTower(nn.Module):
  """Images and captions to embeddings of length 1.

  Parameters: `vit`, `image_head`, `token_embedder` and `encoder` (of a T5) or `text_tower`, `text_head`, `logit_scale`
  (the logarithm of it), `logit_bias`.

  Attributes:
    vit: the image tower; with pool `none` the mean of the patch tokens counts.
    text: of the text tower: the encoder of a T5, whose outputs are averaged over the pieces of a caption, or another.
    dual: the space.
    log_scale, bias: what `logit_scale` and `logit_bias` begin with in training.
    max_log_scale: above which the scale does not rise.
  """

  vit: ImageConfig
  text: T5Config | TextConfig
  dual: DualConfig
  log_scale: float = 0.0
  bias: float = 0.0
  max_log_scale: float = math.inf

  def setup(self):
    self.image_tower = image_tower(self.vit)
    self.image_head = self._head(self.dual.image_head, self.vit.dtype)
    if isinstance(self.text, T5Config):
      self.token_embedder = TokenEmbedder(self.text)
      self.encoder = Encoder(self.text)
    else:
      self.text_tower = TextTower(self.text)
    self.text_head = self._head(self.dual.text_head, self.text.dtype)
    self.logit_scale = parameter("logit_scale", nn.initializers.constant(self.log_scale), (), ())
    self.logit_bias = parameter("logit_bias", nn.initializers.constant(self.bias), (), ())

  def _head(self, kind: str, dtype: str) -> Callable[[jax.Array], jax.Array]:
    if kind == "none":
      return lambda x: x
    if kind == "mlp":
      return HeadMlp(self.dual.embed_dim, resolve_dtype(dtype))
    axes, use_bias = ("embed", "image_embed"), kind == "linear_bias"
    return Dense(self.dual.embed_dim, axes, use_bias, resolve_dtype(dtype))

  def embed_images(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """Images [B, H, W, 3] with values 0..255 -> float32 [B, E]."""
    pooled = jnp.mean(self.image_tower(image, deterministic), axis=1)
    return normalized(self.image_head(pooled))

  def embed_texts(self, tokens: jax.Array, deterministic: bool = True) -> jax.Array:
    """Texts, int32 [N, T], padded with the tower's padding token (T5: 0) -> float32 [N, E].

    With a T5, the embedding of an empty text is 0.
    """
    if not isinstance(self.text, T5Config):
      return normalized(self.text_head(self.text_tower(tokens, deterministic)))
    mask = tokens != PAD_ID
    embedded = constrain(self.token_embedder(tokens), "batch", "length", "embed")
    encoded = self.encoder(embedded, mask, deterministic).astype(jnp.float32)
    total = jnp.sum(encoded * mask[..., None], axis=1)
    mean = total / jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
    return normalized(self.text_head(mean))

  def __call__(self, image: jax.Array, tokens: jax.Array, deterministic: bool = True) -> Embeddings:
    """Images [B, H, W, 3], and their captions, int32 [B, K, T]; the images are encoded once."""
    images = self.embed_images(image, deterministic)
    texts = self.embed_texts(tokens.reshape(-1, tokens.shape[-1]), deterministic)
    scale = jnp.exp(jnp.minimum(self.logit_scale, self.max_log_scale))
    return Embeddings(images, texts.reshape(*tokens.shape[:2], -1), scale, self.logit_bias)


class HeadMlp(nn.Module):
  """The head of OpenCLIP's XLM-R: [N, width] -> [N, features], its inner width halfway between the two."""

  features: int
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    inner = (x.shape[-1] + self.features) // 2
    x = Dense(inner, ("embed", "mlp"), dtype=self.dtype, name="wi")(x)
    return Dense(self.features, ("mlp", "image_embed"), dtype=self.dtype, name="wo")(ACTIVATIONS["gelu"](x))
