"""Scenes: a few emoji on a varied background, from left to right in reading order.

All random values of a shard are drawn at once from one seeded generator, so an image depends only on (seed, split,
shard) and its index in the shard. Rendering it then takes a few Pillow calls.
"""

import io
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from xmcap.corpora.emoji import images as emoji_images
from xmcap.corpora.emoji.presets import SceneOptions

_SPRITE_SIZES = 12  # number of precomputed, evenly spaced sizes of an emoji
_NOISE_GRID = 5  # side of the grid of colours from which smooth noise is interpolated
_CONTRAST = 0.4  # in [0, 1], how different the colours of a background are


class Renderer:
  """Renders square scenes from one cropped RGBA image per class. Picklable; scales the emoji once."""

  def __init__(self, images: Sequence[Image.Image], image_size: int, options: SceneOptions):
    self.image_size = image_size
    self.options = options
    # Emoji in a row may have to shrink to a third of the image or less, below min_size.
    least = max(4, round(image_size * min(options.min_size, 0.2)))
    most = max(least, round(image_size * options.max_size))
    self._sizes = np.unique(
      np.linspace(least, most, max(_SPRITE_SIZES, most - least if image_size <= 96 else 0))
      .round()
      .astype(int)
    )
    self._sprites = [[emoji_images.fit(image, int(size)) for size in self._sizes] for image in images]

  def render(self, scenes: Sequence[Sequence[int]], rng: np.random.Generator) -> Iterator[Image.Image]:
    """Yields an image, RGB [image_size, image_size], for each scene (class ids in reading order)."""
    slots = max(map(len, scenes))
    count, options = len(scenes), self.options
    sizes = rng.uniform(options.min_size, options.max_size, (count, slots)) * self.image_size
    gaps = rng.exponential(size=(count, slots + 1))
    heights = rng.uniform(-1, 1, (count, slots))
    kinds = rng.integers(3, size=count)
    base = rng.integers(256, size=(count, 1, 1, 3))
    spread = rng.integers(-128, 128, size=(count, _NOISE_GRID, _NOISE_GRID, 3)) * _CONTRAST
    colours = np.clip(base + spread, 0, 255).astype(np.uint8)
    for index, scene in enumerate(scenes):
      canvas = self._background(int(kinds[index]), colours[index])
      self._place(canvas, scene, sizes[index], gaps[index], heights[index])
      yield canvas

  def _background(self, kind: int, colours: np.ndarray) -> Image.Image:
    """One colour, a gradient of four, or smooth noise of many."""
    shape = (self.image_size, self.image_size)
    if kind == 0:
      return Image.new("RGB", shape, tuple(colours[0, 0].tolist()))
    if kind == 1:
      return Image.fromarray(colours[:2, :2]).resize(shape, Image.Resampling.BILINEAR)
    return Image.fromarray(colours).resize(shape, Image.Resampling.BICUBIC)

  def _place(
    self, canvas: Image.Image, scene: Sequence[int], sizes: np.ndarray, gaps: np.ndarray, heights: np.ndarray
  ) -> None:
    side, options, count = self.image_size, self.options, len(scene)
    levels = np.searchsorted(self._sizes, sizes[:count], side="right") - 1
    levels = np.clip(levels, 0, None)
    sprites = [self._sprites[emoji][level] for emoji, level in zip(scene, levels, strict=True)]
    room = side * (1 + options.overlap if count > 1 else 1)
    while sum(sprite.width for sprite in sprites) > room and levels.any():
      # The largest shrink first, so that sizes become similar and small ones do not vanish.
      levels[levels == levels.max()] -= 1
      sprites = [self._sprites[emoji][level] for emoji, level in zip(scene, levels, strict=True)]
    slack = side - sum(sprite.width for sprite in sprites)
    if slack >= 0:
      random = gaps[: count + 1] / gaps[: count + 1].sum()
      shares = slack * ((1 - options.jitter) / (count + 1) + options.jitter * random)
    else:
      shares = np.array([0.0, *[slack / (count - 1)] * (count - 1)]) if count > 1 else np.zeros(1)
    left = 0.0
    for position, sprite in enumerate(sprites):
      left += shares[position]
      top = (side - sprite.height) / 2 * (1 + options.jitter * heights[position])
      canvas.paste(sprite, (round(left), round(top)), sprite)
      left += sprite.width


def encode_png(image: Image.Image) -> bytes:
  """Encodes an image as PNG, deterministically, with light compression for speed."""
  buffer = io.BytesIO()
  image.save(buffer, "PNG", compress_level=1)
  return buffer.getvalue()
