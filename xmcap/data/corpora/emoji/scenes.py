"""Scenes: a few emoji on a varied background, from left to right in reading order.

Everything that varies is drawn for a whole shard at once from one seeded generator, so that a picture depends
on (seed, split, shard) and its place there alone; drawing it is then a handful of calls into Pillow.
"""

import dataclasses
import io
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from xmcap.data.corpora.emoji import pictures as emoji_pictures
from xmcap.errors import UsageError

BACKGROUNDS = ("plain", "gradient", "noise", "mixed")
_SPRITE_SIZES = 12  # evenly spaced sizes of an emoji that are kept
_NOISE_GRID = 5  # colours a side of the grid that smooth noise is drawn from


@dataclasses.dataclass(frozen=True)
class SceneOptions:
  """How free the scenes are. Lengths are shares of the picture's side.

  Attributes:
    min_size, max_size: the longer side of an emoji is uniform between them; where a row of emoji is wider
      than the picture and `overlap` allow, all of them shrink to what fits.
    jitter: 0: evenly spaced on the middle line; 1: anywhere inside the picture, in reading order.
    overlap: how far a row of emoji may be wider than the picture; they then cover one another a little.
    background: `plain` (one colour), `gradient` (two to four colours), `noise` (smooth, many colours), or
      `mixed` (a third each).
    contrast: in [0, 1], how far the colours of one background lie apart.
  """

  min_size: float = 0.3
  max_size: float = 0.42
  jitter: float = 0.7
  overlap: float = 0.06
  background: str = "mixed"
  contrast: float = 0.4

  def __post_init__(self):
    if not 0 < self.min_size <= self.max_size <= 1:
      raise UsageError(
        f"min_size={self.min_size}, max_size={self.max_size}: use 0 < min_size <= max_size <= 1"
      )
    for name in ("jitter", "overlap", "contrast"):
      if not 0 <= getattr(self, name) <= 1:
        raise UsageError(f"{name}={getattr(self, name)}: use a number from 0 to 1")
    if self.background not in BACKGROUNDS:
      raise UsageError(f"background={self.background}: choose one of {', '.join(BACKGROUNDS)}")


DIFFICULTIES = {
  "easy": SceneOptions(min_size=0.32, max_size=0.34, jitter=0.15, overlap=0.0, background="plain"),
  "medium": SceneOptions(),
  "hard": SceneOptions(
    min_size=0.2, max_size=0.5, jitter=1.0, overlap=0.15, background="noise", contrast=1.0
  ),
}
"""Presets. `easy`: in their places, on one colour. `hard`: small or large, anywhere, on strong noise."""


def scene_options(difficulty: str, **changes: float | str | None) -> SceneOptions:
  """A preset of `DIFFICULTIES` with some options changed (None: as in the preset); UsageError if unknown."""
  if difficulty not in DIFFICULTIES:
    raise UsageError(f"unknown difficulty '{difficulty}': choose {', '.join(DIFFICULTIES)}")
  changed = {name: value for name, value in changes.items() if value is not None}
  return dataclasses.replace(DIFFICULTIES[difficulty], **changed)


class Renderer:
  """Draws square scenes of emoji, one cropped RGBA picture a class. Picklable; the emoji are scaled once, here."""

  def __init__(self, pictures: Sequence[Image.Image], image_size: int, options: SceneOptions):
    if image_size < 16:
      raise UsageError(f"image_size={image_size}: emoji cannot be seen in fewer than 16 pixels")
    self.image_size = image_size
    self.options = options
    # Rows may have to shrink to a third and less of the picture, below min_size.
    least = max(4, round(image_size * min(options.min_size, 0.2)))
    most = max(least, round(image_size * options.max_size))
    self._sizes = np.unique(
      np.linspace(least, most, max(_SPRITE_SIZES, most - least if image_size <= 96 else 0))
      .round()
      .astype(int)
    )
    self._sprites = [[emoji_pictures.fit(picture, int(size)) for size in self._sizes] for picture in pictures]

  def render(self, scenes: Sequence[Sequence[int]], rng: np.random.Generator) -> Iterator[Image.Image]:
    """Draws the scenes (class ids in reading order), RGB [image_size, image_size], one after the other."""
    slots = max(map(len, scenes))
    count, options = len(scenes), self.options
    sizes = rng.uniform(options.min_size, options.max_size, (count, slots)) * self.image_size
    gaps = rng.exponential(size=(count, slots + 1))
    heights = rng.uniform(-1, 1, (count, slots))
    kinds = rng.integers(3, size=count)
    base = rng.integers(256, size=(count, 1, 1, 3))
    spread = rng.integers(-128, 128, size=(count, _NOISE_GRID, _NOISE_GRID, 3)) * options.contrast
    colours = np.clip(base + spread, 0, 255).astype(np.uint8)
    for index, scene in enumerate(scenes):
      canvas = self._background(int(kinds[index]), colours[index])
      self._place(canvas, scene, sizes[index], gaps[index], heights[index])
      yield canvas

  def _background(self, kind: int, colours: np.ndarray) -> Image.Image:
    kind = BACKGROUNDS.index(self.options.background) if self.options.background != "mixed" else kind
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
      # The largest first, so that sizes grow alike rather than small ones vanish.
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


def encode_png(picture: Image.Image) -> bytes:
  """The picture as PNG, the same bytes for the same picture; compressed lightly, for speed."""
  buffer = io.BytesIO()
  picture.save(buffer, "PNG", compress_level=1)
  return buffer.getvalue()
