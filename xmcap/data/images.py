"""Pictures: bytes as released -> uint8 pixels, safely, and the pixels that the model sees."""

import contextlib
import dataclasses
import io
import math
import re
import warnings
from collections.abc import Iterator

import gin
import numpy as np
from PIL import Image, ImageFile, ImageOps

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.terminal import shown

MAX_PIXELS = 89_478_485
"""Pictures that claim more are refused by their header; Pillow's own bound for a decompression bomb."""

MAX_SCANS = 256
"""Passes of a JPEG over its pixels, each for a few bytes; progressive ones have some ten."""

NUM_DRAWS = 5
"""Uniform numbers that one augmentation takes."""

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")  # none that starts another program, as EPS does
_ORIENTATION_TAG = 0x0112
_JPEG, _SCAN, _END = b"\xff\xd8", b"\xff\xda", 0xD9
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # none of those within a scan

# Pillow warns where `decode` refuses with an error of its own.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def decode(data: bytes, key: str, at_least: int | None = None) -> np.ndarray:
  """Decodes one picture: uint8 [height, width, 3].

  Greyscale, palette, 16-bit and CMYK become RGB (16 bits keep their upper eight), transparent pixels are laid on white,
  the orientation in EXIF is applied, and of an animation the first frame is taken.

  Args:
    data: the bytes of a JPEG, PNG, WebP, GIF or BMP file.
    key: the picture's key, for messages.
    at_least: if given, a JPEG may be decoded at 1/2, 1/4 or 1/8 scale, as long as both sides stay at
      least this many pixels; several times faster for large photographs.

  Raises:
    XmcapError: the bytes are no picture, are cut short, or claim too many pixels; names the key.
  """
  with _opened(data, key) as image:
    if at_least is not None and image.format == "JPEG":
      image.draft(None, (at_least, at_least))
    image.load()
    return np.array(_to_upright_rgb(image))


@contextlib.contextmanager
def _opened(data: bytes, key: str, max_pixels: int = MAX_PIXELS) -> Iterator[ImageFile.ImageFile]:
  """The picture, its header read and its pixels not yet; turns any error within the `with` into an XmcapError."""
  wrong, mend = "", "replace or remove it"
  try:
    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
      width, height = image.size
      if width * height > max_pixels:
        wrong, mend = f"{width} x {height} pixels are more than the {max_pixels} allowed", "make it smaller"
      elif has_too_many_scans(data):
        wrong = f"a JPEG of more than {MAX_SCANS} scans"
      else:
        yield image
  except (XmcapError, MemoryError):  # want of memory says nothing about the picture
    raise
  except Image.UnidentifiedImageError:
    wrong = f"not a picture in a known format ({', '.join(_FORMATS)})" if data else "no bytes at all"
  except Image.DecompressionBombError:
    wrong, mend = f"more than the {max_pixels} pixels allowed", "make it smaller"
  except Exception as error:  # on damaged bytes Pillow's decoders raise errors of many types
    wrong = f"cannot be decoded ({one_line(error)})"
  if wrong:
    raise XmcapError(f"picture '{shown(key)}': {wrong}: {mend}")


def has_too_many_scans(data: bytes) -> bool:
  """Whether a file is a JPEG of more than `MAX_SCANS` scans. It would take a second for each hundred bytes."""
  # Data after the picture, such as a telephone's film, may look like any number of scans.
  if not data.startswith(_JPEG) or data.count(_SCAN) <= MAX_SCANS:
    return False
  scans, place = 0, 2
  while found := _MARKER.search(data, place):
    place = found.end()
    kind = data[place - 1]
    if kind == _END:
      break
    scans += kind == _SCAN[1]
    if scans > MAX_SCANS:
      return True
    if kind >= 0xC0:
      place += int.from_bytes(data[place : place + 2], "big")
  return False


def _orientation(image: Image.Image) -> int:
  try:
    return image.getexif().get(_ORIENTATION_TAG, 1)
  except Exception:  # damaged metadata must not cost the picture; it only leaves the orientation unknown
    return 1


