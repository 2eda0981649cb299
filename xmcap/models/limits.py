"""What the fields of a model's configuration may be, wherever they come from: gin, `model.json`, a config.json.

Each limit is far above any model that was ever trained, and so low that a folder cannot ask for more than a machine
takes long to refuse.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

MOST_LAYERS = 1024
MOST_PARAMETERS = 10**11
"""Of a ViT, and of a T5."""

Limits = Mapping[str, tuple[float, float]]
"""{field: (least, most)}; a field of numbers that is not there may be any that is finite."""


class FieldError(UsageError):
  """A field of a configuration that is of another type, or out of its limits.

  Attributes:
    field: its name.
    reason: what is wrong, to follow the name.
  """

  def __init__(self, kind: str = "", field: str = "", reason: str = ""):
    super().__init__(f"{kind}.{field} {reason}")
    self.field, self.reason = field, reason


def check(config: Any, limits: Limits) -> None:
  """Checks type and value of each field of a dataclass whose fields are int, float, bool, str or three floats.

  Raises:
    FieldError: names the first that is wrong, and what it may be.
  """
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    least, most = limits.get(field.name, (-math.inf, math.inf))

    def refuse(wanted: str, field=field, value=value):
      raise FieldError(type(config).__name__, field.name, f"is {_shown(value)}: give {wanted}")

    if field.type is bool:
      if not isinstance(value, bool):
        refuse("true or false")
    elif field.type is int:
      if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= most:
        refuse(f"a whole number from {least:,} to {most:,}")
    elif field.type is float:
      if not _is_number(value) or not least <= value <= most:
        refuse(_range(least, most))
    elif field.type is str:
      if not isinstance(value, str):
        refuse("a text")
    elif field.type == tuple[float, ...]:
      if not isinstance(value, list | tuple) or len(value) != 3:
        refuse("three numbers (red, green, blue)")
      if not all(_is_number(part) and least <= part <= most for part in value):
        refuse(f"three times {_range(least, most)}")


def check_parameters(config: Any, count: int) -> None:
  """Raises UsageError for a model of more than MOST_PARAMETERS."""
  if count > MOST_PARAMETERS:
    raise UsageError(
      f"{type(config).__name__}: {count:,} parameters; xmcap takes models of {MOST_PARAMETERS:,} at most"
    )


def _is_number(value: Any) -> bool:
  return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _range(least: float, most: float) -> str:
  if math.isinf(least):
    return "a finite number"
  return f"a number from {least:g} to {most:g}"


def _shown(value: Any) -> str:
  """A value as a message can hold it; a number of a million digits is not written out."""
  if isinstance(value, int) and abs(value) >= 10**30:
    return f"a number of some {int(value.bit_length() * 0.30103) + 1:,} digits"
  return shown(repr(value), 60)
