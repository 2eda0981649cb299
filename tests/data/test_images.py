import io
import time
import zlib
from concurrent import futures

import gin
import numpy as np
import pytest
from PIL import Image, ImageFile

from tests.make.images import encode, huge, png
from xmcap.data import images
from xmcap.errors import UsageError, XmcapError
from xmcap.reading import image_formats

_SIDES = images.SIDES


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
  """Allows images of a few pixels, in which each pixel can be followed."""
  monkeypatch.setattr(images, "SIDES", (1, _SIDES[1]))


@pytest.fixture
def real_sides(tiny, monkeypatch):
  """The sides that images may have outside of this file."""
  monkeypatch.setattr(images, "SIDES", _SIDES)


def photo(height: int = 48, width: int = 64) -> np.ndarray:
  """A smooth picture, which JPEG keeps almost as it is."""
  y, x = np.mgrid[0:height, 0:width]
  return np.stack([x * 255 / width, y * 255 / height, 255 - x * 255 / width], -1).astype(np.uint8)


def square(pixels: np.ndarray, size: int, *augmentation) -> np.ndarray:
  return images.load(encode(pixels), "k", size, *augmentation)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF"])
def test_lossless_formats_come_back_exactly(kind):
  pixels = photo(4, 8)  # few enough colours for GIF's palette
  decoded = images.decode(encode(pixels, kind), "k")
  assert decoded.dtype == np.uint8
  np.testing.assert_array_equal(decoded, pixels)
  assert decoded.flags.writeable


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_come_back_nearly(kind):
  decoded = images.decode(encode(photo(), kind, quality=95), "k")
  assert np.abs(decoded.astype(int) - photo()).mean() < 3


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_bilevel_and_palette_images_become_rgb(mode):
  image = Image.fromarray(photo()).convert(mode)
  np.testing.assert_array_equal(images.decode(encode(image), "k"), np.asarray(image.convert("RGB")))


def test_cmyk_jpeg_becomes_rgb():
  grey = Image.new("CMYK", (8, 8), (0, 0, 0, 128))
  assert np.abs(images.decode(encode(grey, "JPEG", quality=100), "k").astype(int) - 127).max() <= 2


_LARGE = zlib.compress(bytes(3 << 20))
_PIXELS = (b"IDAT", zlib.compress(b"\0\x10\x20\x30"))


@pytest.mark.parametrize(
  "chunks",
  [
    [(b"zTXt", b"parameters\0\0" + _LARGE), _PIXELS],
    [_PIXELS, (b"zTXt", b"parameters\0\0" + _LARGE)],
    [(b"iTXt", b"prompt\0\1\0en\0\0" + _LARGE), _PIXELS],
    [(b"iCCP", b"profile\0\0" + _LARGE), _PIXELS],
    [(b"tEXt", b"workflow\0" + bytes(65 << 20)), _PIXELS],
    [*[(b"zTXt", b"%d\0\0" % n + zlib.compress(bytes(900_000))) for n in range(80)], _PIXELS],
  ],
  ids=["text", "text after the pixels", "international text", "colour profile", "plain text", "many texts"],
)
def test_png_with_large_texts_or_profile_is_read_without_them(chunks):
  data = png(1, 1, *chunks)
  with pytest.raises((ValueError, Image.UnidentifiedImageError)), Image.open(io.BytesIO(data)) as image:
    image.load()  # Pillow's own limits refuse it
  assert images.decode(data, "a").tolist() == [[[16, 32, 48]]]
  assert len(image_formats.without_large_metadata(data)) < 1 << 20
  assert image_formats.without_large_metadata(data[:-40]) is not None  # truncated


def test_png_keeps_small_texts():
  data = png(1, 1, (b"zTXt", b"parameters\0\0" + zlib.compress(b"x" * 1000)), _PIXELS)
  assert image_formats.without_large_metadata(data) == data


def test_png_of_16_bits_keeps_the_upper_eight():
  values = np.array([[0, 255, 256, 0x8000, 0xFFFF]], np.uint16)
  decoded = images.decode(encode(values), "k")
  np.testing.assert_array_equal(decoded[0, :, 0], [0, 0, 1, 0x80, 0xFF])
  assert decoded.shape == (1, 5, 3)


def test_transparency_is_laid_on_white():
  rgba = np.zeros((1, 3, 4), np.uint8)
  rgba[0, :, 3] = [0, 255, 128]
  decoded = images.decode(encode(rgba), "k")
  np.testing.assert_array_equal(decoded[0, :, 0], [255, 0, 127])


