"""Decodes images safely to uint8 pixels, and crops and resizes them for the model."""

import contextlib
import dataclasses
import io
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator

import gin
import numpy as np
from PIL import Image, ImageFile, ImageOps

from xmcap.data import image_formats
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.terminal import shown

MAX_PIXELS = 89_478_485
"""Larger images are rejected by their header; this is Pillow's own limit for a decompression bomb."""

SIDES = 8, 65_535
"""Shortest and longest side. A strip of one pixel takes many times the memory of a square with as many pixels."""

NUM_DRAWS = 5
"""Number of uniform draws for one augmentation."""

_ORIENTATION_TAG = 0x0112
_BAND = 1 << 20  # pixels that are converted at a time

# Pillow warns about images that `decode` rejects with its own error.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class _Budget:
  """A number of pixels that all threads together may have decoded at a time; a single image may always."""

  def __init__(self, most: int):
    self._most, self._used = most, 0
    self._changed = threading.Condition()

  @contextlib.contextmanager
  def reserved(self, pixels: int) -> Iterator[None]:
    """Waits until there is room for an image, and takes it for the block."""
    with self._changed:
      self._changed.wait_for(lambda: not self._used or self._used + pixels <= self._most)
      self._used += pixels
    try:
      yield
    finally:
      with self._changed:
        self._used -= pixels
        self._changed.notify_all()


_BUDGET = _Budget(2 * MAX_PIXELS)


def _renew_budget() -> None:
  global _BUDGET
  _BUDGET = _Budget(2 * MAX_PIXELS)


# The threads that held pixels, or its lock, are not in a forked process.
os.register_at_fork(after_in_child=_renew_budget)


def decode(
  data: bytes, key: str, at_least: int | None = None, formats: tuple[str, ...] = image_formats.FORMATS
) -> np.ndarray:
  """Decodes an image to uint8 [height, width, 3].

  Greyscale, palette, 16-bit and CMYK become RGB (16 bits keep the upper eight), transparency is composited on white,
  the EXIF orientation is applied, and animations give their first frame.

  Args:
    data: the bytes of a file in one of the `formats`.
    key: the image's key, for messages.
    at_least: if given, a JPEG may be decoded at 1/2, 1/4 or 1/8 scale as long as both sides have at least this many
      pixels, which is several times faster for large photographs.
    formats: Pillow's names of the formats.

  Raises:
    XmcapError: the bytes are not an image, are truncated, or claim too many pixels; the message names the key.
  """
  with _opened(data, key, formats=formats) as image:
    if at_least is not None and image.format == "JPEG":
      image.draft(None, (at_least, at_least))
    image.load()
    return np.array(_to_upright_rgb(image))


@contextlib.contextmanager
def _opened(
  data: bytes, key: str, max_pixels: int = MAX_PIXELS, formats: tuple[str, ...] = image_formats.FORMATS
) -> Iterator[ImageFile.ImageFile]:
  """Opens an image, checks its header, and turns any error within the block into an XmcapError."""
  wrong, mend = "", "replace or remove it"
  try:
    with Image.open(io.BytesIO(image_formats.without_large_metadata(data)), formats=formats) as image:
      width, height = image.size
      if width * height > max_pixels:
        wrong, mend = f"{width} x {height} pixels are more than the {max_pixels} allowed", "make it smaller"
      elif not SIDES[0] <= min(width, height) <= max(width, height) <= SIDES[1]:
        wrong = f"{width} x {height} pixels, but a side has {SIDES[0]} to {SIDES[1]:,}"
      elif image_formats.has_too_many_scans(data):
        wrong = f"a JPEG of more than {image_formats.MAX_SCANS} scans"
      else:
        _scale_transparent_colour(image)
        with _BUDGET.reserved(width * height):
          yield image
  except (XmcapError, MemoryError):  # running out of memory is not the image's fault
    raise
  except Image.UnidentifiedImageError:
    wrong = (
      f"not a picture in a known format ({', '.join(image_formats.FORMATS)})" if data else "an empty file"
    )
    if other := image_formats.other_format(data):
      wrong, mend = f"a file in {other}, which is not read", image_formats.CONVERT
  except Image.DecompressionBombError:
    wrong, mend = f"more than the {max_pixels} pixels allowed", "make it smaller"
  except Exception as error:  # Pillow's decoders raise many types of errors on damaged bytes
    wrong = f"cannot be decoded ({one_line(error)})"
  if wrong:
    raise XmcapError(f"picture '{shown(key)}': {wrong}: {mend}")


