"""Checks an image of a release, and converts or scales it for storage if necessary."""

import io
import math
import re
import warnings
from typing import NamedTuple

from PIL import Image

from xmcap.data import image_formats, images
from xmcap.errors import XmcapError, one_line

MIN_SIDE = 8
"""Smallest side of an image in pixels; dead links often return a single pixel."""

DEFAULT_QUALITY = 90
"""JPEG quality of scaled images."""

_JPEG_SIDE = 65_500  # largest side of a JPEG, in pixels
_AS_PUBLISHED = ("JPEG", "MPO", "PNG")  # MPO: a JPEG followed by more images, as phones write it
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<svg")
# The way to read other formats: Pillow's name, and what it takes.
_OPTIONAL = {"AVIF": ("AVIF", "pip install -U pillow"), "HEIC": ("HEIF", "pip install pillow-heif")}

# Pillow warns about odd metadata of each image, but only the pixels matter.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


class ExaminedImage(NamedTuple):
  """The bytes to store, JPEG or PNG (b"" if unusable); kind ("" for none) and description of its problem."""

  data: bytes
  kind: str = ""
  what: str = ""


def examine(
  data: bytes, key: str, image_size: int | None = None, quality: int = DEFAULT_QUALITY
) -> ExaminedImage:
  """Checks an image, and returns the bytes to store.

  JPEG and PNG are stored as published, in any colour mode (images.decode reads them all). The first frame of GIF, WebP
  and BMP becomes a PNG, and so do AVIF and HEIC where Pillow reads them (image_formats.optional_formats). The image
  is decoded, at least at an eighth of its size, which finds truncated files.

  Args:
    data: the bytes of the file.
    key: key of the image, for messages.
    image_size: an image whose shorter side has more pixels is scaled to it, and stored as an upright RGB JPEG.
    quality: quality of that JPEG, 1 to 95.
  """
  if not data:
    return ExaminedImage(b"", "empty_file", "an empty file")
  formats = (*image_formats.FORMATS, *image_formats.optional_formats())
  try:
    with Image.open(io.BytesIO(image_formats.without_large_metadata(data)), formats=formats) as image:
      kind, (width, height) = image.format, image.size
      size = f"{width} x {height} pixels"
      scaled = image_size if image_size is not None and min(width, height) > image_size else None
      if width * height > images.MAX_PIXELS:
        return ExaminedImage(b"", "too_many_pixels", size)
      if min(width, height) < MIN_SIDE:
        return ExaminedImage(b"", "too_small", size)
      if scaled and max(width, height) * scaled > _JPEG_SIDE * min(width, height):
        return ExaminedImage(b"", "too_many_pixels", f"{size}: too long for a JPEG")
      if image_formats.has_too_many_scans(data):
        return ExaminedImage(b"", "too_many_pixels", f"{size} in over {image_formats.MAX_SCANS} scans")
      if not scaled and kind in _AS_PUBLISHED:
        image.draft(None, (1, 1))  # at an eighth of the size: reads the whole JPEG in a third of the time
        image.load()
        return ExaminedImage(data)
    pixels = images.decode(data, key, at_least=scaled, formats=formats)
  except Image.DecompressionBombError as error:  # Pillow's own limit comes first
    return ExaminedImage(b"", "too_many_pixels", re.sub(r".*\((\d+) pixels\).*", r"\1 pixels", str(error)))
  except Image.UnidentifiedImageError:
    if data.startswith(image_formats.STARTS):
      return ExaminedImage(b"", "truncated", f"the header is truncated or damaged ({len(data):,} bytes)")
    if data[:256].lstrip().lower().startswith(_PAGES):
      return ExaminedImage(b"", "not_a_picture", "a web page, not a picture")
    if other := image_formats.other_format(data):
      return _in_other_format(other, data)
    return ExaminedImage(b"", "not_a_picture", f"an unknown format (begins with {data[:8]!r})")
  except Exception as error:  # Pillow's decoders raise many types of errors on damaged bytes
    return ExaminedImage(b"", "truncated", _reason(error))
  stored = Image.fromarray(pixels)
  buffer = io.BytesIO()
  if scaled:
    scale = scaled / min(stored.size)
    width, height = (max(scaled, math.floor(side * scale + 0.5)) for side in stored.size)
    stored = stored.resize((width, height), Image.Resampling.BICUBIC)
    stored.save(buffer, "JPEG", quality=quality, optimize=True)
  else:
    stored.save(buffer, "PNG")
  if kind not in _AS_PUBLISHED:
    return ExaminedImage(buffer.getvalue(), "converted", f"{kind} stored as {'JPEG' if scaled else 'PNG'}")
  return ExaminedImage(buffer.getvalue())


def _in_other_format(name: str, data: bytes) -> ExaminedImage:
  pillow, install = _OPTIONAL.get(name, ("", ""))
  if pillow in image_formats.optional_formats():
    return ExaminedImage(
      b"", "truncated", f"the header of a picture in {name} is damaged ({len(data):,} bytes)"
    )
  way = f"{image_formats.CONVERT}, or {install}" if install else image_formats.CONVERT
  return ExaminedImage(b"", "other_format", f"a file in {name}: {way}")


def _reason(error: Exception) -> str:
  if isinstance(error, XmcapError):  # without the image's name, which images.decode adds
    return str(error).split("(")[-1].split(")")[0]
  return one_line(error)
