"""Checks the fields of a model's configuration, whether they come from gin, `model.json` or a config.json.

The limits are in the annotations of the fields. They are far above any model ever trained, and low enough that a
malicious folder cannot make xmcap allocate without bound.
"""

import typing
from collections.abc import Collection
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from xmcap.errors import UsageError
from xmcap.terminal import shown

Layers = Annotated[int, Meta(ge=1, le=1024)]
Heads = Annotated[int, Meta(ge=1, le=2**12)]
Width = Annotated[int, Meta(ge=1, le=2**16)]
MlpWidth = Annotated[int, Meta(ge=1, le=2**20)]
Rate = Annotated[float, Meta(ge=0, le=1)]
Alpha = Annotated[float, Meta(ge=0, le=2**16)]
Vocabulary = Annotated[int, Meta(ge=1, le=2**24)]
TokenId = Annotated[int, Meta(ge=0, le=2**24)]
Length = Annotated[int, Meta(ge=1, le=2**16)]
# Smaller numbers come close to the subnormal float32 range.
Epsilon = Annotated[float, Meta(ge=1e-30, le=1)]

MOST_PARAMETERS = 10**11
"""The largest number of parameters of a ViT, of a T5, or of a text tower."""


class FieldError(UsageError):
  """A field of a configuration has the wrong type or is out of its limits.

  Attributes:
    field: name of the field.
    reason: what is wrong, worded to follow the name.
  """

  def __init__(self, kind: str = "", field: str = "", reason: str = ""):
    super().__init__(f"{kind}.{field} {reason}")
    self.field, self.reason = field, reason


def check(config: Any) -> None:
  """Checks each field of a dataclass against its annotation; raises FieldError for the first wrong one."""
  for field, hint in typing.get_type_hints(type(config), include_extras=True).items():
    value = getattr(config, field)
    try:
      # A number that gin computed may be a numpy scalar.
      msgspec.convert(value.item() if isinstance(value, np.generic) else value, hint)
    except msgspec.ValidationError as error:
      reason = str(error).partition(" - at ")[0].replace("Expected", "give").replace("`", "")
      raise FieldError(type(config).__name__, field, f"is {shown(repr(value), 60)}: {reason}") from None


def check_names(config: Any, **allowed: Collection[str]) -> None:
  """Raises UsageError unless each given field has one of its known values."""
  for field, names in allowed.items():
    value = getattr(config, field)
    if value not in names:
      raise UsageError(
        f"unknown {type(config).__name__}.{field} {value[:40]!r}: use one of {', '.join(names)}"
      )


def check_parameters(config: Any, count: int) -> None:
  """Raises UsageError for more than MOST_PARAMETERS."""
  if count > MOST_PARAMETERS:
    raise UsageError(
      f"{type(config).__name__}: {count:,} parameters; xmcap supports at most {MOST_PARAMETERS:,}"
    )
