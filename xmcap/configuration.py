"""Gin configuration: finding the files, parsing them with overrides, and saying what is wrong in one line.

The meaning is t5x's: `--gin_file` may be given many times, later files and then `--gin.NAME=VALUE`
overrides win. Files are looked up in the working folder, in `--gin_search_paths`, and among the gin
files that travel with xmcap, so that `--gin_file=models/bb.gin` needs no search path.
"""

import contextlib
import copy
import difflib
import inspect
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin
from gin import config as gin_config
from gin import resource_reader

from xmcap import gin_types
from xmcap.errors import UsageError


def gin_folder() -> pathlib.Path:
  """Returns the folder of the gin files that travel with xmcap, installed or in a checkout."""
  package = pathlib.Path(__file__).parent
  installed = package / "gin"
  return installed if installed.is_dir() else package.parent / "gin"


def parse(
  files: Sequence[str | Callable[[], None]],
  overrides: Sequence[str] = (),
  search_paths: Sequence[str] = (),
  macros: Mapping[str, str] | None = None,
  bind: Callable[[], None] | None = None,
) -> None:
  """Parses gin files, then the overrides, into gin's global configuration, and checks it.

  A gin file can import any module, and so can run anything: each is one that the user named.

  Args:
    files: gin files, or functions that bind something; the last one wins.
    overrides: `NAME=VALUE` each. NAME is a macro that a file defines, or `configurable.parameter`.
      A VALUE that is no gin expression is taken as a string, so a path needs no second quotes.
    search_paths: folders to look the files up in, after the working folder.
    macros: set after the files and before the overrides.
    bind: binds what comes before the files.

  Raises:
    UsageError: a file is missing or cannot be parsed, a name is unknown (with the nearest one), or a value is of
      another type than its parameter takes.
  """
  gin.clear_config()
  if bind is not None:
    bind()
  places = ["", *search_paths, str(gin_folder())]
  for file in files:
    if callable(file):
      file()
    else:
      _parse_file(file, places)
  for name, value in (macros or {}).items():
    gin.bind_parameter((name, "gin.macro", "value"), value)
  defined = _macros()
  for override in overrides:
    name, equals, value = override.partition("=")
    if not equals or not name:
      raise UsageError(f"--gin.{override} has no value: write --gin.NAME=VALUE")
    if "." not in name and name not in defined:
      raise UsageError(
        f"--gin.{name}: no gin file defines {name}{_did_you_mean(name, defined)}"
        f" Defined: {', '.join(sorted(defined)) or 'none'}"
      )
    with _Explained(f"--gin.{override}"):
      gin.parse_config(f"{name} = {_expression(value)}")
  with _Explained("the gin files together"):
    gin.finalize()
  gin_types.check()
  # Modules that are imported later, when they are needed, still register what they hold.
  gin_config._set_config_is_locked(False)


def macro(name: str) -> str:
  """Returns the value of a macro that every run defines, such as MODEL_DIR; UsageError if it is not defined."""
  if name not in _macros():
    raise UsageError(f"no gin file defines {name}: add a line such as {name} = 'DIR' to the run's file")
  return gin.query_parameter(f"{name}/gin.macro.value")


def resolve(value: Any) -> Any:
  """What gin would hand over for a bound value: references and macros in it are evaluated."""
  return copy.deepcopy(value)


def explain() -> str:
  """Returns the resolved configuration as gin text, every macro and binding once."""
  return gin.config_str(max_line_length=100)


def bindings() -> dict[str, str]:
  """Returns what is bound, each value as gin writes it: `BATCH_SIZE` -> `128`, `train.seed` -> `0`.

  Objects that no gin file could hold are left out, as by `explain`.
  """
  found = {}
  for (scope, selector), parameters in gin_config._CONFIG.items():
    short = gin_config._REGISTRY.minimal_selector(selector)
    for parameter, value in parameters.items():
      name = scope if selector == "gin.macro" else f"{scope}/{short}.{parameter}".lstrip("/")
      text = gin_config._format_value(value)
      if text is not None:
        found[name] = text
  return found


def _parse_file(file: str, places: Sequence[str]) -> None:
  found = next((path for place in places if (path := pathlib.Path(place, file)).is_file()), None)
  if found is None:
    known = [str(path.relative_to(gin_folder())) for path in gin_folder().rglob("*.gin")]
    looked = ", ".join(str(place) or "." for place in places)
    raise UsageError(f"--gin_file={file}: no such file in {looked}{_did_you_mean(file, known)}")
  with _Explained(str(found)):
    # Includes inside a gin file are looked up in the same places.
    for place in reversed(places):
      if place and place not in gin_config._LOCATION_PREFIXES:
        gin.add_config_file_search_path(place)
    with _no_packages():
      gin.parse_config_file(str(found.resolve()))


@contextlib.contextmanager
def _no_packages() -> Iterator[None]:
  """Within it gin looks for an `include` in folders alone.

  It would look in Python's packages too, where any folder counts as one: with a folder `runs` in the working folder it
  fails over runs/train.gin.
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
    return repr(value)
  return value


def _macros() -> set[str]:
  return {scope for scope, selector in gin_config._CONFIG if selector == "gin.macro"}


def _did_you_mean(name: str, known) -> str:
  nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
  return f"; did you mean {nearest[0]}?" if nearest else "."


class _Explained:
  """Turns what gin raises into a UsageError of one line: where, what, and the nearest known name."""

  def __init__(self, origin: str):
    self._origin = origin

  def __enter__(self):
    return self

  def __exit__(self, kind, error, traceback):
    if isinstance(error, SyntaxError):
      where = f"{error.filename or self._origin}, line {error.lineno}"
      raise UsageError(f"{where}: gin cannot read this: {(error.text or error.msg).strip()}") from None
    if isinstance(error, ImportError):
      raise UsageError(f"{self._one_line(str(error))}: install what it needs, or mend the import") from None
    # Names and attributes: with dynamic registration, of what a file imports.
    if isinstance(error, ValueError | NameError | AttributeError):
      raise UsageError(self._one_line(str(error))) from None
    return False

  def _one_line(self, text: str) -> str:
    message = text.split("\n", maxsplit=1)[0].rstrip(".")
    place = re.search(r'In file "(.*?)", line (\d+)', text)
    where = f"{place[1]}, line {place[2]}" if place else self._origin
    unknown = re.search(r"No configurable matching (?:reference )?'@?([^']*?)(?:\(\))?'", text)
    parameter = re.search(r"Configurable '(.*?)' doesn't have a parameter named '(.*?)'", text)
    hint = ""
    if unknown:
      names = [selector.rsplit(".", 1)[-1] for selector, _ in gin_config._REGISTRY.items()]
      hint = _did_you_mean(unknown[1].rsplit(".", 1)[-1], names)
    elif parameter:
      function = gin_config._REGISTRY.get_match(parameter[1]).wrapped
      hint = _did_you_mean(parameter[2], inspect.signature(function).parameters)
    return f"{where}: {message}{hint.rstrip('.')}"
