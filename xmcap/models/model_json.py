"""`model.json` describes the model whose weights a folder holds. It holds plain values and cannot run code.

`xmcap train` writes it into its MODEL_DIR, `xmcap convert` beside the weights. `caption`, `eval` and `convert` read it,
and it can be passed as `--gin_file=DIR/model.json`. Only `format` and `version` are required:

  {
    "format": "xmcap.model", "version": 1,
    "vit": {the fields of ViTConfig}, "t5": {the fields of T5Config}, or "lstm": {the fields of LstmConfig},
    "text": {the fields of TextConfig}, "dual": {the fields of DualConfig},
    "words": {the fields of Word2VisualVecConfig}, "tagger": {the fields of TaggerConfig},
    "tags": {the fields of TagsInPrompt}, "stabilizer": {the fields of Stabilizer},
    "mixture": "coco_35l", "languages": ["ar", ...],
    "decoding": {"max_length": 64, "cache_dtype": "auto", "search": {"name": "Beam", "beams": 4}}
  }

Model folders come from untrusted sources, so everything unexpected is an error: an unknown field, a value of the wrong
type or out of its limits, a file that is too large. No name in it is used as a path or imported.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import strict_json
from xmcap.files.bucket_paths import epath
from xmcap.models import limits
from xmcap.models.layers import check_dtype
from xmcap.models.parts import (
  IMAGE,
  LANGUAGE_MODEL,
  PARTS,
  ImageConfig,
  LanguageModelConfig,
  image_parts,
  language_model_parts,
  load,
)
from xmcap.terminal import shown

NAME = "model.json"
LARGEST = 2**16
"""Largest size in bytes; that of a run has about 1,500."""

_FORMAT, _VERSION = "xmcap.model", 1
_SEARCHES = {
  "Greedy": "xmcap.models.decoding.search:Greedy",
  "Beam": "xmcap.models.decoding.beam_search:Beam",
  "Sample": "xmcap.models.decoding.search:Sample",
}
_REMAT = {True: "full", False: "no"}
"""The policy for `remat` in a stored file in which it is a boolean."""
_MIXTURE = re.compile(r"[A-Za-z0-9_.:]{1,100}")

Fields = Mapping[str, Any]
"""Name of a configuration's field -> value."""


@dataclasses.dataclass(frozen=True)
class Decoding:
  """The arguments of `Predictor` that a model folder may set."""

  max_length: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
  cache_dtype: str = "auto"

  def __post_init__(self):
    limits.check(self)
    check_dtype(self.cache_dtype)


@dataclasses.dataclass(frozen=True)
class TagsInPrompt:
  """The tags in the prompts with which a captioner was trained.

  Attributes:
    prompt_length: largest number of tokens of a prompt, including the LangId.
    language, most: as in `TagPrompts`.
  """

  prompt_length: Annotated[int, msgspec.Meta(ge=1, le=4096)]
  language: str = ""
  most: limits.Length = 5

  def __post_init__(self):
    limits.check(self)
    if self.language and not languages.is_known(self.language):
      raise limits.FieldError(
        "TagsInPrompt", "language", f"is {shown(self.language, 60)}: give a language code"
      )


@dataclasses.dataclass(frozen=True)
class Model:
  """The checked contents of a `model.json`.

  Attributes:
    parts: name of one of `PARTS` -> the given fields of its configuration. Without `tags` the prompts had no
      tags in training; without `stabilizer` the captions have none.
    mixture: the mixture that the model was trained on; "" if unknown.
    decoding: the given fields of `Decoding`.
    search: name of a search and its given fields; None: the default.
    languages: codes of the languages that the model was trained on; () if unknown.
  """

  parts: Mapping[str, Fields] = dataclasses.field(default_factory=dict)
  mixture: str = ""
  decoding: Fields = dataclasses.field(default_factory=dict)
  search: tuple[str, Fields] | None = None
  languages: tuple[str, ...] = ()

  def config(self, part: str) -> Any:
    """The configuration of one of `PARTS`, or None."""
    fields = self.parts.get(part)
    return None if fields is None else _made(load(PARTS[part].config), fields)

  def image_config(self) -> ImageConfig | None:
    """The configuration of the image tower, or None."""
    return next((self.config(part) for part in self.parts if part in image_parts()), None)

  def text_config(self) -> Any:
    """The configuration of the text tower: of a family's own if there is one, else of the T5; or None."""
    return self.config("text" if "text" in self.parts else "t5")

  def language_model(self) -> LanguageModelConfig | None:
    """The configuration of the language model, or None."""
    return next((self.config(part) for part in self.parts if part in language_model_parts()), None)

  def captioner(self) -> tuple[ImageConfig, LanguageModelConfig]:
    """The configurations of a captioner; UsageError if the model is another one."""
    if "dual" in self.parts:
      raise UsageError("the model is not a captioner but a dual tower: use xmcap embed")
    image, text = self.image_config(), self.language_model()
    if image is None or text is None:
      part = IMAGE if image is None else LANGUAGE_MODEL
      raise UsageError(f"the model is not a captioner: its {NAME} has no {part}")
    return image, text

  def searching(self) -> Any:
    """The search that the file names; greedy search if it names none."""
    name, fields = self.search or ("Greedy", {})
    return _made(load(_SEARCHES[name]), fields)


def without_tags(hint: str) -> str:
  """A warning that a model with `tags` gets none; `hint` says how to give them."""
  return f"the model was trained with tags in its prompts, and gets none: {hint}"


TRAINED_WITHOUT_TAGS = "the model was trained without tags in its prompts: leave the tags out"
"""Refuses tags for a model without `tags`."""


