"""Gin configuration: finds and parses gin files and overrides, and reports errors in one line.

As in t5x, `--gin_file` may be repeated; later files win, and `--gin.NAME=VALUE` wins over files. Files are searched in
the working folder, in `--gin_search_paths`, and among those of xmcap (`--gin_file=models/bb.gin`).
"""

import contextlib
import copy
import difflib
import inspect
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import gin
from gin import config as gin_config
from gin import resource_reader

from xmcap import gin_names, gin_types
from xmcap.errors import UsageError

_Made = TypeVar("_Made")

_MACRO = re.compile(r"^(\w+)\s*=", re.MULTILINE)
_OTHER_IMPORT = re.compile(r"^\s*(?:import|from)\s+(?!xmcap\.)", re.MULTILINE)
_INCLUDE = re.compile(r"""^\s*include\s+['"](.+?)['"]""", re.MULTILINE)
# Macros that a model folder defines, each with a value of its type.
_OF_MODEL_FOLDERS = {"MODEL_DIR": "", "VOCABULARY": "", "IMAGE_SIZE": 224, "MIXTURE": ""}

_WORTH_SAYING = {
  "Partitioning": ("data", "fsdp", "model", "fsdp_limit"),
  "ViTConfig": ("pool", "dropout_rate", "dtype", "remat", "scan"),
  "T5Config": ("dropout_rate", "dtype", "remat", "scan"),
  "TextConfig": ("dropout_rate", "dtype", "remat", "scan"),
  "train": ("seed", "microbatches"),
  "Predictor": ("search", "max_length", "batch_size", "cache_dtype"),
}
"""Configurable -> parameters whose defaults `explain_defaults` lists."""


def gin_folder() -> pathlib.Path:
  """The folder of xmcap's gin files, installed or in a checkout."""
  package = pathlib.Path(__file__).parent
  installed = package / "gin"
  return installed if installed.is_dir() else package.parent / "gin"


def parse(
  files: Sequence[str | Callable[[], None]],
  overrides: Sequence[str] = (),
  search_paths: Sequence[str] = (),
) -> None:
  """Parses gin files, then overrides, into gin's global configuration, and checks it.

  A gin file can import any module, and so run any code: parse only files that the user named.

  Args:
    files: gin files, or functions that make bindings; the last one wins.
    overrides: `NAME=VALUE`; NAME is a macro that a file defines, or `configurable.parameter`. A VALUE that is not a gin
      expression is a string, so a path needs no second quotes; `~` at its start is the home folder.
    search_paths: folders to search, after the working folder.

  Raises:
    UsageError: a file is missing or cannot be parsed, a name is unknown (with a suggestion), or a value has the wrong
      type.
  """
  gin.clear_config()
  folders = ["", *search_paths, str(gin_folder())]
  for file in files:
    if callable(file):
      file()
    else:
      _parse_file(file, folders)
  defined = _macros()
  for override in overrides:
    name, equals, value = override.partition("=")
    if not equals or not name:
      raise UsageError(f"--gin.{override} has no value: write --gin.NAME=VALUE")
    if "." not in name and name not in defined:
      raise _undefined(override, name, defined)
    with _explained(f"--gin.{override}"):
      gin.parse_config(f"{name} = {_expression(value)}")
  with _explained("the gin files together"):
    gin.finalize()
  gin_types.check()
  # Unlocked, because modules that are imported later still register configurables.
  gin_config._set_config_is_locked(False)


def check_names(
  files: Sequence[str], overrides: Sequence[str] = (), search_paths: Sequence[str] = ()
) -> None:
  """Checks the files and the names in overrides without importing modules, which takes seconds.

  Raises UsageError like `parse`, for a missing file, a macro that no file defines, and an unknown configurable or
  parameter of xmcap. The rest is left to `parse`: files that gin cannot read, macros of a `model.json` among the files,
  and names that other modules define.
  """
  folders = ["", *search_paths, str(gin_folder())]
  text = "".join(
    _text_with_includes(_find(file, folders), folders) for file in files if not file.endswith(".json")
  )
  defined = {*_OF_MODEL_FOLDERS, *_MACRO.findall(text)}
  has_model = any(file.endswith(".json") for file in files)
  closed = not _OTHER_IMPORT.search(text)
  for override in overrides:
    name, equals, value = override.partition("=")
    if not equals:
      continue
    for macro in (re.fullmatch(r"(\w+)", name), re.fullmatch(r"%(\w+)", value)):
      if macro and macro[1] not in defined and not has_model:
        raise _undefined(override, macro[1], defined)
    if parts := re.fullmatch(r"(?:.*/)?(?:[\w.]+\.)?(\w+)\.(\w+)", name):
      _check_parameter(override, parts[1], parts[2], closed)
    reference = re.match(r"@(?:[\w.]+[./])*(\w+)", value)
    if closed and reference and reference[1] not in gin_names.read():
      raise _no_configurable(override, reference[1])


