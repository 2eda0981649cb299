"""Images as bytes of a format, and as files."""

import io
import os
import pathlib
import struct
import zlib

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


def png(width: int, height: int, *chunks: tuple[bytes, bytes], depth: int = 8, color_type: int = 2) -> bytes:
  """Returns a PNG of a header and of chunks (kind, body), whatever they hold."""
  header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
  parts = [
    struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    for kind, body in ((b"IHDR", header), *chunks, (b"IEND", b""))
  ]
  return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def huge(width: int = 30_000, height: int = 30_000) -> bytes:
  """Returns a PNG whose header claims many pixels, with hardly any behind it."""
  return png(width, height, (b"IDAT", zlib.compress(bytes(100))))


def files(
  folder: str | os.PathLike, *names: str, color: int | str | tuple[int, ...] = 0, size=(8, 8)
) -> pathlib.Path:
  """Writes images of one colour, each in the format of its name, into a folder that is made; returns the folder."""
  for name in names:
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (color,) * 3 if isinstance(color, int) else color).save(path)
  return pathlib.Path(folder)
