"""The formats of images that every command reads, and how a file of another one is recognised."""

import contextlib
import functools
import importlib
import io
import re
import zlib

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
_PNG = b"\x89PNG\r\n\x1a\n"
_METADATA = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")  # chunks of texts and of a colour profile
_MAX_METADATA = 1 << 20
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
  """Opens an image in a format that is read, as far as its header; raises as `PIL.Image.open`.

  Large texts and colour profiles of a PNG, which Pillow refuses, are left out.
  """
  return Image.open(io.BytesIO(without_large_metadata(data)), formats=(*FORMATS, *optional_formats()))


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
  # Data after the image, such as the video of a phone, may look like any number of scans.
  if np.count_nonzero((codes[:-1] == _SCAN[0]) & (codes[1:] == _SCAN[1])) <= MAX_SCANS:
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


def without_large_metadata(data: bytes) -> bytes:
  """Returns a PNG without texts and colour profile beyond a MiB together, as Pillow refuses it with them.

  Image programs write their settings, and cameras large profiles; no pixel depends on them here. They are counted as
  they are when decompressed, of which no more than the limit is done. Other files are returned as they are.
  """
  if not data.startswith(_PNG) or not any(kind in data for kind in _METADATA):
    return data
  kept, place, size = [_PNG], len(_PNG), 0
  while place < len(data):
    end = place + 12 + int.from_bytes(data[place : place + 4], "big")  # length, kind, content, CRC
    kind, chunk = data[place + 4 : place + 8], data[place:end]
    length = _unpacked_length(kind, chunk[8:-4], _MAX_METADATA - size) if kind in _METADATA else 0
    if size + length <= _MAX_METADATA:
      kept.append(chunk)
      size += length
    place = end
  return b"".join(kept)


def _unpacked_length(kind: bytes, content: bytes, most: int) -> int:
  """Returns the bytes of a text or profile when decompressed; some more than `most` if they are more."""
  parts = content.split(b"\0", 1)[-1]
  if kind == b"iTXt":  # a flag, the method, a language and a keyword
    packed = parts[2:].split(b"\0", 2)[-1] if parts[:1] == b"\1" else b""
  else:
    packed = b"" if kind == b"tEXt" else parts[1:]
  if not packed or len(content) > most:
    return len(content)
  with contextlib.suppress(zlib.error):
    return len(zlib.decompressobj().decompress(packed, max(most, 0) + 1))
  return len(content)
