"""Pictures of generated releases, and everything that can be wrong with a picture."""

import collections
import dataclasses
import functools
import struct
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from tests.make import images

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
SHAPES = ("circle", "square", "triangle", "bar")


def draw(index: int) -> Image.Image:
  """Picture number `index`: a shape in a colour on a gradient; no two of the first thousands are the same."""
  rng = np.random.default_rng([7, index])
  width, height = (int(side) for side in rng.integers(40, 73, 2))
  corners = rng.integers(96, 192, (2, 2, 3)).astype(np.uint8)
  picture = Image.fromarray(corners).resize((width, height), Image.Resampling.BILINEAR)
  pen = ImageDraw.Draw(picture)
  colour, shape = look(index)
  size = int(min(width, height) * rng.uniform(0.5, 0.8))
  left, top = (int(rng.integers(0, side - size)) for side in (width, height))
  box = (left, top, left + size, top + size)
  if shape == "circle":
    pen.ellipse(box, colour)
  elif shape == "square":
    pen.rectangle(box, colour)
  elif shape == "triangle":
    pen.polygon([(left, top + size), (left + size // 2, top), (left + size, top + size)], colour)
  else:
    pen.rectangle((left, top + size // 3, left + size, top + 2 * size // 3), colour)
  return picture


def look(index: int) -> tuple[str, str]:
  """The colour and the shape that picture `index` shows."""
  return COLOURS[index % len(COLOURS)], SHAPES[index // len(COLOURS) % len(SHAPES)]


def encode(picture: Image.Image, kind: str = "JPEG", **options) -> bytes:
  """The bytes of a file; JPEG at quality 90 unless told otherwise."""
  return images.encode(picture, kind, **({"quality": 90} if kind == "JPEG" else {}) | options)


@functools.lru_cache(4096)
def photo(index: int) -> bytes:
  """Picture number `index` as JPEG."""
  return encode(draw(index))


def huge_jpeg(index: int, width: int = 30_000, height: int = 30_000) -> bytes:
  """A photograph whose frame header claims more pixels than it has."""
  data = bytearray(photo(index))
  place = data.index(b"\xff\xc0") + 5  # SOF0: length (2), precision (1), height (2), width (2)
  data[place : place + 4] = struct.pack(">HH", height, width)
  return bytes(data)


def rotated(index: int) -> bytes:
  """A photograph whose EXIF says: turn by 90 degrees."""
  exif = Image.Exif()
  exif[0x0112] = 6
  return encode(draw(index), exif=exif)


def animated(index: int, format: str) -> bytes:
  """Two frames, of which the first is picture `index` (in GIF's colours)."""
  return encode(draw(index), format, save_all=True, append_images=[draw(index + 1).resize(draw(index).size)])


def sixteen_bits(index: int) -> bytes:
  """A greyscale PNG of 16 bits a pixel."""
  grey = np.asarray(draw(index).convert("L")).astype(np.uint16)
  return encode(Image.fromarray(grey * 257), "PNG")


PAGE = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>Gone.</body></html>\n"

FAULTY: dict[str, tuple[Callable[[int], bytes | None], str]] = {
  "missing": (lambda index: None, "missing"),
  "empty_file": (lambda index: b"", "empty_file"),
  "html": (lambda index: PAGE, "not_a_picture"),
  "truncated": (lambda index: photo(index)[: len(photo(index)) // 2], "truncated"),
  "truncated_png": (lambda index: encode(draw(index), "PNG")[:-200], "truncated"),
  "huge_header": (lambda index: images.huge(), "too_many_pixels"),
  "huge_jpeg": (huge_jpeg, "too_many_pixels"),
  "one_pixel": (lambda index: encode(draw(index).resize((1, 1))), "too_small"),
}
"""Fault -> picture `index` with it (None: no file), and the kind of problem; the picture is left out."""

CONVERTED: dict[str, Callable[[int], bytes]] = {
  "gif": lambda index: animated(index, "GIF"),
  "webp": lambda index: animated(index, "WEBP"),
  "bmp": lambda index: encode(draw(index), "BMP"),
}
"""Fault -> picture `index` in a format whose first frame is stored as PNG (`converted`)."""

UNUSUAL: dict[str, Callable[[int], bytes]] = {
  "cmyk": lambda index: encode(draw(index).convert("CMYK")),
  "png16": sixteen_bits,
  "palette": lambda index: encode(draw(index).convert("P"), "PNG"),
  "grey": lambda index: encode(draw(index).convert("L")),
  "png": lambda index: encode(draw(index), "PNG"),
  "exif": rotated,
}
"""Fault -> picture `index` in a way that is unusual but right: kept as it is, and no problem."""

PICTURE_FAULTS = (*FAULTY, *CONVERTED, *UNUSUAL, "no_captions")
"""Each spoils one picture of its own."""
DEAD_URLS = ("dead_url", "dead_url_noted")
"""CC3M only: pictures that were not fetched; img2dataset left nothing, or a .json with the status."""


@dataclasses.dataclass
class Pictures:
  """The pictures of a split: published bytes (None: no file), which of them a builder keeps, and the problems."""

  published: list[bytes | None]
  kept: list[bool]
  converted: list[bool]
  without_captions: list[int]
  unfetched: dict[int, str]
  problems: collections.Counter


def pictures(indices: Sequence[int], faults: Sequence[str]) -> Pictures:
  """Pictures by their numbers; each fault takes one picture, from the second on."""
  published: list[bytes | None] = [photo(index) for index in indices]
  made = Pictures(published, [True] * len(indices), [False] * len(indices), [], {}, collections.Counter())
  wanted = [fault for fault in faults if fault in (*PICTURE_FAULTS, *DEAD_URLS)]
  if wanted and len(wanted) + 3 > len(indices):
    raise ValueError(f"{len(wanted)} faults in pictures need at least {len(wanted) + 3} pictures")
  for place, fault in enumerate(wanted, 1):
    kind = ""
    if fault in FAULTY:
      spoil, kind = FAULTY[fault]
      published[place], made.kept[place] = spoil(indices[place]), False
    elif fault in CONVERTED:
      published[place], made.converted[place] = CONVERTED[fault](indices[place]), True
      kind = "converted"
    elif fault in UNUSUAL:
      published[place] = UNUSUAL[fault](indices[place])
    elif fault in DEAD_URLS:
      published[place], made.kept[place], made.unfetched[place] = None, False, fault
      kind = "missing"
    else:
      made.without_captions.append(place)
      made.kept[place] = False
      kind = "no_captions"
    if kind:
      made.problems[kind] += 1
  return made