def of_config(config: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
  """The fields of a configuration, for `Model`."""
  names = [field.name for field in dataclasses.fields(config)]
  return {name: getattr(config, name) for name in names if name not in leave_out}


def of_search(search: Any) -> tuple[str, dict[str, Any]] | None:
  """The name and fields of a search, for `Model`; None if its class is not xmcap's."""
  name = type(search).__name__
  place = _SEARCHES.get(name)
  return (name, of_config(search)) if place and load(place) is type(search) else None


def as_text(model: Model) -> str:
  """The contents of the file."""
  values: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
  values |= {part: dict(model.parts[part]) for part in PARTS if part in model.parts}
  if model.mixture:
    values["mixture"] = model.mixture
  if model.languages:
    values["languages"] = list(model.languages)
  decoding = dict(model.decoding)
  if model.search is not None:
    decoding["search"] = {"name": model.search[0], **model.search[1]}
  if decoding:
    values["decoding"] = decoding
  # A number that gin computed may be a numpy scalar.
  text = json.dumps(values, indent=2, default=lambda number: number.item()) + "\n"
  parse(text.encode(), NAME)  # raises if it could not be read back
  return text


def of_folder(model_dir: str | os.PathLike) -> Model:
  """Reads the `model.json` of a model folder; UsageError if it has none, or a wrong one."""
  path = epath.Path(model_dir) / NAME
  if not path.exists():
    raise UsageError(
      f"{os.fspath(model_dir)}: not a model folder ({NAME} is missing): give the MODEL_DIR of a training run"
    )
  return read(path)


def read(path: str | os.PathLike) -> Model:
  """Reads a `model.json`; UsageError says what is wrong with it."""
  try:
    with epath.Path(path).open("rb") as file:
      raw = file.read(LARGEST + 1)
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
  return parse(raw, os.fspath(path))


def parse(raw: bytes, where: str) -> Model:
  """Parses the contents of a `model.json`; the messages of UsageError begin with `where`."""
  if len(raw) > LARGEST:
    raise UsageError(f"{where}: more than {LARGEST:,} bytes, but a {NAME} has a few thousand")
  values = strict_json.parse(raw, where)
  if not isinstance(values, dict) or values.get("format") != _FORMAT:
    raise UsageError(f'{where}: not a {NAME} of xmcap, which has "format": "{_FORMAT}"')
  if type(values.get("version")) is not int or values["version"] != _VERSION:
    version = shown(values.get("version"), 60)
    raise UsageError(f"{where}: version {version}, but this xmcap reads {_VERSION}: use a newer release")
  _check_names(values, ("format", "version", *PARTS, "mixture", "languages", "decoding"), where, "")
  parts = {
    name: _checked(load(part.config), _object(values[name], where, name), where, name)
    for name, part in PARTS.items()
    if name in values
  }
  mixture = values.get("mixture", "")
  if "mixture" in values and (not isinstance(mixture, str) or not _MIXTURE.fullmatch(mixture)):
    raise UsageError(
      f"{where}: mixture is {shown(mixture, 60)}: give the name of a mixture (letters, digits, _ . :)"
    )
  codes = values.get("languages", [])
  if not isinstance(codes, list) or not all(
    isinstance(language, str) and languages.is_known(language) for language in codes
  ):
    raise UsageError(f"{where}: languages is {shown(codes, 60)}: give a list of language codes, such as en")
  decoding = dict(_object(values.get("decoding", {}), where, "decoding"))
  search = None
  if "search" in decoding:
    fields = dict(_object(decoding.pop("search"), where, "decoding.search"))
    name = fields.pop("name", None)
    if not isinstance(name, str) or name not in _SEARCHES:
      raise UsageError(
        f"{where}: decoding.search.name is {shown(name, 60)}: give one of {', '.join(_SEARCHES)}"
      )
    search = name, _checked(load(_SEARCHES[name]), fields, where, "decoding.search")
  decoding = _checked(Decoding, decoding, where, "decoding")
  return Model(parts, mixture, decoding, search, tuple(dict.fromkeys(codes)))


def _checked(config: type, values: Fields, where: str, part: str) -> Fields:
  """Returns the given fields if they make a valid configuration; UsageError names the wrong field."""
  fields = dataclasses.fields(config)
  _check_names(values, [field.name for field in fields], where, f"{part}.")
  for field in fields:
    if field.default is dataclasses.MISSING and field.name not in values:
      raise UsageError(f"{where}: {part}.{field.name} is missing")
  if isinstance(remat := values.get("remat"), bool):
    values = {**values, "remat": _REMAT[remat]}
  try:
    made = _made(config, values)
  except limits.FieldError as error:
    raise UsageError(f"{where}: {part}.{error.field} {error.reason}") from None
  except UsageError as error:
    # Gin appends the chain of callers on further lines.
    raise UsageError(f"{where}: {str(error).splitlines()[0]}") from None
  return {name: getattr(made, name) for name in values}


def _made(config: type, fields: Fields) -> Any:
  """Makes a configuration with the class's defaults for all other fields, ignoring gin's bindings."""
  values = {field.name: field.default for field in dataclasses.fields(config)} | dict(fields)
  # By position, because gin evaluates the binding of an argument that is given by name.
  return config(*values.values())


def _object(value: Any, where: str, name: str) -> Fields:
  if not isinstance(value, dict):
    raise UsageError(f"{where}: {name} is not an object {{...}}")
  return value


def _check_names(values: Fields, names: Any, where: str, prefix: str) -> None:
  for name in values:
    if name not in names:
      raise UsageError(
        f"{where}: {prefix}{shown(name, 60)} is not a field of a {NAME}; the fields are {', '.join(names)}"
      )
