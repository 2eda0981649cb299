"""Checks the fields of a model's configuration, wherever they come from: gin, `model.json`, a config.json.

A limit stands in the field's annotation. Each is far above any model that was ever trained, and so low that a folder
cannot ask for more than a machine takes long to refuse.
"""

import typing
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
Vocabulary = Annotated[int, Meta(ge=1, le=2**24)]
TokenId = Annotated[int, Meta(ge=0, le=2**24)]
Length = Annotated[int, Meta(ge=1, le=2**16)]
# Below the least a float32 is no normal number any more.
Epsilon = Annotated[float, Meta(ge=1e-30, le=1)]

MOST_PARAMETERS = 10**11
"""Of a ViT, of a T5, and of a text tower."""


class FieldError(UsageError):
  """A field of a configuration that is of another type, or out of its limits.

  Attributes:
    field: its name.
    reason: what is wrong, to follow the name.
  """

  def __init__(self, kind: str = "", field: str = "", reason: str = ""):
    super().__init__(f"{kind}.{field} {reason}")
    self.field, self.reason = field, reason


def check(config: Any) -> None:
  """Checks each field of a dataclass by its annotation; FieldError says of the first that is wrong what it may be."""
  for field, wanted in typing.get_type_hints(type(config), include_extras=True).items():
    value = getattr(config, field)
    try:
      # A number that gin computed may be one of numpy's.
      msgspec.convert(value.item() if isinstance(value, np.generic) else value, wanted)
    except msgspec.ValidationError as error:
      reason = str(error).partition(" - at ")[0].replace("Expected", "give").replace("`", "")
      raise FieldError(type(config).__name__, field, f"is {shown(repr(value), 60)}: {reason}") from None


def check_parameters(config: Any, count: int) -> None:
  """Raises UsageError for a model of more than MOST_PARAMETERS."""
  if count > MOST_PARAMETERS:
    raise UsageError(
      f"{type(config).__name__}: {count:,} parameters; xmcap takes models of {MOST_PARAMETERS:,} at most"
    )
