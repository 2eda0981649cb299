"""Pictures for the gallery of a report, as `data:` URIs small enough for one file."""

import base64
import io
import pathlib
import re

from PIL import Image, ImageOps

_SAFE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_SUFFIXES = (".jpg", ".jpeg", ".png")
_MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png"}
_MAX_BYTES_AS_RELEASED = 24_000
_MAX_PIXELS = 50_000_000
_MAX_SIDE = 400


def find(images_dir: pathlib.Path, key: str) -> pathlib.Path | None:
  """Returns the file of an image key in a folder; None if there is none, or the key is no plain name."""
  if _SAFE_KEY.fullmatch(key):
    for suffix in _SUFFIXES:
      path = images_dir / f"{key}{suffix}"
      if path.is_file():
        return path
  return None


def data_uri(path: pathlib.Path) -> str | None:
  """Returns a picture as a URI that holds it, scaled down if large; None if it cannot be read as a picture.

  Its size is read from the header and checked before any pixel is decoded.
  """
  try:
    with Image.open(path, formats=list(_MEDIA_TYPES)) as image:
      if image.width * image.height > _MAX_PIXELS:
        return None
      image.load()
      content, media_type = path.read_bytes(), _MEDIA_TYPES[image.format]
      if len(content) > _MAX_BYTES_AS_RELEASED:
        small = ImageOps.exif_transpose(image)
        small.thumbnail((_MAX_SIDE, _MAX_SIDE))
        buffer = io.BytesIO()
        small.convert("RGB").save(buffer, "JPEG", quality=82)
        content, media_type = buffer.getvalue(), "image/jpeg"
  except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError):
    return None
  return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"
