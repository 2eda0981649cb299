"""`model.json`: what a folder says of the model whose weights lie in it. It holds values and cannot run anything.

`xmcap train` writes it into its MODEL_DIR, `xmcap convert` beside weights; `caption`, `eval` and `convert` read it, and
so does `--gin_file=DIR/model.json`. All its fields, each of which may be left out but for `format` and `version`:

  {
    "format": "xmcap.model", "version": 1,
    "vit": {the fields of ViTConfig}, "t5": {the fields of T5Config},
    "mixture": "coco_35l",
    "decoding": {"max_length": 64, "cache_dtype": "auto", "search": {"name": "Beam", "beams": 4}}
  }

Model folders pass between strangers, so all is refused that is not expected: a field that is not here, a value of
another type or out of its limits, a file that is too large. Names are no paths, and name nothing that is imported.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from etils import epath

from xmcap.errors import UsageError
from xmcap.models import limits
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Greedy, Sample
from xmcap.models.layers import check_dtype
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.storage import strict_json
from xmcap.terminal import shown

NAME = "model.json"
LARGEST = 2**16
"""Bytes. Those of a run have some 1,500."""

_FORMAT, _VERSION = "xmcap.model", 1
_CONFIGS = {"vit": ViTConfig, "t5": T5Config}
_DROPPED = ("pack_length",)  # fields of earlier versions that changed no number
_SEARCHES = {"Greedy": Greedy, "Beam": Beam, "Sample": Sample}
_MIXTURE = re.compile(r"[A-Za-z0-9_.:]{1,100}")


@dataclasses.dataclass(frozen=True)
class Decoding:
  """The arguments of `Predictor` that a model folder may give.

  Raises:
    UsageError: one is of another type or out of its limits.
  """

  max_length: int = 64
  cache_dtype: str = "auto"

  def __post_init__(self):
    limits.check(self, {"max_length": (1, 4096)})
    check_dtype(self.cache_dtype)


@dataclasses.dataclass(frozen=True)
class Model:
  """What a `model.json` says, checked.

  Attributes:
    vit, t5: the fields of their configurations that are given; None where the folder holds no such part.
    mixture: of the captions that it learned; "" where that is not known. It is not needed to caption.
    decoding: the fields of `Decoding` that are given.
    search: name of a search and the fields of it that are given; None: the default.
  """

  vit: Mapping[str, Any] | None = None
  t5: Mapping[str, Any] | None = None
  mixture: str = ""
  decoding: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  search: tuple[str, Mapping[str, Any]] | None = None

  def config(self, part: str) -> ViTConfig | T5Config | None:
    """The configuration of `vit` or `t5`, or None."""
    given = getattr(self, part)
    return None if given is None else _made(_CONFIGS[part], given)


def of_config(config: ViTConfig | T5Config, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
  """The fields of a configuration, for `Model`."""
  return {
    field.name: getattr(config, field.name)
    for field in dataclasses.fields(config)
    if field.name not in leave_out
  }


def of_search(search: Any) -> tuple[str, dict[str, Any]] | None:
  """A search, for `Model`; None for a class that is not xmcap's."""
  name = type(search).__name__
  if _SEARCHES.get(name) is not type(search):
    return None
  return name, {field.name: getattr(search, field.name) for field in dataclasses.fields(search)}


def as_text(model: Model) -> str:
  """The contents of the file."""
  values: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
  values |= {part: dict(given) for part in _CONFIGS if (given := getattr(model, part)) is not None}
  if model.mixture:
    values["mixture"] = model.mixture
  decoding = dict(model.decoding)
  if model.search is not None:
    decoding["search"] = {"name": model.search[0], **model.search[1]}
  if decoding:
    values["decoding"] = decoding
  # Gin may have computed a number, which is then one of numpy's.
  text = json.dumps(values, indent=2, default=lambda number: number.item()) + "\n"
  parse(text.encode(), NAME)  # what is written can be read
  return text


