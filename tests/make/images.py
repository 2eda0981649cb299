"""Images as bytes of a format, and as files."""

import io
import os
import pathlib

import numpy as np
from PIL import Image


def encode(image: Image.Image | np.ndarray, kind: str = "PNG", **options) -> bytes:
  """Returns the bytes of an image, or of pixels [H, W] or [H, W, C]; options are Pillow's of the format."""
  buffer = io.BytesIO()
  (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(buffer, kind, **options)
  return buffer.getvalue()


def plain(color: int | str | tuple[int, ...] = 0, size=(8, 8), kind: str = "PNG", **options) -> bytes:
  """Returns the bytes of an RGB image of one colour; a number is a shade of grey, size is width and height."""
  return encode(Image.new("RGB", size, (color,) * 3 if isinstance(color, int) else color), kind, **options)


def noise(size, seed: int = 0, kind: str = "PNG", **options) -> bytes:
  """Returns the bytes of an RGB image of random pixels."""
  width, height = size
  return encode(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8), kind, **options)


def files(
  folder: str | os.PathLike, *names: str, color: int | str | tuple[int, ...] = 0, size=(8, 8)
) -> pathlib.Path:
  """Writes images of one colour, each in the format of its name, into a folder that is made; returns the folder."""
  for name in names:
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (color,) * 3 if isinstance(color, int) else color).save(path)
  return pathlib.Path(folder)
