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
    if wanted := _wanted_instead(value, field.type, least, most):
      raise FieldError(type(config).__name__, field.name, f"is {shown(repr(value), 60)}: give {wanted}")


def _wanted_instead(value: Any, kind: Any, least: float, most: float) -> str:
  """What to give in the place of a value that does not fit; "" where it does."""
  if kind is bool:
    return "" if isinstance(value, bool) else "true or false"
  if kind is str:
    return "" if isinstance(value, str) else "a text"
  if kind is int:
    fits = _is_of(value, numbers.Integral) and least <= value <= most
    return "" if fits else f"a whole number from {least:,} to {most:,}"
  number = "a finite number" if math.isinf(least) else f"a number from {least:g} to {most:g}"
  if kind is float:
    return "" if _fits(value, least, most) else number
  if kind == tuple[float, ...]:
    fits = isinstance(value, list | tuple) and len(value) == 3
    fits = fits and all(_fits(part, least, most) for part in value)
    return "" if fits else f"three numbers (red, green, blue), each {number}"
  return ""


def _fits(value: Any, least: float, most: float) -> bool:
  return _is_of(value, numbers.Real) and math.isfinite(value) and least <= value <= most


def _is_of(value: Any, kind: type) -> bool:
  """Whether a value is a number of a kind; to Python, bool is one of int."""
  return isinstance(value, kind) and not isinstance(value, bool)


def check_parameters(config: Any, count: int) -> None:
  """Raises UsageError for a model of more than MOST_PARAMETERS."""
  if count > MOST_PARAMETERS:
    raise UsageError(
      f"{type(config).__name__}: {count:,} parameters; xmcap takes models of {MOST_PARAMETERS:,} at most"
    )