def read(path: str | os.PathLike) -> Model:
  """What a file says.

  Raises:
    UsageError: it cannot be read or is not of this form; names the field.
  """
  try:
    with epath.Path(path).open("rb") as file:
      raw = file.read(LARGEST + 1)
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
  return parse(raw, os.fspath(path))


def parse(raw: bytes, where: str) -> Model:
  """What the contents of a file say; `where` begins the messages. UsageError as `read`."""
  if len(raw) > LARGEST:
    raise UsageError(f"{where}: more than {LARGEST:,} bytes; a {NAME} has a few thousand")
  values = strict_json.parse(raw, where)
  if not isinstance(values, dict) or values.get("format") != _FORMAT:
    raise UsageError(f'{where}: no {NAME} of xmcap, which has "format": "{_FORMAT}"')
  if type(values.get("version")) is not int or values["version"] != _VERSION:
    version = shown(values.get("version"), 60)
    raise UsageError(f"{where}: version {version}; this xmcap reads {_VERSION}: take a release that reads it")
  _check_names(values, ("format", "version", *_CONFIGS, "mixture", "decoding"), where, "")
  parts = {
    part: _checked(config, _without_dropped(_object(values, part, where)), where, part)
    for part, config in _CONFIGS.items()
    if part in values
  }
  mixture = values.get("mixture", "")
  if "mixture" in values and (not isinstance(mixture, str) or not _MIXTURE.fullmatch(mixture)):
    raise UsageError(
      f"{where}: mixture is {shown(mixture, 60)}: give the name of a mixture (letters, digits, _ . :)"
    )
  given = dict(_object(values, "decoding", where)) if "decoding" in values else {}
  search = None
  if "search" in given:
    arguments = dict(_object(given, "search", where, "decoding."))
    name = arguments.pop("name", None)
    if not isinstance(name, str) or name not in _SEARCHES:
      raise UsageError(
        f"{where}: decoding.search.name is {shown(name, 60)}: give one of {', '.join(_SEARCHES)}"
      )
    search = name, _checked(_SEARCHES[name], arguments, where, "decoding.search")
    del given["search"]
  return Model(**parts, mixture=mixture, decoding=_checked(Decoding, given, where, "decoding"), search=search)


def _without_dropped(given: Mapping[str, Any]) -> dict[str, Any]:
  return {name: value for name, value in given.items() if name not in _DROPPED}


def _checked(config: type, given: Mapping[str, Any], where: str, part: str) -> dict[str, Any]:
  """The fields as given, if a configuration can be made of them."""
  fields = dataclasses.fields(config)
  _check_names(given, [field.name for field in fields], where, f"{part}.")
  for field in fields:
    if field.default is dataclasses.MISSING and field.name not in given:
      raise UsageError(f"{where}: {part}.{field.name} is missing")
  try:
    made = _made(config, given)
  except limits.FieldError as error:
    raise UsageError(f"{where}: {part}.{error.field} {error.reason}") from None
  except UsageError as error:
    # Gin adds the chain of configurables that called, on lines of its own.
    raise UsageError(f"{where}: {str(error).splitlines()[0]}") from None
  return {name: getattr(made, name) for name in given}


def _made(config: type, given: Mapping[str, Any]) -> Any:
  """A configuration with the fields as given or by default, whatever gin is configured for."""
  defaults = {
    field.name: field.default
    for field in dataclasses.fields(config)
    if field.default is not dataclasses.MISSING
  }
  return config(**(defaults | dict(given)))


def _object(values: Mapping[str, Any], name: str, where: str, prefix: str = "") -> Mapping[str, Any]:
  if not isinstance(values[name], dict):
    raise UsageError(f"{where}: {prefix}{name} is no object {{...}}")
  return values[name]


def _check_names(values: Mapping[str, Any], known: Any, where: str, prefix: str) -> None:
  unknown = [name for name in values if name not in known]
  if unknown:
    raise UsageError(
      f"{where}: {prefix}{shown(unknown[0], 60)} is no field of a {NAME}; there are {', '.join(known)}"
    )