def _orientation(image: Image.Image) -> int:
  try:
    return image.getexif().get(_ORIENTATION_TAG, 1)
  except Exception:  # with damaged metadata only the orientation is lost, not the image
    return 1


def _scale_transparent_colour(image: Image.Image) -> None:
  """Scales the transparent colour of an unread PNG as Pillow scales its pixels: 2 and 4 bits to 8, RGB's 16 to 8.

  The colour is in the file's own bits (PNG, third edition, section 11.3.1.1), and Pillow compares it with its 8. Of 16
  bits in RGB it has only the upper eight left, so colours that agree in those are transparent too.
  """
  tiles = getattr(image, "tile", ())
  raw, colour = tiles[0][3] if tiles and image.format == "PNG" else "", image.info.get("transparency")
  if isinstance(colour, int) and raw in ("L;2", "L;4"):
    image.info["transparency"] = colour * (85 if raw == "L;2" else 17)
  elif isinstance(colour, tuple) and raw == "RGB;16B":
    image.info["transparency"] = tuple(value >> 8 for value in colour)


def _to_upright_rgb(image: Image.Image) -> Image.Image:
  if _orientation(image) != 1:
    image = ImageOps.exif_transpose(image)
  if image.mode == "RGB" and "transparency" not in image.info:
    return image
  if image.mode.startswith("I"):
    return _in_bands(image, _upper_bits)
  if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
    return _in_bands(image, _on_white)
  return image.convert("RGB")