def test_transparent_palette_and_colour_become_white():
  image = Image.new("P", (2, 1))
  image.putpalette([0, 0, 0, 10, 20, 30])
  image.putdata([0, 1])
  decoded = images.decode(encode(image, transparency=0), "k")
  np.testing.assert_array_equal(decoded[0], [[255, 255, 255], [10, 20, 30]])
  rgb = Image.fromarray(np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8))
  decoded = images.decode(encode(rgb, transparency=(1, 2, 3)), "k")
  np.testing.assert_array_equal(decoded[0], [[255, 255, 255], [4, 5, 6]])


def transparent_png(depth: int, color_type: int, samples: list[int], transparent: list[int]) -> bytes:
  """A PNG of one row of samples, which Pillow cannot write: grey (colour type 0) or RGB (2), with a tRNS chunk."""
  row = int("".join(f"{sample:0{depth}b}" for sample in samples), 2).to_bytes(len(samples) * depth // 8)
  return png(
    len(samples) // (3 if color_type else 1), 1,
    (b"tRNS", b"".join(value.to_bytes(2) for value in transparent)), (b"IDAT", zlib.compress(b"\0" + row)),
    depth=depth, color_type=color_type,
  )  # fmt: skip


@pytest.mark.parametrize(
  ("depth", "color_type", "samples", "transparent", "expected"),
  [
    (1, 0, [0, 1, 0, 1, 0, 1, 0, 1], [0], [255, 255] * 4),
    (2, 0, [0, 1, 2, 3], [2], [0, 85, 255, 255]),
    (4, 0, [0, 2, 8, 15], [8], [0, 34, 255, 255]),
    (8, 0, [0, 2, 8, 136], [8], [0, 2, 255, 136]),
    (16, 0, [0, 256, 1000, 1001], [1000], [0, 1, 255, 3]),
    (16, 0, [0, 256, 1000, 1001], [0], [255, 1, 3, 3]),
    (8, 2, [9, 9, 9, 7, 7, 7], [9, 9, 9], [255, 7]),
    (16, 2, [40000, 40000, 40000, 7000, 7000, 7000], [40000, 40000, 40000], [255, 27]),
  ],
)
def test_a_transparent_colour_is_white_at_any_depth(depth, color_type, samples, transparent, expected):
  """PNG, third edition, section 11.3.1.1: the colour is given in the file's own bits."""
  data = transparent_png(depth, color_type, samples, transparent)
  assert images.decode(data, "k")[0, :, 0].tolist() == expected
  assert images.fit(Image.open(io.BytesIO(data)), "k", 8).shape == (8, 8, 3)


@pytest.mark.parametrize("kind", ["TIFF", "PDF"])
def test_unsupported_image_formats_are_named(kind):
  with pytest.raises(XmcapError, match=f"a file in {kind}, which is not read: convert it to JPEG or PNG"):
    images.decode(encode(photo(), kind), "k")


def test_exif_orientation_is_applied():
  exif = Image.Exif()
  exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
  data = encode(photo(), "JPEG", quality=95, exif=exif)
  decoded = images.decode(data, "k")
  assert decoded.shape == (64, 48, 3)
  assert np.abs(decoded.astype(int) - np.rot90(photo(), -1)).mean() < 3


def test_damaged_exif_is_ignored():
  data = encode(photo(), "JPEG", exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff garbage")
  assert images.decode(data, "k").shape == (48, 64, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_truncated_pictures_are_named(kind, share):
  rng = np.random.default_rng(0)
  data = encode(rng.integers(0, 255, (64, 64, 3), np.uint8), kind)
  with pytest.raises(XmcapError, match="picture 'dog-7'") as error:
    images.decode(data[: int(len(data) * share)], "dog-7")
  assert "\n" not in str(error.value)


def test_truncated_large_jpeg_is_refused():
  noise = np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8)
  data = encode(noise, "JPEG", quality=95)
  assert len(data) > 2 * ImageFile.MAXBLOCK
  np.testing.assert_array_equal(images.load(data, "k", 400), Image.open(io.BytesIO(data)))
  for length in (ImageFile.MAXBLOCK, ImageFile.MAXBLOCK + 1, len(data) // 2, len(data) - 1000):
    with pytest.raises(XmcapError, match="picture 'dog-7': cannot be decoded .image file is truncated"):
      images.load(data[:length], "dog-7", 100)


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\0" * 1000])
def test_bytes_that_are_no_image_are_refused(data):
  with pytest.raises(XmcapError, match="picture 'dog-7'"):
    images.decode(data, "dog-7")


def test_formats_that_start_programs_are_not_opened():
  postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
  with pytest.raises(XmcapError, match="not a picture in a known format"):
    images.decode(postscript, "k")


@pytest.mark.parametrize("width, height", [(20_000, 20_000), (10_000, 9_500), (60_000, 60_000)])
def test_too_many_pixels_are_refused_by_the_header(width, height):
  with pytest.raises(XmcapError, match="picture 'big'.*89478485"):
    images.decode(huge(width, height), "big")


def test_image_over_max_pixels_is_refused():
  data = encode(photo())
  with pytest.raises(XmcapError, match="64 x 48 pixels are more than the 3000 allowed"):
    images.load(data, "k", 16, max_pixels=3000)


def test_a_large_jpeg_is_decoded_at_a_smaller_scale():
  data = encode(photo(480, 640), "JPEG", quality=95)
  assert images.decode(data, "k", at_least=100).shape == (120, 160, 3)
  assert images.decode(data, "k", at_least=130).shape == (240, 320, 3)
  scaled = images.load(data, "k", 100)
  whole = square(images.decode(data, "k"), 100)
  assert np.abs(scaled.astype(int) - whole).mean() < 1.5


def test_resizing_is_pillows_antialiased_bilinear():
  resized = square(photo(), 20)
  expected = Image.fromarray(photo()).resize((20, 20), Image.Resampling.BILINEAR)
  np.testing.assert_array_equal(resized, np.asarray(expected))
  stripes = np.tile(np.array([0, 255], np.uint8)[None, :, None], (64, 32, 3))
  assert np.abs(square(stripes, 8).astype(int) - 127).max() <= 24  # without: 0 or 255


def test_image_of_the_target_size_is_unchanged():
  pixels = photo(32, 32)
  np.testing.assert_array_equal(square(pixels, 32), pixels)
  np.testing.assert_array_equal(square(pixels, 32, images.Augment(), np.full(5, 0.3)), pixels)


def test_crops_stay_inside_and_keep_the_area():
  augment = images.Augment(min_area=0.25, max_aspect=2.0)
  rng = np.random.default_rng(0)
  for _ in range(500):
    left, top, right, bottom = augment.box(64, 48, rng.random(images.NUM_DRAWS))
    assert 0 <= left < right <= 64 and 0 <= top < bottom <= 48
    assert (right - left) * (bottom - top) >= 0.25 * 64 * 48 / 2


def test_a_crop_is_a_function_of_its_draws():
  augment = images.Augment(min_area=0.3)
  one, same, other = (
    square(photo(), 24, augment, np.array(draws))
    for draws in ([0.1, 0.5, 0.2, 0.3, 0.9], [0.1, 0.5, 0.2, 0.3, 0.1], [0.1, 0.5, 0.9, 0.3, 0.9])
  )
  np.testing.assert_array_equal(one, same)
  assert (one != other).any()


def test_flip_mirrors_half():
  augment = images.Augment(flip=True)
  pixels = photo(32, 32)
  np.testing.assert_array_equal(square(pixels, 32, augment, np.full(5, 0.4)), pixels[:, ::-1])
  np.testing.assert_array_equal(square(pixels, 32, augment, np.full(5, 0.6)), pixels)


@pytest.mark.parametrize("values", [{"min_area": 0.0}, {"min_area": 1.1}, {"max_aspect": 0.5}])
def test_augment_refuses_values_out_of_range(values):
  with pytest.raises(UsageError, match=f"Augment.{next(iter(values))}"):
    images.Augment(**values)


def test_augmentation_without_random_numbers_is_refused():
  with pytest.raises(UsageError, match="draws"):
    square(photo(), 8, images.Augment(min_area=0.5))


@pytest.mark.parametrize(
  "width, height", [(640, 480), (480, 640), (300, 300), (1000, 100), (100, 1000), (8, 8)]
)
def test_inception_crop_area_and_aspect_ratio(width, height):
  crop = images.InceptionCrop()
  rng = np.random.default_rng(0)
  areas = []
  for _ in range(2000):
    numbers = rng.random(images.NUM_DRAWS)
    left, top, right, bottom = crop.box(width, height, numbers)
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    aspect = (right - left) / (bottom - top)
    assert 3 / 4 - 1e-9 <= aspect <= 4 / 3 + 1e-9
    area = (right - left) * (bottom - top) / (width * height)
    areas.append(area)
    wanted = 0.08 + 0.92 * numbers[0]
    assert area == pytest.approx(wanted) or area < wanted
    # Smaller than wanted only where no ratio fits.
    if area < wanted * (1 - 1e-9):
      assert right - left == pytest.approx(width) or bottom - top == pytest.approx(height)
  if max(width / height, height / width) <= 4 / 3 + 1e-9:
    assert np.mean(areas) == pytest.approx(0.54, abs=0.02)  # uniform from 0.08 to 1


def test_inception_crop_does_not_mirror():
  assert not images.InceptionCrop().flip


@pytest.mark.parametrize(
  "orientation", [1, 6, pytest.param(3, marks=pytest.mark.full), pytest.param(8, marks=pytest.mark.full)]
)
def test_a_crop_is_decoded_at_the_scale_that_it_needs(orientation):
  exif = Image.Exif()
  exif[0x0112] = orientation
  data = encode(photo(480, 640), "JPEG", quality=95, exif=exif)
  whole = images.decode(data, "k")
  for numbers in np.random.default_rng(0).random((4, images.NUM_DRAWS)):
    for augment in (None, images.InceptionCrop(), images.Augment(min_area=0.5, max_aspect=1.5)):
      found = images.load(data, "k", 56, augment, numbers)
      expected = square(whole, 56, augment, numbers)
      assert np.abs(found.astype(int) - expected).mean() < 2


def test_ten_crops_are_those_of_torchvision():
  pixels = np.zeros((8, 12, 3), np.uint8)
  pixels[..., 0] = np.arange(12) + 16 * np.arange(8)[:, None]
  crops = images.ten_crops(encode(pixels), "k", 7)
  # The first and the last pixel of the first row of each crop: Compose([Resize(8), TenCrop(7)]) of torchvision 0.29.2.
  golden = [(0, 6), (5, 11), (16, 22), (21, 27), (2, 8), (11, 5), (6, 0), (27, 21), (22, 16), (9, 3)]
  assert [(int(crop[0, 0, 0]), int(crop[0, -1, 0])) for crop in crops] == golden


@pytest.mark.parametrize("bicubic", [False, True])
def test_ten_crops_are_taken_from_256_pixels_for_224(bicubic):
  picture = Image.fromarray(photo(30, 47))
  resampling = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
  resized = np.asarray(picture.resize((28, 18), resampling))
  np.testing.assert_array_equal(images.ten_crops(encode(picture), "k", 16, bicubic)[0], resized[:16, :16])


def test_gin_settings_of_augment_do_not_crop_evaluation_images():
  """The settings of training's crop must not reach pictures of an evaluation."""
  pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
  with gin.config_scope("test_images"), gin.unlock_config():
    gin.bind_parameter("test_images/Augment.min_area", 0.1)
    np.testing.assert_array_equal(images.load(encode(pixels), "k", 32), pixels)


@pytest.mark.parametrize("size", [(7, 100), (100, 1), (8, 65_536), (1, 39_999_999)])
def test_sides_that_are_too_short_or_too_long_are_refused(size, real_sides):
  with pytest.raises(XmcapError, match="picture 'k': .* pixels, but a side has 8 to 65,535"):
    images.decode(huge(*size), "k")


def test_sides_of_eight_pixels_are_enough(real_sides):
  assert images.decode(encode(Image.new("RGB", (8, 9))), "k").shape == (9, 8, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "I;16"])
def test_conversion_in_bands_gives_the_same_pixels(mode, monkeypatch):
  random = np.random.default_rng(0)
  if mode == "I;16":
    image = Image.fromarray(random.integers(0, 65_536, (30, 20)).astype(np.uint16))
  else:
    image = Image.fromarray(random.integers(0, 256, (30, 20, len(mode))).astype(np.uint8), mode)
  whole = images.decode(encode(image), "k")
  monkeypatch.setattr(images, "_BAND", 70)
  np.testing.assert_array_equal(images.decode(encode(image), "k"), whole)


def test_threads_share_a_budget_of_pixels(monkeypatch):
  monkeypatch.setattr(images, "_BUDGET", images._Budget(100 * 100))
  open_now, most = 0, 0
  opened = images._to_upright_rgb

  def slowly(image):
    nonlocal open_now, most
    open_now += 1
    most = max(most, open_now)
    time.sleep(0.02)
    open_now -= 1
    return opened(image)

  monkeypatch.setattr(images, "_to_upright_rgb", slowly)
  with futures.ThreadPoolExecutor(8) as pool:
    list(pool.map(images.decode, [encode(Image.new("RGB", (60, 80)))] * 16, "abcdefghijklmnop"))
    assert most == 2
    list(pool.map(images.decode, [encode(Image.new("RGB", (200, 200)))] * 4, "abcd"))