def _check_parameter(override: str, name: str, parameter: str, closed: bool) -> None:
  """UsageError for an unknown parameter and, if all configurables are xmcap's (`closed`), an unknown configurable."""
  parameters_of = gin_names.read()
  if name not in parameters_of:
    if closed and name not in ("macro", "constant", "singleton"):
      raise _no_configurable(override, name)
    return
  parameters = parameters_of[name]
  if parameters is not None and parameter not in parameters:
    hint = _did_you_mean(parameter, parameters)
    raise UsageError(
      f"--gin.{override}: Configurable '{name}' doesn't have a parameter named '{parameter}'{hint}"
    )


def _no_configurable(override: str, name: str) -> UsageError:
  hint = _did_you_mean(name, gin_names.read())
  return UsageError(f"--gin.{override}: No configurable matching '{name}'{hint}")


def _text_with_includes(path: pathlib.Path, folders: Sequence[str], depth: int = 8) -> str:
  """The text of a gin file and of the files that it includes, as far as they can be read."""
  try:
    text = path.read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError):
    return ""
  for name in _INCLUDE.findall(text) if depth else ():
    included = _look_up(name, folders)
    text += _text_with_includes(included, folders, depth - 1) if included else ""
  return text


def _look_up(file: str, folders: Sequence[str]) -> pathlib.Path | None:
  return next((path for folder in folders if (path := pathlib.Path(folder, file)).is_file()), None)


def _find(file: str, folders: Sequence[str]) -> pathlib.Path:
  located = _look_up(file, folders)
  if located is None:
    names = [str(path.relative_to(gin_folder())) for path in gin_folder().rglob("*.gin")]
    looked = ", ".join(str(folder) or "." for folder in folders)
    raise UsageError(f"--gin_file={file}: no such file in {looked}{_did_you_mean(file, names)}")
  return located


def _undefined(override: str, name: str, defined: Iterable[str]) -> UsageError:
  names = sorted(defined)
  hint = _did_you_mean(name, names) or "."
  return UsageError(
    f"--gin.{override}: no gin file defines {name}{hint} Defined: {', '.join(names) or 'none'}"
  )


def has_macro(name: str) -> bool:
  """Whether a file that was read so far defines a macro such as MIXTURE."""
  return name in _macros()


def macro(name: str) -> str:
  """The value of a macro such as MODEL_DIR; UsageError if no gin file defines it."""
  if name not in _macros():
    raise UsageError(f"no gin file defines {name}: add a line such as {name} = 'DIR' to the run's file")
  return gin.query_parameter(f"{name}/gin.macro.value")


def unresolved(value: Any) -> Any:
  """The value of a macro that is bound to a parameter, with its references; another value as it is."""
  name = getattr(value, "scoped_selector", "").partition("/")[0]
  return macro(name) if name and has_macro(name) else value


def stand_in_for_model() -> None:
  """Defines the macros that a model folder would define and no file has, as a function among the files of `parse`."""
  for name in _OF_MODEL_FOLDERS.keys() - _macros():
    gin.bind_parameter((name, "gin.macro", "value"), _OF_MODEL_FOLDERS[name])


def given(configurable: str, parameter: str) -> Any:
  """The value that is bound to a parameter; None if there is none, or no file has imported the configurable."""
  try:
    values = gin.get_bindings(configurable, resolve_references=False)
  except ValueError:
    return None
  return resolve(values.get(parameter))


def bound(configurable: Callable[..., _Made]) -> _Made:
  """Calls a configurable with its gin bindings only."""
  return configurable()


def resolve(value: Any) -> Any:
  """Evaluates the references and macros in a bound value, as gin does when it passes a value."""
  return copy.deepcopy(value)


def explain() -> str:
  """The resolved configuration as gin text, with every macro and binding once."""
  text = gin.config_str(max_line_length=100)
  # Gin invents an alias for each module of a package after the first; unused aliases are removed.
  for module, alias in re.findall(r"^import (\S+) as (\w+)$", text, re.MULTILINE):
    if not re.search(rf"\b{alias}\.", text):
      text = text.replace(f"import {module} as {alias}\n", f"import {module}\n")
  return text


