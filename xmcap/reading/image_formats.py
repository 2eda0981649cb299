"""The formats of images that every command reads, and how a file of another one is recognised."""

import contextlib
import functools
import importlib
import io
import re

import numpy as np
from PIL import Image, ImageFile, features

MAX_SCANS = 256
"""Limit for the scans of a JPEG, each of which can take a few bytes; progressive JPEGs have some ten."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""The formats that are always read; none starts another program, unlike EPS."""

STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")
"""The first bytes of files in these formats."""

_CONVERT = "convert it to JPEG or PNG"
# The ways to read other formats: Pillow's name, and what it takes.
_OPTIONAL = {"AVIF": ("AVIF", "pip install -U pillow"), "HEIC": ("HEIF", "pip install pillow-heif")}
FILM = "MP4 or another film"
_OTHER_FORMATS = {
  "TIFF": re.compile(rb"II[*+]\0|MM\0[*+]"),
  "JPEG XL": re.compile(rb"\xff\n|\0\0\0\x0cJXL "),
  "JPEG 2000": re.compile(rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  "),
  "Photoshop": re.compile(rb"8BPS"),
  "PDF": re.compile(rb"%PDF-"),
}
_BOX = re.compile(rb"\0\0[\s\S]{2}ftyp")  # the first box of AVIF and HEIC, and of a video
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_JPEG, _SCAN, _END = b"\xff\xd8", b"\xff\xda", 0xD9
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # excludes those within a scan


@functools.cache
def optional_formats() -> tuple[str, ...]:
  """Returns the formats that this machine's Pillow can read besides `FORMATS`: AVIF, and HEIF with pillow-heif.

  Both read the size from the header without decoding. If the coded image is larger than the header says, libheif
  refuses it, but libavif decodes it up to its own limit of 16384 x 16384 pixels.
  """
  formats = ["AVIF"] if features.check("avif") else []
  with contextlib.suppress(ImportError):
    importlib.import_module("pillow_heif").register_heif_opener(thumbnails=False)
    formats.append("HEIF")
  return tuple(formats)


def opened(data: bytes) -> ImageFile.ImageFile:
  """Opens an image in a format that is read, as far as its header; raises as `PIL.Image.open`."""
  return Image.open(io.BytesIO(data), formats=(*FORMATS, *optional_formats()))


def is_image(start: bytes) -> bool:
  """Whether a file with these first bytes, 32 at least, is an image, also in a format that is not read."""
  return start.startswith(STARTS) or other_format(start) not in ("", FILM)


def reason(data: bytes) -> str:
  """Returns why `opened` does not know the format of a file, and what to do about it."""
  name = other_format(data)
  pillow, install = _OPTIONAL.get(name, ("", ""))
  if not data:
    return "an empty file: replace or remove it"
  if not name:
    return f"not a picture in a known format ({', '.join(FORMATS)}): replace or remove it"
  if pillow in optional_formats():
    return f"the header of a picture in {name} is damaged ({len(data):,} bytes): replace or remove it"
  return f"a file in {name}, which is not read: {_CONVERT}" + (f", or {install}" if install else "")


def other_format(data: bytes) -> str:
  """Returns the name of a format that is not always read (AVIF, HEIC, TIFF, ...), by the first bytes; "" if unknown."""
  if _BOX.match(data):
    brands = data[8 : min(int.from_bytes(data[:4], "big"), 128)]
    if b"avif" in brands or b"avis" in brands:
      return "AVIF"
    return "HEIC" if any(brand in brands for brand in _HEIC) else FILM
  return next((name for name, start in _OTHER_FORMATS.items() if start.match(data)), "")


def has_too_many_scans(data: bytes) -> bool:
  """Whether a file is a JPEG of more than `MAX_SCANS` scans, which could take a second per hundred bytes to decode."""
  if not data.startswith(_JPEG):
    return False
  # Unlike `bytes.count`, numpy is fast at this, and does not hold the interpreter lock.
  codes = np.frombuffer(data, np.uint8)
  marks = np.flatnonzero(codes[:-1] == _SCAN[0])
  # Data after the image, such as the video of a phone, may look like any number of scans.
  if np.count_nonzero(codes[marks + 1] == _SCAN[1]) <= MAX_SCANS:
    return False
  scans, place = 0, 2
  while marker := _MARKER.search(data, place):
    place = marker.end()
    kind = data[place - 1]
    if kind == _END:
      break
    scans += kind == _SCAN[1]
    if scans > MAX_SCANS:
      return True
    if kind >= 0xC0:
      place += int.from_bytes(data[place : place + 2], "big")
  return False
