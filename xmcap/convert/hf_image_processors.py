"""How transformers' image processors make pixels: preprocessor_config.json, or the part of processor_config.json."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

CONFIG = "config.json"
PROCESSOR, WHOLE_PROCESSOR = "preprocessor_config.json", "processor_config.json"
_FILTERS = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_STEPS = ("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb")
_OTHERS = ("rescale_offset", "offset", "crop_pct", "keep_aspect_ratio", "ensure_multiple_of", "size_divisor",
           "max_num_patches")  # fmt: skip
"""Fields of other steps that no name with `do_` announces."""


def normalization(
  settings: Mapping[str, Any], processor: str, mean: Sequence[float], std: Sequence[float], where: str
) -> tuple[Any, Any]:
  """Returns `image_mean` and `image_std` of ViTConfig, which are of pixels divided by 255.

  A processor may leave the division out, or do it with another `rescale_factor`, or not normalise; pixels that are
  (value * factor - mean) / std are (value / 255 - mean / (255 factor)) / (std / (255 factor)).

  Args:
    settings: fields of an image processor; empty if there is none.
    processor: the usual class, such as `CLIPImageProcessor`.
    mean, std: of that class, for fields that are missing.
    where: the file, for messages.

  Raises:
    UsageError: a step is unknown, or a field is missing and the class is another.
  """
  for name, value in settings.items():
    if value and (name in _OTHERS or (name.startswith("do_") and name not in _STEPS)):
      raise UsageError(f"{where}: {shown(name, 60)}: a step that xmcap does not have")
  factor = settings.get("rescale_factor") if _does(settings, "do_rescale", where) else 1.0
  factor = 1 / 255 if factor is None else factor
  if not isinstance(factor, int | float) or not 0 < factor < math.inf:
    raise UsageError(f"{where}: rescale_factor is {shown(repr(factor), 40)}: give a number above 0")
  values: list[Any] = [(0.0,) * 3, (1.0,) * 3]
  if _does(settings, "do_normalize", where):
    values = [settings.get("image_mean"), settings.get("image_std")]
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type") or processor
    if None in values and not str(kind).startswith(processor.removesuffix("ImageProcessor")):
      raise UsageError(
        f"{where}: {shown(str(kind), 60)} without image_mean or image_std: add what its class has for them"
      )
    values = [usual if value is None else value for value, usual in zip(values, (mean, std), strict=True)]
  values = [(value,) * 3 if isinstance(value, int | float) else tuple(value) for value in values]
  scale = 255 * factor
  if abs(scale - 1) > 1e-6:
    values = [tuple(number / scale for number in value) for value in values]
  return values[0], values[1]


def check_size(settings: Mapping[str, Any], image_size: int, usual: str, where: str) -> str:
  """Returns how a processor makes images square, in words; "" if it stretches them by a bilinear filter.

  Arguments as for `resize`. UsageError if it makes another size of them, or does not resize.
  """
  if not _does(settings, "do_resize", where):
    raise UsageError(f"{where}: do_resize is false: xmcap always does it")
  cropped = _does(settings, "do_center_crop", where, usual=usual.endswith("crop"))
  size, crop = settings.get("size"), settings.get("crop_size")
  side = _side(crop if cropped else size, "height", "width")
  if side not in (None, image_size):
    raise UsageError(
      f"{where}: pictures of {side} x {side}, and {CONFIG} has image_size {image_size}: fetch both again"
    )
  if side and not cropped and _filter(settings, usual) == 2:
    return ""
  steps = f"size {shown(str(size), 60)}" + (f", crop_size {shown(str(crop), 60)}" if cropped else "")
  return f"{steps}, resample {_filter(settings, usual)}"


def resize(settings: Mapping[str, Any], image_size: int, usual: str, where: str) -> str:
  """Returns `resize` of DualConfig.

  Args:
    settings: fields of an image processor; empty if there is none.
    image_size: side of the images that the tower sees.
    usual: the `resize` of the processor's class, for fields that are missing.
    where: the file, for messages.

  Raises:
    UsageError: the processor does something that xmcap does not.
  """
  if not settings:
    return usual
  check_size(settings, image_size, usual, where)
  number = _filter(settings, usual)
  if number not in _FILTERS:
    raise UsageError(
      f"{where}: resample is {shown(repr(number), 40)}: xmcap has 2 (bilinear) and 3 (bicubic)"
    )
  cropped = _does(settings, "do_center_crop", where, usual="_crop" in usual)
  size, crop = settings.get("size", image_size), settings.get("crop_size", image_size)
  # Files of 2021 have one number, which CLIP's processor takes for the short side.
  short = size if isinstance(size, int) and "_crop" in usual else _side(size, "shortest_edge")
  square, crop = _side(size, "height", "width"), _side(crop, "height", "width")
  if short == image_size and cropped and crop == image_size:
    return f"{_FILTERS[number]}_crop"
  # A centre crop of the same size takes nothing away.
  if square == image_size and short != image_size and (not cropped or crop == image_size):
    return "bicubic" if number == 3 else "bilinear_square"
  raise UsageError(
    f"{where}: size {shown(repr(settings.get('size')), 60)}, crop_size {shown(repr(settings.get('crop_size')), 60)},"
    f" do_center_crop {cropped}: xmcap resizes to the tower's {image_size} x {image_size}, or the short side to"
    f" {image_size} and crops the centre"
  )


def _does(settings: Mapping[str, Any], step: str, where: str, usual: bool = True) -> bool:
  """Whether a processor takes a step; UsageError if its field is neither true nor false."""
  value = settings.get(step)
  if value not in (None, True, False):
    raise UsageError(f"{where}: {step} is {shown(repr(value), 40)}: give true or false")
  return usual if value is None else bool(value)


def _filter(settings: Mapping[str, Any], usual: str) -> Any:
  number = settings.get("resample")
  return (2 if usual.startswith("bilinear") else 3) if number is None else number


def _side(size: Any, *names: str) -> int | None:
  """Returns the one value that a size has under all `names`; a number alone has every name but `shortest_edge`."""
  if isinstance(size, list) and len(size) == 2 and size[0] == size[1]:
    size = size[0]
  if isinstance(size, int):
    return size if names != ("shortest_edge",) else None
  values = {size.get(name) for name in names} if isinstance(size, dict) else set()
  return values.pop() if len(values) == 1 else None
