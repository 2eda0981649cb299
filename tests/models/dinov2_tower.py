"""An example of another image tower: DINOv2 with registers, one of the three files that docs/extending.md counts.

Darcet et al., "Vision Transformers Need Registers" (2024), on Oquab et al., "DINOv2" (2024): the sequence
is a class token, learned registers without positions, and the patches. Pre-norm blocks have a learned scale on each
branch (Touvron et al., "Going deeper with Image Transformers", 2021). The captioner reads the normed patch tokens.
"""

import dataclasses

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.models import blocks, limits, stacking
from xmcap.models.layers import VIT_KERNEL_INIT, constrain, parameter, resolve_dtype


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Dinov2Config:
  """Sizes; `registers` is the number of register tokens, `layer_scale` what the scales of the branches begin with."""

  width: limits.Width
  depth: limits.Layers
  mlp_dim: limits.MlpWidth
  num_heads: limits.Heads
  patch_size: limits.Length
  image_size: limits.Length
  registers: limits.Length = 4
  layer_scale: float = 1.0
  dropout_rate: limits.Rate = 0.0
  activation: str = "gelu"
  norm_epsilon: limits.Epsilon = 1e-6
  remat: str = "no"
  scan: bool = False
  dtype: str = "auto"

  def __post_init__(self):
    limits.check(self)

  @property
  def num_tokens(self) -> int:
    """Patches of a picture."""
    return (self.image_size // self.patch_size) ** 2


class LayerScale(nn.Module):
  """A learned scale of each feature: [..., width] -> the same."""

  config: Dinov2Config

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    init = nn.initializers.constant(self.config.layer_scale)
    return x * parameter("scale", init, x.shape[-1:], ("embed",), x.dtype)


class Dinov2Layer(nn.Module):
  """A pre-norm block with scaled branches: [rows, length, width] -> the same."""

  config: Dinov2Config

  def setup(self):
    self.attention_norm = blocks.norm(self.config)
    self.attention = blocks.attention(self.config)
    self.attention_scale = LayerScale(self.config)
    self.mlp_norm = blocks.norm(self.config)
    self.mlp = blocks.Mlp(self.config)
    self.mlp_scale = LayerScale(self.config)

  def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
    y = self.attention_norm(x)
    x = x + self.attention_scale(self.attention(y, y, deterministic=deterministic))
    x = x + self.mlp_scale(self.mlp(self.mlp_norm(x), deterministic))
    return constrain(x, "batch", "length", "embed")


class Dinov2(nn.Module):
  """Maps pictures to their patch tokens.

  Parameters: `patch_kernel`, `patch_bias`, `class_token`, `registers` [registers, width], `position_embedding`
  [1 + num_tokens, width] (the class token's first), `layers` (see `stacking`), `final_norm`.
  """

  config: Dinov2Config

  def setup(self):
    self.layers = stacking.make(Dinov2Layer, self.config, self.config.depth)
    self.final_norm = blocks.norm(self.config)

  @nn.compact
  def __call__(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """Pictures [rows, image_size, image_size, 3] with values 0..255 -> [rows, num_tokens, width]."""
    config, dtype, rows = self.config, resolve_dtype(self.config.dtype), image.shape[0]
    size, side, width = config.patch_size, config.image_size // config.patch_size, config.width
    mean, std = jnp.array([0.485, 0.456, 0.406]), jnp.array([0.229, 0.224, 0.225])  # ImageNet's
    x = (image.astype(jnp.float32) / 255 - mean) / std
    x = x.reshape(rows, side, size, side, size, 3).transpose(0, 1, 3, 2, 4, 5).reshape(rows, side**2, -1)
    axes = ("height", "width", "channel", "embed")
    kernel = parameter("patch_kernel", VIT_KERNEL_INIT, (size, size, 3, width), axes, dtype)
    x = x.astype(dtype) @ kernel.reshape(-1, width)
    x += parameter("patch_bias", nn.initializers.zeros, (width,), ("embed",), dtype)

    init = nn.initializers.normal(0.02)
    token = parameter("class_token", init, (width,), ("embed",), dtype)
    registers = parameter("registers", init, (config.registers, width), ("position", "embed"), dtype)
    shape = (1 + config.num_tokens, width)
    positions = parameter("position_embedding", init, shape, ("position", "embed"), dtype)
    first = jnp.concatenate([(token + positions[0])[None], registers])
    first = jnp.broadcast_to(first, (rows, *first.shape))
    x = constrain(jnp.concatenate([first, x + positions[1:]], axis=1), "batch", "length", "embed")
    x, _ = self.layers(x, deterministic)
    return self.final_norm(x)[:, 1 + config.registers :]
