"""Images of emoji: drawn from the font Noto Color Emoji, or read from PNG or SVG files."""

import io
import pathlib
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from xmcap import extras
from xmcap.errors import UsageError, XmcapError, one_line

_FONT_SIZE = 109  # pixels: the only size of the bitmaps in NotoColorEmoji.ttf
_SVG_SIZE = 72  # pixels: OpenMoji's own size


class EmojiImages(Protocol):
  """A source of images of emoji."""

  def draw(self, emoji: str) -> Image.Image | None:
    """Returns an emoji (one code point, no U+FE0F) as RGBA, cropped to the visible part; None if there is none."""


class FontImages:
  """Draws emoji from a font with bitmaps of 109 pixels; XmcapError if the font cannot be used."""

  def __init__(self, path: pathlib.Path):
    try:
      self._font = ImageFont.truetype(str(path), _FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
      raise XmcapError(
        f"cannot use the font {path} ({one_line(error)}): give Noto Color Emoji with bitmaps"
      ) from None
    self._missing = self._mask("\U0010fffd")

  def _mask(self, emoji: str) -> Image.Image:
    canvas = Image.new("RGBA", (2 * _FONT_SIZE, 2 * _FONT_SIZE))
    ImageDraw.Draw(canvas).text((10, 10), emoji, font=self._font, embedded_color=True)
    return canvas

  def draw(self, emoji: str) -> Image.Image | None:
    canvas = self._mask(emoji)
    return None if canvas == self._missing else _crop(canvas)


class FileImages:
  """Reads emoji from PNG files named by code point, as in `emoji-datasource-google`."""

  def __init__(self, folder: pathlib.Path):
    self._folder = _checked(folder, "1f34e.png")

  def draw(self, emoji: str) -> Image.Image | None:
    for name in (f"{ord(emoji):04x}.png", f"{ord(emoji):04x}-fe0f.png"):
      if (self._folder / name).is_file():
        with Image.open(self._folder / name) as image:
          return _crop(image.convert("RGBA"))
    return None


class SvgImages:
  """Draws emoji from SVG files named by code point, as in the npm package `openmoji`."""

  def __init__(self, folder: pathlib.Path):
    self._folder = _checked(folder, "1F34E.svg")
    try:
      import resvg_py  # an extra that only one corpus needs
    except ImportError:
      raise UsageError(f"pictures in SVG need resvg-py: {extras.install('emoji')}") from None
    self._draw = resvg_py.svg_to_bytes

  def draw(self, emoji: str) -> Image.Image | None:
    path = self._folder / f"{ord(emoji):04X}.svg"
    if not path.is_file():
      return None
    drawn = self._draw(svg_string=path.read_text(encoding="utf-8"), width=_SVG_SIZE, skip_system_fonts=True)
    return _crop(Image.open(io.BytesIO(bytes(drawn))).convert("RGBA"))


def _checked(folder: pathlib.Path, example: str) -> pathlib.Path:
  if not folder.is_dir():
    raise XmcapError(f"{folder} is missing: it should contain pictures of emoji such as {example}")
  return folder


def _crop(image: Image.Image) -> Image.Image | None:
  box = image.getchannel("A").getbbox()
  return image.crop(box) if box else None


def fit(image: Image.Image, size: int) -> Image.Image:
  """Scales the longer side of an image to `size` pixels (Lanczos; handles alpha)."""
  scale = size / max(image.size)
  width, height = (max(1, round(side * scale)) for side in image.size)
  return image.resize((width, height), Image.Resampling.LANCZOS)


def thumbnail(image: Image.Image, size: int = 12) -> np.ndarray:
  """Returns a thumbnail on grey: float32 [size * size * 3] in [0, 1].

  Two emoji whose thumbnails have a small RMS difference are hard to distinguish in a small scene.
  """
  small = fit(image, size)
  canvas = Image.new("RGB", (size, size), (128, 128, 128))
  canvas.paste(small, ((size - small.width) // 2, (size - small.height) // 2), small)
  return np.asarray(canvas, np.float32).reshape(-1) / 255
