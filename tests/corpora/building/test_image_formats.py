"""Image formats besides JPEG and PNG: every door reads AVIF and HEIC, and refuses others by name."""

import struct

import numpy as np
import pillow_heif
import pytest

from tests.make.images import plain
from xmcap.corpora.building import image_check
from xmcap.data import images
from xmcap.pages.report import pictures
from xmcap.reading import image_formats


def encoded(kind, side=64, **options):
  pillow_heif.register_heif_opener()
  return plain((200, 40, 40), (side, side // 2), kind, **options)


def claiming(data, width, height):
  """The file with another size in its first `ispe` box, where AVIF and HEIC say it."""
  place = data.index(b"ispe") + 8
  return data[:place] + struct.pack(">II", width, height) + data[place + 8 :]


DOORS = {
  "stream, caption, features, embed, serve": lambda data: images.load(data, "k", 8),
  "image tower of a dual model": lambda data: images.load_pixels(data, "k", 8, "bicubic"),
  "features of ten crops": lambda data: images.ten_crops(data, "k", 8)[0],
  "report, pages of raters": lambda data: images.decode(pictures.thumbnail(lambda: data, 64) or b"", "k"),
  "build": lambda data: images.decode(image_check.examine(data, "k").data, "k"),
}


@pytest.mark.parametrize("kind", [*image_formats.FORMATS, *image_formats.optional_formats()])
@pytest.mark.parametrize("door", DOORS)
def test_every_format_goes_through_every_door(kind, door):
  pixels = DOORS[door](encoded(kind))
  assert pixels.ndim == 3 and np.abs(pixels.astype(int) - (200, 40, 40)).max() < 9


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_avif_and_heic_are_stored_as_png(kind):
  picture = image_check.examine(encoded(kind), "k")
  assert (picture.kind, picture.what) == ("converted", f"{kind} stored as PNG")
  pixels = images.decode(picture.data, "k")
  assert pixels.shape == (32, 64, 3) and np.abs(pixels.astype(int) - (200, 40, 40)).max() < 8
  scaled = image_check.examine(encoded(kind), "k", image_size=16)
  assert scaled.what == f"{kind} stored as JPEG" and images.decode(scaled.data, "k").shape == (16, 32, 3)


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_avif_and_heic_pixel_limit_by_header(kind):
  # libheif already refuses a size that its coded picture does not have.
  wanted = ("too_many_pixels",) if kind == "AVIF" else ("too_many_pixels", "truncated")
  assert image_check.examine(claiming(encoded(kind), 20_000, 10_000), "k").kind in wanted
  assert image_check.examine(encoded(kind)[:-40], "k").kind == "truncated"


def test_heic_with_a_too_small_header_size_is_not_decoded():
  assert image_check.examine(claiming(encoded("HEIF", 512), 16, 16), "k").kind == "truncated"


@pytest.mark.parametrize(
  ("kind", "what"),
  [
    ("AVIF", "a file in AVIF, which is not read: convert it to JPEG or PNG, or pip install -U pillow"),
    ("HEIF", "a file in HEIC, which is not read: convert it to JPEG or PNG, or pip install pillow-heif"),
    ("TIFF", "a file in TIFF, which is not read: convert it to JPEG or PNG"),
    ("PDF", "a file in PDF, which is not read: convert it to JPEG or PNG"),
  ],
)
def test_unsupported_image_format_is_named(kind, what, monkeypatch):
  monkeypatch.setattr(image_formats, "optional_formats", lambda: ())
  assert image_check.examine(encoded(kind), "k") == (b"", "other_format", what)


def test_mp4_is_not_an_image():
  data = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(64)
  assert image_check.examine(data, "k").what.startswith("a file in MP4 or another film")
