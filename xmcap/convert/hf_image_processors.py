"""How transformers' image processors make pixels: preprocessor_config.json, or the part of processor_config.json."""

from collections.abc import Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

PROCESSOR, WHOLE_PROCESSOR = "preprocessor_config.json", "processor_config.json"
_FILTERS = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_STEPS = ("do_resize", "do_rescale", "do_normalize")
_KNOWN_STEPS = (*_STEPS, "do_center_crop", "do_convert_rgb")


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
  for step in _STEPS:
    if not settings.get(step, True):
      raise UsageError(f"{where}: {step} is false: xmcap always does it")
  for name, value in settings.items():
    if name.startswith("do_") and name not in _KNOWN_STEPS and value:
      raise UsageError(f"{where}: {shown(name, 60)}: a step that xmcap does not have")
  factor = settings.get("rescale_factor", 1 / 255)
  if not isinstance(factor, int | float) or not abs(factor * 255 - 1) <= 1e-6:
    raise UsageError(f"{where}: rescale_factor is {shown(repr(factor), 40)}: xmcap has 1/255")
  number = settings.get("resample", 3)
  if number not in _FILTERS:
    raise UsageError(
      f"{where}: resample is {shown(repr(number), 40)}: xmcap has 2 (bilinear) and 3 (bicubic)"
    )
  cropped = bool(settings.get("do_center_crop", "_crop" in usual))
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


def _side(size: Any, *names: str) -> int | None:
  """Returns the one value that a size has under all `names`; a number alone has every name but `shortest_edge`."""
  if isinstance(size, int):
    return size if names != ("shortest_edge",) else None
  values = {size.get(name) for name in names} if isinstance(size, dict) else set()
  return values.pop() if len(values) == 1 else None
