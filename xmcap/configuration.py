"""Gin configuration: finds and parses gin files and overrides, and reports errors in one line.

As in t5x, `--gin_file` may be repeated; later files win, and `--gin.NAME=VALUE` wins over files. `gin_files` says which
file a name means.
"""

import contextlib
import copy
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

import gin
from gin import config as gin_config
from gin import config_parser

from xmcap import gin_files, gin_names, gin_types
from xmcap.errors import UsageError
from xmcap.wording import did_you_mean

_Made = TypeVar("_Made")

# Macros that a model folder defines, each with a value of its type.
_OF_MODEL_FOLDERS = {"MODEL_DIR": "", "VOCABULARY": "", "IMAGE_SIZE": 224, "MIXTURE": ""}

_WORTH_SAYING = {
  "Partitioning": ("data", "fsdp", "model", "fsdp_limit"),
  "ViTConfig": ("pool", "dropout_rate", "dtype", "remat", "scan"),
  "T5Config": ("dropout_rate", "dtype", "remat", "scan"),
  "LstmConfig": ("dropout_rate", "dtype"),
  "TextConfig": ("dropout_rate", "dtype", "remat", "scan"),
  "train": ("seed", "microbatches"),
  "Predictor": ("search", "max_length", "batch_size", "cache_dtype"),
}
"""Configurable -> parameters whose defaults `explain_defaults` lists."""


def parse(
  files: Sequence[str | Callable[[], None]],
  overrides: Sequence[str] = (),
  search: gin_files.Search = gin_files.HERE,
  settle: Callable[[], None] | None = None,
) -> None:
  """Parses gin files, then overrides, into gin's global configuration, and checks it.

  A gin file chooses what a run reads and writes, and may import modules: parse only files that the user named.

  Args:
    files: gin files, or functions that make bindings; the last one wins.
    overrides: `NAME=VALUE`; NAME is a macro that a file defines, or `configurable.parameter`. A VALUE that is not a gin
      expression is a string, so a path needs no second quotes; `~` at its start is the home folder.
    search: where files are looked for, and which may import.
    settle: called before the check. With it no file imports xmcap's modules, which may need jax: what is bound to a
      configurable of xmcap that the caller has not imported is passed over.

  Raises:
    UsageError: a file is missing or cannot be parsed, a name is unknown (with a suggestion), or a value has the wrong
      type; and as `Search.read`.
  """
  gin.clear_config()
  skipped = list(gin_names.read()) if settle else []
  for file in files:
    if callable(file):
      file()
    else:
      _parse_file(search.read(file), skipped)
  defined = _macros()
  for override in overrides:
    name, equals, value = override.partition("=")
    if not equals or not name:
      raise UsageError(f"--gin.{override} has no value: write --gin.NAME=VALUE")
    if "." not in name and name not in defined:
      raise _undefined(override, name, defined)
    configurable = name.rpartition(".")[0].rpartition("/")[2]
    if settle and configurable and not gin_config._REGISTRY.matching_selectors(configurable):
      raise UsageError(
        f"--gin.{override}: {configurable} is of a model's weights, and there are none: leave it out"
      )
    binding = f"{name} = {_expression(value)}"
    # gin would run an `import` that a line break brings in.
    parsed = gin_files.statements(binding, f"--gin.{override}")
    if len(parsed) != 1 or not isinstance(parsed[0], config_parser.BindingStatement):
      raise UsageError(f"--gin.{override}: is more than one binding: give each as --gin.NAME=VALUE")
    with _explained(f"--gin.{override}"):
      gin.parse_config(binding, skip_unknown=skipped)
  if settle:
    settle()
  with _explained("the gin files together"):
    gin.finalize()
  gin_types.check()
  # Unlocked, because modules that are imported later still register configurables.
  gin_config._set_config_is_locked(False)


def check_names(
  files: Sequence[str], overrides: Sequence[str] = (), search: gin_files.Search = gin_files.HERE
) -> None:
  """Checks the files and the names in overrides without importing modules, which takes seconds.

  Raises UsageError like `parse`, for a file that is missing or no gin, a macro that no file defines, and an unknown
  configurable or parameter of xmcap. The rest is left to `parse`: macros of a `model.json` among the files, and names
  that other modules define.
  """
  parsed = [
    statement
    for name in files
    if not name.endswith(".json")
    for file in search.read(name).with_includes()
    for statement in file.statements
  ]
  bindings = [statement for statement in parsed if isinstance(statement, config_parser.BindingStatement)]
  imports = [statement for statement in parsed if isinstance(statement, config_parser.ImportStatement)]
  defined = {*_OF_MODEL_FOLDERS, *(binding.selector for binding in bindings if not binding.arg_name)}
  has_model = any(file.endswith(".json") for file in files)
  closed = all(map(gin_files.imports_own, imports))
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
    hint = did_you_mean(parameter, parameters)
    raise UsageError(
      f"--gin.{override}: Configurable '{name}' doesn't have a parameter named '{parameter}'{hint}"
    )


def _no_configurable(override: str, name: str) -> UsageError:
  hint = did_you_mean(name, gin_names.read())
  return UsageError(f"--gin.{override}: No configurable matching '{name}'{hint}")


def _undefined(override: str, name: str, defined: Iterable[str]) -> UsageError:
  names = sorted(defined)
  hint = did_you_mean(name, names) or "."
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
  return gin_types.resolved(gin.query_parameter(f"{name}/gin.macro.value"))[0]


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


def bind_all(configurable: str, parameter: str, value: Any) -> None:
  """Binds a parameter in every scope in which a file binds one of the configurable."""
  selector = gin_config._REGISTRY.get_match(configurable).selector
  for scope in {"", *(scope for scope, bound in gin_config._CONFIG if bound == selector)}:
    gin.bind_parameter((scope, selector, parameter), value)


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


def _parse_file(file: gin_files.GinFile, skipped: Sequence[str]) -> None:
  """Parses a file; without imports of xmcap's modules if names of configurables may be unknown, the `skipped`."""
  opened = [file]  # the file that is being parsed, and those that include it

  @contextlib.contextmanager
  def open_included(name: str) -> Iterator[TextIO]:
    opened.append(opened[-1].includes[name])
    try:
      yield opened[-1].opened(own_imports=not skipped)
    finally:
      opened.pop()

  # gin itself would look in the working folder and in Python packages, as which any folder counts.
  before = gin_config._FILE_READERS, gin_config._LOCATION_PREFIXES
  gin_config._FILE_READERS, gin_config._LOCATION_PREFIXES = [(open_included, lambda name: True)], [""]
  try:
    with _explained(str(file.path)):
      gin.parse_config(file.opened(own_imports=not skipped), skip_unknown=skipped)
  finally:
    gin_config._FILE_READERS, gin_config._LOCATION_PREFIXES = before


def _expression(value: str) -> str:
  if value.startswith(("@", "%")) or gin_files.is_expression(value):
    return value
  return repr(os.path.expanduser(value))  # shells do not expand the `~` of `--gin.NAME=~/runs`


def _macros() -> set[str]:
  return {scope for scope, selector in gin_config._CONFIG if selector == "gin.macro"}


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
    hint = did_you_mean(unknown[1].rsplit(".", 1)[-1], names)
  elif macro:
    message, hint = f"%{macro[1]}: no gin file defines it", did_you_mean(macro[1], _macros())
  elif parameter:
    function = gin_config._REGISTRY.get_match(parameter[1]).wrapped
    hint = did_you_mean(parameter[2], inspect.signature(function).parameters)
  return f"{where}: {message}{hint}"
