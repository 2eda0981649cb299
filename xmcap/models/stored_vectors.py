"""Stored vectors of images in the place of an image tower, for a captioner that never sees a pixel."""

import dataclasses
from typing import Any

import gin
import jax
from flax import linen as nn

from xmcap.errors import UsageError
from xmcap.models import limits


@gin.configurable
@dataclasses.dataclass(frozen=True)
class StoredVectorsConfig:
  """What a captioner is given of an image: one vector, which other software may have made.

  Attributes:
    width: numbers of a vector, as of `feature_width`.
    image_size: side of the images that are shown beside captions, in pixels.
  """

  width: limits.Width
  image_size: limits.Width = 224

  num_tokens = 1
  depth, num_heads, remat, scan, dtype = 0, 1, "no", False, "float32"

  def __post_init__(self):
    limits.check(self)

  @property
  def input_shape(self) -> tuple[int, ...]:
    """The shape of an input, in place of that of pixels."""
    return (self.width,)


class StoredVectors(nn.Module):
  """Vectors [B, D] -> [B, 1, D]; UsageError for pixels."""

  config: StoredVectorsConfig

  def __call__(self, image: jax.Array, deterministic: bool = True) -> Any:
    if image.ndim == 2:
      return image[:, None]
    raise UsageError(
      "the model reads stored vectors of pictures, not pixels: give them, as FEATURES or --features"
    )