def _to_upright_rgb(image: Image.Image) -> Image.Image:
  if _orientation(image) != 1:
    image = ImageOps.exif_transpose(image)
  if image.mode == "RGB" and "transparency" not in image.info:
    return image
  if image.mode.startswith("I"):  # Pillow clips 16 bits to 255 where their upper half is meant
    pixels = np.asarray(image).astype(np.int64)
    return Image.fromarray((pixels >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
  if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
  return image.convert("RGB")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Augment:
  """Random changes to a training picture; the defaults change nothing. Captions name left and right: mind the flip.

  Attributes:
    min_area: smallest share of the picture's area that a random crop keeps (1: no crop); uniform to 1.
    max_aspect: largest stretch of the crop's sides against each other; log-uniform in both directions.
    flip: mirrors half of the pictures.
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
    """The crop (left, top, right, bottom) in pixels, from four uniform draws."""
    area = self.min_area + (1 - self.min_area) * draws[0]
    stretch = math.sqrt(self.max_aspect ** (2 * draws[1] - 1))
    return _placed(width, height, math.sqrt(area) * stretch, math.sqrt(area) / stretch, draws)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class InceptionCrop(Augment):
  """The crop of Szegedy et al. (2015), "Going deeper with convolutions", section 6, that most ViTs were trained with.

  The crop's area is a share of the picture's, uniform from `min_area` to 1; the ratio of its own sides is log-uniform
  from 1 / `max_aspect` to `max_aspect`, whatever the picture's.

  Deviation: instead of drawing again until a crop fits, the ratio is drawn from those that fit; where none does (a long
  strip), the nearest is taken, and the largest such crop.
  """

  min_area: float = 0.08
  max_aspect: float = 4 / 3

  def box(self, width: int, height: int, draws: np.ndarray) -> tuple[float, float, float, float]:
    """See `Augment.box`."""
    area = self.min_area + (1 - self.min_area) * draws[0]
    picture, most = math.log(width / height), math.log(self.max_aspect)
    # The crop's width is the picture's at the upper bound, and its height is at the lower.
    lower = max(-most, picture + math.log(area))
    upper = min(most, picture - math.log(area))
    aspect = lower + (upper - lower) * draws[1] if lower <= upper else max(-most, min(most, picture))
    stretch = math.exp((aspect - picture) / 2)
    fits = min(1.0, 1 / (math.sqrt(area) * max(stretch, 1 / stretch)))
    return _placed(width, height, math.sqrt(area) * stretch * fits, math.sqrt(area) / stretch * fits, draws)


def _placed(
  width: int, height: int, across: float, down: float, draws: np.ndarray
) -> tuple[float, float, float, float]:
  """A crop of these shares of the sides, placed by the last two of four draws."""
  crop_width, crop_height = width * min(1.0, across), height * min(1.0, down)
  left, top = (width - crop_width) * draws[2], (height - crop_height) * draws[3]
  return left, top, min(left + crop_width, width), min(top + crop_height, height)


def fit(picture: Image.Image | np.ndarray, key: str, size: int) -> np.ndarray:
  """A picture that is decoded already, as the square that the model sees: uint8 [size, size, 3].

  Args:
    picture: Pillow's, of any mode; or uint8 [height, width, 3], or [height, width] for grey.
    key, size: as for `load`. XmcapError names the key of a picture of another kind or of no pixels.
  """
  if isinstance(picture, np.ndarray):
    if picture.dtype != np.uint8 or picture.shape[2:] not in ((), (3,)) or picture.ndim < 2:
      raise XmcapError(
        f"picture '{shown(key)}': an array {picture.dtype} {list(picture.shape)}: give uint8 [height, width, 3]"
      )
    if not picture.size:
      raise XmcapError(f"picture '{shown(key)}': no pixels: replace or remove it")
    picture = Image.fromarray(picture)
  try:
    upright = _to_upright_rgb(picture)
  except (
    Exception
  ) as error:  # Pillow decodes an opened file only here, and damaged bytes raise errors of many types
    raise XmcapError(f"picture '{shown(key)}': cannot be decoded ({one_line(error)}): replace it") from None
  return np.asarray(upright.resize((size, size), Image.Resampling.BILINEAR))


def load_exactly(data: bytes, key: str, size: int, crop: bool, even: bool = False) -> np.ndarray:
  """Decodes a picture as published towers see it: uint8 [size, size, 3], by Pillow's bicubic filter at full resolution.

  Args:
    data, key, size: as for `load`. XmcapError names the key of what is no picture.
    crop: resize the short side and take the middle (CLIP) instead of stretching both sides (SigLIP).
    even: a middle between two pixels is rounded to the even one, as in torchvision, not down, as in transformers.
  """
  picture = Image.fromarray(decode(data, key))
  if not crop:
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC))
  short = min(picture.size)
  width, height = (int(size * side / short) for side in picture.size)
  picture = picture.resize((width, height), Image.Resampling.BICUBIC)
  middle = round if even else math.floor
  left, top = middle((width - size) / 2), middle((height - size) / 2)
  return np.asarray(picture.crop((left, top, left + size, top + size)))


def check(data: bytes, key: str) -> None:
  """Reads the header of a picture; XmcapError if it is none, or too large."""
  with _opened(data, key):
    pass


def load(
  data: bytes, key: str, size: int, augment: Augment | None = None, draws: np.ndarray | None = None,
  max_pixels: int = MAX_PIXELS,
) -> np.ndarray:  # fmt: skip
  """Decodes a picture as the square that the model sees: uint8 [size, size, 3].

  Resizes with the bilinear filter, antialiased (the filter widens with the scale), and stretches the sides to the
  square, so that nothing at the edges of a picture is lost. A JPEG is decoded at the smallest scale at which its crop
  loses nothing.

  Args:
    data, key: as for `decode`.
    size: pixels of a side of the result.
    augment: random changes; None for none.
    draws: float [NUM_DRAWS], uniform in [0, 1); needed with `augment`. The result is a function of them.
    max_pixels: a picture that claims more is refused before anything is decoded.
  """
  if augment is not None and draws is None:
    raise UsageError("a random augmentation needs its random numbers: pass `draws`")
  with _opened(data, key, max_pixels) as image:
    turned = _orientation(image) >= 5  # the sides change places
    width, height = image.size[::-1] if turned else image.size
    box = (0, 0, width, height) if augment is None or draws is None else augment.box(width, height, draws)
    if image.format == "JPEG":
      reduced = int(min(box[2] - box[0], box[3] - box[1]) / size)
      reduced = next(scale for scale in (8, 4, 2, 1) if scale <= max(1, reduced))
      image.draft(None, (image.width // reduced, image.height // reduced))
      image.decodermaxblock = len(data)  # else Pillow copies it piece by piece
    image.load()
    image = _to_upright_rgb(image)
    across, down = image.width / width, image.height / height
    right, bottom = min(box[2] * across, image.width), min(box[3] * down, image.height)
    box = (box[0] * across, box[1] * down, right, bottom)
    pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    flipped = augment is not None and draws is not None and augment.flip and draws[4] < 0.5
    return pixels[:, ::-1] if flipped else pixels
