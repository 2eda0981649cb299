"""What is wrong with a picture of a release, and the bytes of it that a record may hold."""

import io
import math
import re
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from PIL import Image

from xmcap.data import images
from xmcap.errors import XmcapError

MIN_SIDE = 8
"""Pictures with a shorter side, in pixels, are left out: dead links often answer with a single pixel."""

DEFAULT_QUALITY = 90
"""Of the JPEG that a scaled picture is stored as."""

_JPEG_SIDE = 65_500  # pixels that a JPEG may have
_AS_PUBLISHED = ("JPEG", "MPO", "PNG")  # MPO: JPEG with more pictures behind it, as telephones write
_CONVERTED = ("GIF", "WEBP", "BMP")
_FORMATS = ("JPEG", "PNG", *_CONVERTED)  # those of images.decode
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<svg")
_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")

# Pillow warns of odd metadata, once a picture; it is the pixels that count here.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


class Picture(NamedTuple):
  """The bytes to store, JPEG or PNG (b"" if it cannot be used), and kind (of `problems.KINDS`) -> what is wrong."""

  data: bytes
  kinds: Mapping[str, str] = {}


def examine(data: bytes, key: str, image_size: int | None = None, quality: int = DEFAULT_QUALITY) -> Picture:
  """Says what is wrong with a picture, and gives the bytes to store.

  JPEG and PNG stay as published, whatever their colours (images.decode reads them all). Of GIF, WebP and BMP the
  first frame becomes a PNG. The picture is decoded, if only at an eighth of its size, so that one that breaks off is
  found; one with too many pixels is refused by its header.

  Args:
    image_size: if given, a picture whose shorter side is longer becomes a JPEG with a shorter side of this many
      pixels, upright and in RGB; others stay as they are.
    quality: of that JPEG, 1 to 95.
  """
  if not data:
    return _refused("empty_file", "no bytes at all")
  try:
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
      kind, (width, height) = image.format, image.size
      size = f"{width} x {height} pixels"
      scaled = image_size if image_size is not None and min(width, height) > image_size else None
      if width * height > images.MAX_PIXELS:
        return _refused("too_many_pixels", size)
      if min(width, height) < MIN_SIDE:
        return _refused("too_small", size)
      if scaled and max(width, height) * scaled > _JPEG_SIDE * min(width, height):
        return _refused("too_many_pixels", f"{size}: too long for a JPEG")
      if images.has_too_many_scans(data):
        return _refused("too_many_pixels", f"{size} in over {images.MAX_SCANS} scans")
      if not scaled and kind in _AS_PUBLISHED:
        image.draft(None, (1, 1))  # a JPEG at an eighth: the whole file is read, at a third of the time
        image.load()
        return Picture(data)
    pixels = images.decode(data, key, at_least=scaled)
  except Image.DecompressionBombError as error:  # what Pillow refuses before we can
    return _refused("too_many_pixels", re.sub(r".*\((\d+) pixels\).*", r"\1 pixels", str(error)))
  except Image.UnidentifiedImageError:
    if data.startswith(_STARTS):
      return _refused("truncated", f"the header is cut off or damaged ({len(data):,} bytes)")
    if data[:256].lstrip().lower().startswith(_PAGES):
      return _refused("not_a_picture", "a page, not a picture")
    return _refused("not_a_picture", f"in no known format (begins with {data[:8]!r})")
  except Exception as error:  # on damaged bytes Pillow's decoders raise errors of many types
    return _refused("truncated", _reason(error))
  kinds = {"converted": f"{kind} stored as {'JPEG' if scaled else 'PNG'}"} if kind in _CONVERTED else {}
  stored = Image.fromarray(pixels)
  buffer = io.BytesIO()
  if scaled:
    scale = scaled / min(stored.size)
    width, height = (max(scaled, math.floor(side * scale + 0.5)) for side in stored.size)
    stored = stored.resize((width, height), Image.Resampling.BICUBIC)
    stored.save(buffer, "JPEG", quality=quality, optimize=True)
  else:
    stored.save(buffer, "PNG")
  return Picture(buffer.getvalue(), kinds)


def _refused(kind: str, what: str) -> Picture:
  return Picture(b"", {kind: what})


def _reason(error: Exception) -> str:
  if isinstance(error, XmcapError):  # images.decode says which picture, too
    return str(error).split("(")[-1].split(")")[0]
  return " ".join(str(error).split()) or type(error).__name__