def explain_defaults() -> str:
  """Gin comments, one line per default that affects mesh, memory, precision or search; "" if there are none."""
  lines = []
  for name, parameters in _WORTH_SAYING.items():
    if not gin_config._REGISTRY.matching_selectors(name):
      continue
    function = gin_config._REGISTRY.get_match(name).wrapped
    values = gin.get_bindings(name, resolve_references=False)
    defaults = inspect.signature(function).parameters
    lines += [
      f"# {name}.{one} = {defaults[one].default!r}"
      for one in parameters
      if one not in values and defaults[one].default not in (gin.REQUIRED, inspect.Parameter.empty)
    ]
  return "\n".join(["# Defaults that no file sets:", "# " + "=" * 98, *lines]) + "\n" if lines else ""


def bindings() -> dict[str, str]:
  """All bindings, with values in gin syntax: `BATCH_SIZE` -> `128`, `train.seed` -> `0`.

  Objects that cannot be written in gin syntax are left out, as in `explain`.
  """
  texts = {}
  for (scope, selector), parameters in gin_config._CONFIG.items():
    short = gin_config._REGISTRY.minimal_selector(selector)
    for parameter, value in parameters.items():
      name = scope if selector == "gin.macro" else f"{scope}/{short}.{parameter}".lstrip("/")
      text = gin_config._format_value(value)
      if text is not None:
        texts[name] = text
  return texts


def _parse_file(file: str, folders: Sequence[str]) -> None:
  path = _find(file, folders)
  with _explained(str(path)):
    # An `include` is searched in the same folders.
    for folder in reversed(folders):
      if folder and folder not in gin_config._LOCATION_PREFIXES:
        gin.add_config_file_search_path(folder)
    with _no_packages():
      gin.parse_config_file(str(path.resolve()))


@contextlib.contextmanager
def _no_packages() -> Iterator[None]:
  """A context in which gin searches an `include` only in folders.

  Otherwise it would search Python packages too, and any folder counts as one: a folder `runs` in the working folder
  would hide runs/train.gin.
  """
  readers = gin_config._FILE_READERS
  gin_config._FILE_READERS = [pair for pair in readers if pair[0] is not resource_reader.system_path_reader]
  try:
    yield
  finally:
    gin_config._FILE_READERS = readers


def _expression(value: str) -> str:
  if value.startswith(("@", "%")):
    return value
  try:
    gin_config.parse_value(value)
  except SyntaxError:
    return repr(os.path.expanduser(value))  # shells do not expand the `~` of `--gin.NAME=~/runs`
  return value


def _macros() -> set[str]:
  return {scope for scope, selector in gin_config._CONFIG if selector == "gin.macro"}


def _did_you_mean(name: str, names: Iterable[str]) -> str:
  nearest = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
  return f"; did you mean {nearest[0]}?" if nearest else ""


@contextlib.contextmanager
def _explained(origin: str) -> Iterator[None]:
  """Converts an error of gin to a UsageError of one line: where, what, and the nearest known name."""
  try:
    yield
  except SyntaxError as error:
    where = f"{error.filename or origin}, line {error.lineno}"
    raise UsageError(f"{where}: gin cannot read this: {(error.text or error.msg).strip()}") from None
  except ImportError as error:
    raise UsageError(f"{_one_line(origin, error)}: install the package, or fix the import") from None
  except (ValueError, NameError, AttributeError) as error:
    raise UsageError(_one_line(origin, error)) from None


def _one_line(origin: str, error: Exception) -> str:
  text = str(error)
  message = text.split("\n", maxsplit=1)[0].rstrip(".")
  line = re.search(r'In file "(.*?)", line (\d+)', text)
  where = f"{line[1]}, line {line[2]}" if line else origin
  unknown = re.search(r"No configurable matching (?:reference )?'@?([^']*?)(?:\(\))?'", text)
  macro = re.search(r"No bindings specified for '(\w+)/gin\.macro'", text)
  parameter = re.search(r"Configurable '(.*?)' doesn't have a parameter named '(.*?)'", text)
  hint = ""
  if unknown:
    names = [selector.rsplit(".", 1)[-1] for selector, _ in gin_config._REGISTRY.items()]
    hint = _did_you_mean(unknown[1].rsplit(".", 1)[-1], names)
  elif macro:
    message, hint = f"%{macro[1]}: no gin file defines it", _did_you_mean(macro[1], _macros())
  elif parameter:
    function = gin_config._REGISTRY.get_match(parameter[1]).wrapped
    hint = _did_you_mean(parameter[2], inspect.signature(function).parameters)
  return f"{where}: {message}{hint}"