def _in_bands(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
  """Converts an image to RGB some rows at a time, so that little more than the two images is in memory."""
  whole = Image.new("RGB", image.size)
  rows = max(1, _BAND // image.width)
  for top in range(0, image.height, rows):
    band = image.crop((0, top, image.width, min(top + rows, image.height)))
    whole.paste(convert(band), (0, top))
  return whole


def _upper_bits(image: Image.Image) -> Image.Image:
  """Keeps the upper eight of 16 bits, which Pillow would clip to 255."""
  pixels = np.asarray(image)
  upper = (pixels >> 8).clip(0, 255).astype(np.uint8)
  if isinstance(colour := image.info.get("transparency"), int):
    upper[pixels == colour] = 255
  return Image.fromarray(upper).convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
  image = image.convert("RGBA")
  return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Augment:
  """Random augmentation of a training image; the defaults change nothing. Flips can contradict captions (left).

  Attributes:
    min_area: smallest share of the image's area that a random crop keeps; uniform from this to 1 (1: no crop).
    max_aspect: largest change of the crop's aspect ratio, in both directions; log-uniform.
    flip: whether to mirror half of the images.
  """

  min_area: float = 1.0
  max_aspect: float = 1.0
  flip: bool = False

  def __post_init__(self):
    if not 0 < self.min_area <= 1:
      raise UsageError(f"Augment.min_area is {self.min_area}: give a share in (0, 1]")
    if not self.max_aspect >= 1:
      raise UsageError(f"Augment.max_aspect is {self.max_aspect}: give a ratio of at least 1")

  def box(self, width: int, height: int, draws: np.ndarray) -> tuple[float, float, float, float]:
    """Returns the crop (left, top, right, bottom) in pixels, from four uniform draws."""
    area = self.min_area + (1 - self.min_area) * draws[0]
    stretch = math.sqrt(self.max_aspect ** (2 * draws[1] - 1))
    return _placed(width, height, math.sqrt(area) * stretch, math.sqrt(area) / stretch, draws)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class InceptionCrop(Augment):
  """The crop of Szegedy et al. (2015), "Going deeper with convolutions", section 6, with which most ViTs were trained.

  The crop's share of the picture's area is uniform from `min_area` to 1. Its aspect ratio is log-uniform from
  1 / `max_aspect` to `max_aspect`, whatever the image's.

  Deviation: instead of redrawing until a crop fits, the ratio is drawn from those that fit. If none fits (a long
  strip), the nearest ratio is used with the largest possible crop.
  """

  min_area: float = 0.08
  max_aspect: float = 4 / 3

  def box(self, width: int, height: int, draws: np.ndarray) -> tuple[float, float, float, float]:
    area = self.min_area + (1 - self.min_area) * draws[0]
    image, most = math.log(width / height), math.log(self.max_aspect)
    # At the upper bound the crop has the image's width, at the lower bound its height.
    lower = max(-most, image + math.log(area))
    upper = min(most, image - math.log(area))
    aspect = lower + (upper - lower) * draws[1] if lower <= upper else max(-most, min(most, image))
    stretch = math.exp((aspect - image) / 2)
    fits = min(1.0, 1 / (math.sqrt(area) * max(stretch, 1 / stretch)))
    return _placed(width, height, math.sqrt(area) * stretch * fits, math.sqrt(area) / stretch * fits, draws)


def _placed(
  width: int, height: int, across: float, down: float, draws: np.ndarray
) -> tuple[float, float, float, float]:
  """Returns a crop with these shares of the sides, placed by the last two of four draws."""
  crop_width, crop_height = width * min(1.0, across), height * min(1.0, down)
  left, top = (width - crop_width) * draws[2], (height - crop_height) * draws[3]
  return left, top, min(left + crop_width, width), min(top + crop_height, height)


def fit(image: Image.Image | np.ndarray, key: str, size: int) -> np.ndarray:
  """Resizes a decoded image to the square that the model sees: uint8 [size, size, 3].

  Args:
    image: a Pillow image of any mode; or uint8 [height, width, 3], or [height, width] for grey.
    key, size: as for `load`.

  Raises:
    XmcapError: the image is of another kind, or is empty; the message names the key.
  """
  if isinstance(image, np.ndarray):
    if image.dtype != np.uint8 or image.shape[2:] not in ((), (3,)) or image.ndim < 2:
      raise XmcapError(
        f"picture '{shown(key)}': an array {image.dtype} {list(image.shape)}: give uint8 [height, width, 3]"
      )
    if not image.size:
      raise XmcapError(f"picture '{shown(key)}': no pixels: replace or remove it")
    image = Image.fromarray(image)
  _scale_transparent_colour(image)
  try:  # Pillow decodes an opened file only here
    upright = _to_upright_rgb(image)
  except Exception as error:  # damaged bytes raise many types of errors
    raise XmcapError(f"picture '{shown(key)}': cannot be decoded ({one_line(error)}): replace it") from None
  return np.asarray(upright.resize((size, size), Image.Resampling.BILINEAR))


def load_exactly(
  data: bytes, key: str, size: int, crop: bool, even: bool = False, bicubic: bool = True
) -> np.ndarray:
  """Decodes an image as for published towers: uint8 [size, size, 3], by Pillow's filter at full resolution.

  Args:
    data, key, size: as for `load`.
    crop: whether to resize the short side and crop the centre (CLIP), instead of stretching both sides (SigLIP).
    even: whether to round the centre crop to the even pixel, as torchvision, instead of down, as transformers.
    bicubic: the filter, instead of the bilinear one.

  Raises:
    XmcapError: as `decode`.
  """
  image = Image.fromarray(decode(data, key))
  resampling = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
  if not crop:
    return np.asarray(image.resize((size, size), resampling))
  short = min(image.size)
  width, height = (int(size * side / short) for side in image.size)
  image = image.resize((width, height), resampling)
  middle = round if even else math.floor
  left, top = middle((width - size) / 2), middle((height - size) / 2)
  return np.asarray(image.crop((left, top, left + size, top + size)))


def load_pixels(data: bytes, key: str, size: int, resize: str) -> np.ndarray:
  """An image as a tower was trained with it, uint8 [size, size, 3]; `resize` as in `DualConfig`, or UsageError."""
  if resize == "bilinear":
    return load(data, key, size)
  if not resize.startswith(("bicubic", "bilinear_")):
    raise UsageError(f"resize is '{resize}': give one of DualConfig's")
  bicubic = resize.startswith("bicubic")
  return load_exactly(data, key, size, "_crop" in resize, resize.endswith("_even"), bicubic)


def ten_crops(data: bytes, key: str, size: int, bicubic: bool = False) -> np.ndarray:
  """Decodes an image to ten crops, uint8 [10, size, size, 3]: corners, centre, and those of its mirror image.

  First the short side is resized to size * 256 / 224, rounded, and the long side in proportion, rounded down; by the
  antialiased bilinear filter, or by the bicubic one. The crops are those of torchvision's `TenCrop`, in its order
  (Krizhevsky et al., 2012, section 4.1, took ten crops of 224 from an image of 256).

  Raises:
    XmcapError: as `decode`.
  """
  image = Image.fromarray(decode(data, key))
  short, side = min(image.size), round(size * 256 / 224)
  width, height = (side * length // short for length in image.size)
  resampling = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
  pixels = np.asarray(image.resize((width, height), resampling))
  right, bottom = width - size, height - size
  places = ((0, 0), (0, right), (bottom, 0), (bottom, right), (round(bottom / 2), round(right / 2)))
  # The mirrored image is cropped, not the crops mirrored: with an odd margin their centres differ by a pixel.
  both = (pixels, pixels[:, ::-1])
  return np.stack([half[top : top + size, left : left + size] for half in both for top, left in places])


def load(
  data: bytes, key: str, size: int, augment: Augment | None = None, draws: np.ndarray | None = None,
  max_pixels: int = MAX_PIXELS,
) -> np.ndarray:  # fmt: skip
  """Decodes and resizes an image to the square that the model sees: uint8 [size, size, 3].

  It uses the antialiased bilinear filter, and stretches the sides to a square, so that nothing at the edges is lost. A
  JPEG is decoded at the smallest scale that is still at least as large as the result.

  Args:
    data, key: as for `decode`.
    size: side of the result in pixels.
    augment: random augmentation; None for none.
    draws: float [NUM_DRAWS], uniform in [0, 1), required with `augment`; they determine the augmentation.
    max_pixels: an image that claims more is rejected before it is decoded.
  """
  if augment is not None and draws is None:
    raise UsageError("a random augmentation needs its random numbers: pass `draws`")
  with _opened(data, key, max_pixels) as image:
    turned = _orientation(image) >= 5  # width and height are swapped
    width, height = image.size[::-1] if turned else image.size
    left, top, right, bottom, mirrored = 0.0, 0.0, width, height, False
    if augment is not None and draws is not None:
      left, top, right, bottom = augment.box(width, height, draws)
      mirrored = augment.flip and draws[4] < 0.5
    if image.format == "JPEG":
      larger = max(1, int(min(right - left, bottom - top) / size))
      reduced = next(scale for scale in (8, 4, 2, 1) if scale <= larger)
      image.draft(None, (image.width // reduced, image.height // reduced))
      image.decodermaxblock = len(data)  # otherwise Pillow copies it piece by piece
    image.load()
    image = _to_upright_rgb(image)
    across, down = image.width / width, image.height / height
    right, bottom = min(right * across, image.width), min(bottom * down, image.height)
    box = (left * across, top * down, right, bottom)
    pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return pixels[:, ::-1] if mirrored else pixels
