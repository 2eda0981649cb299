"""The vision transformer.

Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021), as in big_vision: learned position embeddings of the
patches, pre-norm blocks, a final norm, and the pooling of Zhai et al., "Scaling Vision Transformers" (2022): `gap`,
`map` or `tok`, or `none` for all patch tokens. The class token has no position embedding; converted weights add it to
the token itself.
"""

import dataclasses
from typing import Annotated

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn
from msgspec import Meta

from xmcap.errors import UsageError
from xmcap.models import blocks, limits, stacking
from xmcap.models.attention import IMPLEMENTATIONS
from xmcap.models.layers import (
  ACTIVATIONS,
  VIT_KERNEL_INIT,
  Dropout,
  check_dtype,
  constrain,
  parameter,
  resolve_dtype,
)  # fmt: skip

POOLS = ("gap", "map", "tok", "none")

_Mean = Annotated[float, Meta(ge=-1e3, le=1e3)]
_Std = Annotated[float, Meta(ge=1e-6, le=1e3)]
_MOST_PATCHES = 2**20


@gin.configurable
@dataclasses.dataclass(frozen=True)
class ViTConfig:
  """Sizes and variants of a ViT.

  Attributes:
    width, depth, mlp_dim, num_heads: sizes of the transformer; width must be divisible by num_heads.
    patch_size, image_size: in pixels; images are square, and their last pixels that fill no patch are not seen.
    pool: one vector by `gap` (mean), `map` (attention pooling with a learned query) or `tok` (class token); `none`:
      all patch tokens.
    dropout_rate: dropout of embeddings, attention, MLP and residual branches.
    activation: `gelu_tanh` (published big_vision weights), `gelu` (erf) or `quick_gelu` (CLIP).
    norm_epsilon: epsilon of the layer norms.
    pre_norm: whether there is a norm between the embeddings and the first block (CLIP).
    patch_bias: whether the patch embedding has a bias (CLIP's has none).
    image_mean, image_std: normalization of pixels that are scaled to [0, 1]; the default maps them to [-1, 1].
    remat: what the backward pass recomputes instead of storing it: `no`, `dots` or `full` (see `stacking.REMAT`).
    scan: compile one block for all (see `stacking`).
    dtype: dtype of the activations: `auto`, `float32`, `bfloat16`.
    attention: `plain`, or in bfloat16 `cudnn`, cuDNN's kernel for NVIDIA's GPUs, or `pallas`, ours for TPUs; `auto` is
      the one that the devices have.

  Raises:
    UsageError: a field has the wrong type or is out of its limits, sizes do not divide, or a name is unknown.
  """

  width: limits.Width
  depth: limits.Layers
  mlp_dim: limits.MlpWidth
  num_heads: limits.Heads
  patch_size: Annotated[int, Meta(ge=1, le=2**12)]
  image_size: Annotated[int, Meta(ge=1, le=2**14)]
  pool: str = "map"
  dropout_rate: limits.Rate = 0.0
  activation: str = "gelu_tanh"
  norm_epsilon: limits.Epsilon = 1e-6
  pre_norm: bool = False
  patch_bias: bool = True
  image_mean: tuple[_Mean, _Mean, _Mean] = (0.5, 0.5, 0.5)
  image_std: tuple[_Std, _Std, _Std] = (0.5, 0.5, 0.5)
  remat: str = "no"
  scan: bool = False
  dtype: str = "auto"
  attention: str = "auto"

  def __post_init__(self):
    limits.check(self)
    # Gin passes lists, but the configuration has to be hashable.
    for name in ("image_mean", "image_std"):
      object.__setattr__(self, name, tuple(getattr(self, name)))
    limits.check_names(
      self, pool=POOLS, activation=ACTIVATIONS, attention=IMPLEMENTATIONS, remat=stacking.REMAT
    )
    if self.image_size < self.patch_size:
      raise UsageError(
        f"ViTConfig.image_size {self.image_size} is less than patch_size {self.patch_size}: no patch fits"
      )
    if self.width % self.num_heads:
      raise UsageError(f"ViTConfig.width {self.width} is not divisible by num_heads {self.num_heads}")
    if self.num_patches > _MOST_PATCHES:
      raise UsageError(
        f"ViTConfig: image_size {self.image_size} and patch_size {self.patch_size} make {self.num_patches:,}"
        f" patches: at most {_MOST_PATCHES:,} are supported"
      )
    layers = self.depth * (4 * self.width**2 + 2 * self.width * self.mlp_dim)
    limits.check_parameters(self, layers + (3 * self.patch_size**2 + self.num_patches) * self.width)
    check_dtype(self.dtype)

  @property
  def num_patches(self) -> int:
    """Patches per image."""
    return (self.image_size // self.patch_size) ** 2

  @property
  def num_tokens(self) -> int:
    """Vectors per image: 1, or num_patches with pool `none`."""
    return self.num_patches if self.pool == "none" else 1


class ViTLayer(nn.Module):
  """A pre-norm transformer block: [rows, length, width] -> the same."""

  config: ViTConfig

  def setup(self):
    self.attention_norm = blocks.norm(self.config)
    self.attention = blocks.attention(self.config, self.config.attention)
    self.mlp_norm = blocks.norm(self.config)
    self.mlp = blocks.Mlp(self.config)
    self.dropout = Dropout(self.config.dropout_rate)

  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    y = self.attention_norm(x)
    x = x + self.dropout(self.attention(y, y, deterministic=deterministic), deterministic)
    x = x + self.dropout(self.mlp(self.mlp_norm(x), deterministic), deterministic)
    return constrain(x, "batch", "length", "embed")


class AttentionPooling(nn.Module):
  """A learned query attends to all tokens, then an MLP: [rows, length, width] -> [rows, 1, width].

  Zhai et al. (2022), section 3.2 ("multihead attention pooling", MAP).
  """

  config: ViTConfig

  def setup(self):
    self.attention = blocks.attention(self.config, self.config.attention)
    self.mlp_norm = blocks.norm(self.config)
    self.mlp = blocks.Mlp(self.config)

  @nn.compact
  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    probe = parameter("probe", VIT_KERNEL_INIT, (1, self.config.width), (None, "embed"), x.dtype)
    probe = jnp.broadcast_to(probe, (x.shape[0], *probe.shape))
    x = self.attention(probe, x, deterministic=deterministic)
    return x + self.mlp(self.mlp_norm(x), deterministic)


class PatchEmbedding(nn.Module):
  """Projects patches [rows, num_patches, size, size, 3] to [rows, num_patches, width]."""

  config: ViTConfig

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    config = self.config
    size, dtype = config.patch_size, resolve_dtype(config.dtype)
    kernel_init = nn.initializers.lecun_normal(in_axis=(0, 1, 2))
    shape, axes = (size, size, 3, config.width), ("height", "width", "channel", "embed")
    kernel = parameter("kernel", kernel_init, shape, axes, dtype)
    # This equals a convolution of the image with stride patch_size, and is faster on a CPU.
    x = jnp.dot(x.astype(dtype).reshape(*x.shape[:2], -1), kernel.reshape(-1, config.width))
    if config.patch_bias:
      x += parameter("bias", nn.initializers.zeros, (config.width,), ("embed",), dtype)
    return x


class ViT(nn.Module):
  """Maps images to vectors.

  Parameters: `patch_embedding`, `position_embedding` [num_patches, width], `class_token` [width] (pool `tok`),
  `pre_norm` (if configured), `layers` (see `stacking`), `final_norm`, `map_head` (pool `map`).
  """

  config: ViTConfig

  def setup(self):
    config = self.config
    self.patch_embedding = PatchEmbedding(config)
    if config.pre_norm:
      self.pre_norm = blocks.norm(config)
    self.dropout = Dropout(config.dropout_rate)
    self.layers = stacking.make(ViTLayer, config, config.depth)
    self.final_norm = blocks.norm(config)
    if config.pool == "map":
      self.map_head = AttentionPooling(config)

  def cut(self, image: jax.Array) -> jax.Array:
    """Cuts images [rows, H, W, 3] into patches, row by row: [rows, num_patches, size, size, 3]."""
    rows, size = image.shape[0], self.config.patch_size
    side = self.config.image_size // size
    x = image[:, : side * size, : side * size].reshape(rows, side, size, side, size, 3)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(rows, side * side, size, size, 3)

  def normalize(self, image: jax.Array) -> jax.Array:
    """Normalizes pixels 0..255, [..., 3] of any dtype, to (value / 255 - mean) / std in float32."""
    mean, std = (jnp.asarray(x, jnp.float32) for x in (self.config.image_mean, self.config.image_std))
    return image.astype(jnp.float32) * (1 / (255.0 * std)) - mean / std

  @nn.compact
  def __call__(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """Images [rows, image_size, image_size, 3] with values 0..255 -> [rows, num_tokens, width].

    If not deterministic, the random stream `dropout` is needed.

    Raises:
      UsageError: the images have another shape.
    """
    config = self.config
    if image.ndim != 4 or image.shape[1:] != (config.image_size, config.image_size, 3):
      raise UsageError(
        f"pictures of shape {tuple(image.shape)} do not fit a ViT of image_size {config.image_size}: "
        f"give [batch, {config.image_size}, {config.image_size}, 3]"
      )
    dtype = resolve_dtype(config.dtype)
    # Cut first: pixels of one byte are the least to move.
    x = self.patch_embedding(self.normalize(self.cut(image)))
    position_init = nn.initializers.normal(config.width**-0.5)
    shape = (config.num_patches, config.width)
    x += parameter("position_embedding", position_init, shape, ("position", "embed"), dtype)
    if config.pool == "tok":
      token = parameter("class_token", nn.initializers.zeros, (config.width,), ("embed",), dtype)
      token = jnp.broadcast_to(token, (x.shape[0], 1, config.width))
      x = jnp.concatenate([token, x], axis=1)
    if config.pre_norm:
      x = self.pre_norm(x)
    x = constrain(self.dropout(x, deterministic), "batch", "length", "embed")
    x, _ = self.layers(x, deterministic)
    if config.pool == "tok":
      x = x[:, :1]
    x = self.final_norm(x)
    if config.pool == "gap":
      x = jnp.mean(x, axis=1, keepdims=True)
    elif config.pool == "map":
      x = self.map_head(x, deterministic)
    return x
