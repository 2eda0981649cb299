"""Shared by the subcommands: the parser, the declaration of commands and options, and gin files."""

import argparse
import contextlib
import difflib
import functools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from xmcap import languages, terminal, wording
from xmcap.errors import UsageError
from xmcap.files import paths as paths_lib
from xmcap.progress import Progress

T = TypeVar("T")

SEVERAL: dict[str, Any] = {"action": "extend", "nargs": "+", "default": []}
"""Settings of an option that takes several values and may be repeated."""


class CommandParser(argparse.ArgumentParser):
  """An argparse parser that reports wrong usage as a UsageError of one line, also an option that is given twice."""

  def __init__(self, *arguments, **settings):
    super().__init__(*arguments, **settings)
    for name in (None, "store"):
      self.register("action", name, StoreOnce)
    self.options: dict[str, tuple[str, Any]] = {}

  def parse_known_args(self, args=None, namespace=None):
    args = sys.argv[1:] if args is None else list(args)
    self.options = {}
    parsed, rest = super().parse_known_args(args, namespace)
    if parsed.prog != self.prog:
      before = args[: args.index(parsed.prog.removeprefix(f"{self.prog} ").split()[0])]
      if option := next((word for word in before if re.match("-(?!-gin[.])", word)), None):
        raise UsageError(f"{option} has no effect before the subcommand: give it after '{parsed.prog}'")
    return parsed, rest

  def error(self, message):
    raise UsageError(f"{message} (see {self.prog} --help)")


class StoreOnce(argparse.Action):
  """Stores the value of an option. A second value would replace the first in silence, so it is a UsageError.

  An option of several values has the action `append` or `extend` (`SEVERAL`).
  """

  def __call__(self, parser, namespace, values, option_string=None):
    assert isinstance(parser, CommandParser)
    if option_string and self.dest in parser.options:
      option, value = parser.options[self.dest]
      names = f"{option} is" if option == option_string else f"{option} and {option_string} are"
      raise UsageError(f"{names} given twice: '{_written(value)}' and '{_written(values)}'; give it once")
    if option_string:
      parser.options[self.dest] = option_string, values
    setattr(namespace, self.dest, values)


def _written(value: Any) -> str:
  return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
  """Shows defaults that are neither off nor empty."""

  def _get_help_string(self, action):
    return super()._get_help_string(action) if action.default else action.help


def add_command(
  commands, name: str, run, summary: str, details: str = "", extra: str = ""
) -> argparse.ArgumentParser:
  """Declares a subcommand, which calls `run(arguments)`, and needs an extra (`extras.MODULES`) or none."""
  needs = f"Needs the extra {extra} (docs/install.md)." if extra else ""
  command = commands.add_parser(
    name,
    help=summary,
    description=" ".join(filter(None, (f"{summary[0].upper()}{summary[1:]}.", details, needs))),
    allow_abbrev=False,
    formatter_class=_Formatter,
  )
  command.set_defaults(run=run, options=command._option_string_actions, prog=command.prog, extra=extra)
  return command


def add_group(commands, name: str, metavar: str, summary: str, **texts: str):
  """Declares a command with subcommands, and returns the object to which they are added."""
  group = commands.add_parser(name, help=summary, allow_abbrev=False, **texts)
  return add_subcommands(group, metavar)


def add_subcommands(group: argparse.ArgumentParser, metavar: str):
  """Lets a parser take a subcommand; returns the object to which they are added. Without one, `cli` lists them."""
  group.set_defaults(list_commands=group.print_help, options=group._option_string_actions, prog=group.prog)
  return group.add_subparsers(metavar=metavar, parser_class=CommandParser)


def text(
  command, name: str, metavar: str | None, help: str, default: Any = None, short: str = "",
  endings: Sequence[str] = (), **settings: Any,
) -> None:  # fmt: skip
  """Adds an option, or a positional argument if the name has no dashes; `settings` are argparse's.

  `endings` are those of a file that is written, such as .csv: UsageError for another one.
  """
  if endings:
    settings["type"] = functools.partial(_file_to_write, name, endings)
  command.add_argument(*filter(None, (short, name)), metavar=metavar, help=help, default=default, **settings)


def _file_to_write(option: str, endings: Sequence[str], value: str) -> str:
  check_ending(option, value, endings)
  return value


def check_ending(option: str, value: str, endings: Sequence[str]) -> None:
  """Raises UsageError if an option names a file to write whose ending says another format."""
  if value and not value.endswith(os.sep) and not value.lower().endswith(tuple(endings)):
    *others, last = endings
    listed = f"{', '.join(others)} or {last}" if others else last
    raise UsageError(f"{option}={value}: is written as {listed}: give a name that ends so")


def flag(command, name: str, help: str) -> None:
  """Adds an option without a value."""
  command.add_argument(name, action="store_true", help=help)


def add_raw(command) -> None:
  """Adds the option of a command that writes CSV or TSV; `cli` hands it to `spreadsheet.raw`."""
  flag(
    command, "--raw", "CSV and TSV for programs: no apostrophe before a text that a spreadsheet would compute"
  )


def number(
  command, name: str, help: str, default: int | None = None, least: int = 0, most: int | None = None,
  metavar: str = "N", **settings: Any,
) -> None:  # fmt: skip
  """Adds an option that is an integer from `least` to `most`; UsageError for any other value."""

  def parsed(value: str) -> int:
    integer = int(value) if re.fullmatch("-?[0-9]{1,30}", value) else None
    if integer is None or integer < least or (most is not None and integer > most):
      raise UsageError(f"{name}={value}: give a number from {least}{'' if most is None else f' to {most:,}'}")
    return integer

  command.add_argument(name, type=parsed, metavar=metavar, help=help, default=default, **settings)


def add_columns(command) -> None:
  """Adds the options with the names of columns of tables of captions; `column_names` reads them."""
  group = command.add_argument_group("columns", "Recognised by their names and values unless given.")
  captions = (
    "captions, or LANGUAGE=NAME for one language, such as fa=Persian,ca=Catalan; the others are not read"
  )
  text(group, "--image_column", "NAME", "the picture's file, or the picture itself", "")
  text(group, "--caption_columns", "NAME,...", captions, "")
  text(group, "--language_column", "NAME", "the language of a line's captions", "")


def column_names(arguments: argparse.Namespace, default_language: str = ""):
  """Returns what the options of `add_columns` say."""
  from xmcap.reading.columns import ColumnNames

  return ColumnNames(
    arguments.image_column,
    tuple(filter(None, arguments.caption_columns.split(","))),
    arguments.language_column,
    default_language=default_language,
  )


def add_languages(command, help: str, every: bool = False) -> None:
  """Adds the option for languages: a tuple of codes, or None without it; UsageError for an unknown code.

  With `every` the word `every` stands for `languages.EVERY`.
  """

  def parse(codes: str) -> tuple[str, ...] | None:
    if every and (codes,) == languages.EVERY:
      return languages.EVERY
    return languages.parse(codes) if codes else None

  text(command, "--languages", "CODES", help, type=parse)


def address(value: str) -> str:
  """The type of an option for a path or an address; UsageError for an unknown scheme."""
  paths_lib.check_scheme(value)
  return value


def add_model(command, folder: str = "the folder that a training run wrote", required: bool = True) -> None:
  """Adds the options for the folder of a model, its checkpoint, and which weights of it."""
  text(command, "--model_dir", "DIR", folder, "", required=required, type=address)
  number(command, "--step", "the checkpoint to use; default: the best or newest")
  add_weights(command)


def add_weights(command) -> None:
  """Adds the option for the weights of a checkpoint."""
  which = "the EMA of a run's weights, or the raw ones; default: the EMA, if the run has one"
  text(command, "--weights", None, which, choices=("ema", "raw"))


def add_similarity(command) -> None:
  """Adds the option for the similarity of two embeddings."""
  how = "cosine, or dot for the product as it is"
  text(command, "--similarity", "NAME", how, "cosine", choices=("cosine", "dot"))


def add_processes(command) -> None:
  """Adds the option for the number of processes."""
  number(command, "--processes", "number of processes; default: one per core", least=1)


def add_gin(command) -> None:
  """Adds the options for gin files and overrides."""
  group = command.add_argument_group("configuration")
  text(group, "--gin_file", "FILE", "a gin file; later ones win (repeatable)", [], action="append")
  paths = "your folders of gin files, separated by commas; these files may import"
  text(group, "--gin_search_paths", "DIRS", paths, "")
  flag(
    group,
    "--allow_import",
    "let every gin file import modules, which run their code; default: only xmcap's modules",
  )
  text(group, "--gin.NAME", "VALUE", "override one binding (repeatable)", dest="_")
  flag(group, "--explain", "print the resolved configuration and exit")


def overrides(arguments, rest: Sequence[str]) -> list[str]:
  """Returns `NAME=VALUE` for each `--gin.NAME=VALUE`; UsageError for any other unknown argument.

  Of several values of a NAME the last wins, as in t5x, and a line says so.
  """
  bindings = []
  for word in rest:
    if hasattr(arguments, "gin_file") and word.startswith("--gin."):
      bindings.append(word.removeprefix("--gin."))
      continue
    nearest = difflib.get_close_matches(word.split("=")[0], arguments.options, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise UsageError(f"{arguments.prog}: unknown argument {word}{hint} (see {arguments.prog} --help)")
  last = {binding.partition("=")[0]: binding for binding in bindings}
  for binding in bindings:
    if (later := last[binding.partition("=")[0]]) != binding:
      say(f"xmcap: --gin.{binding} has no effect: --gin.{later} comes later and wins, as in t5x")
  return bindings


def configure(arguments, model_dir: str = "", default: Sequence[str] = ()) -> bool:
  """Parses the gin files and overrides of a command; returns False after printing them for --explain.

  They are parsed after what a `model_dir` says of its model, and before what the weights say that a run starts from
  (`evaluation/pretrained_models.py`). `default` are xmcap's own files for a command that has none.
  """
  from xmcap import configuration

  files, search = gin_files(arguments, default)
  if model_dir:
    from xmcap.evaluation import model_dir as model_dir_lib  # slow, and not needed to report a wrong name

    model_dir_lib.parse(model_dir, files, arguments.overrides, search)
  else:
    parse_run(arguments, files, search)
  if arguments.explain:
    print(configuration.explain())
    print(configuration.explain_defaults(), end="")
  return not arguments.explain


def parse_run(arguments, files, search, locate: Callable[[str], str | None] = lambda path: path) -> None:
  """Parses the configuration of a run with the models of its PRETRAINED folders, which `locate` finds here."""
  from xmcap import configuration

  configuration.parse(files, arguments.overrides, search)
  if pretrained := configuration.given("train", "pretrained"):
    from xmcap.evaluation import pretrained_models  # no slower now: whoever binds `train` has imported jax

    models = pretrained_models.bind(pretrained, arguments.gin_file, say, locate)
    if models:
      configuration.parse([*files, models], arguments.overrides, search)


def check_names(arguments, default: Sequence[str] = (), folder: str = ""):
  """Runs `configuration.check_names`, before slow imports; returns the `Search`, from a working folder."""
  from xmcap import configuration
  from xmcap import gin_files as gin_files_lib

  paths = [path for path in arguments.gin_search_paths.split(",") if path]
  search = gin_files_lib.Search(paths, arguments.allow_import, folder)
  configuration.check_names(arguments.gin_file or default, arguments.overrides, search)
  return search


def gin_files(arguments, default: Sequence[str] = (), folder: str = ""):
  """The gin files of a command, or xmcap's own of these names, and the `Search`; after `check_names`."""
  from xmcap import gin_files as gin_files_lib

  default = [str(gin_files_lib.gin_folder() / name) for name in default]
  search = check_names(arguments, default, folder)
  return with_models(arguments.gin_file or default), search


def with_models(names: Sequence[str]) -> list[str | Callable[[], None]]:
  """Returns gin files, of which a `model.json` becomes a function that makes its bindings."""
  return [functools.partial(_bind_model, name) if name.endswith(".json") else name for name in names]


def _bind_model(path: str) -> None:
  from xmcap.evaluation import model_dir
  from xmcap.models import model_json

  model_dir.bind(model_json.read(path))


def require(arguments, names: Sequence[str], instead: str = "") -> None:
  """Raises UsageError if one of these options has no value; `instead` says what may take their place."""
  if missing := ", ".join(f"--{name}" for name in names if not getattr(arguments, name)):
    raise UsageError(f"these arguments are required: {missing}{instead} (see {arguments.prog} --help)")


def refuse(arguments, names: Sequence[str], why: str) -> None:
  """Raises UsageError, `--NAME` and why, if one of these options has a value."""
  for name in names:
    if getattr(arguments, name):
      raise UsageError(f"--{name} {why}")


def say(line: str) -> None:
  """Prints a line of progress to standard error, apart from the results."""
  print(terminal.shown(line, limit=None), file=sys.stderr)


@contextlib.contextmanager
def saying(message: str, every: float = 10) -> Iterator[None]:
  """Prints what is being done, and then every so many seconds how long it has taken so far."""
  begun, ended = time.monotonic(), threading.Event()

  def repeat() -> None:
    while not ended.wait(every):
      say(f"{message}: {time.monotonic() - begun:.0f} s so far")

  say(message)
  teller = threading.Thread(target=repeat, daemon=True)
  teller.start()
  try:
    yield
  finally:
    ended.set()
    teller.join()


def reporting(rows: Iterable[T], label: str, count: int) -> Iterator[T]:
  """Yields rows, and prints how many of the `count` are done; `label` says what they are."""
  progress = Progress(say, label, count)
  for done, row in enumerate(rows, 1):
    yield row
    progress(done)


def check_local(options: Mapping[str, str | Sequence[str] | None]) -> None:
  """Checks that options name local paths: {"--images": path or paths}; UsageError for an address in a bucket."""
  for option, paths in options.items():
    for path in [paths] if isinstance(paths, str) else paths or ():
      if "://" in path:
        raise UsageError(
          f"{option}={path}: this command reads and writes local files: copy them here (gcloud storage cp, aws s3 cp),"
          " and what it makes to the bucket afterwards"
        )


def named_paths(option: str, values: Sequence[str], unnamed: bool = False) -> dict[str, str]:
  """Parses the values NAME=PATH of an option to {NAME: PATH}; UsageError for any other.

  With `unnamed`, a PATH alone is named by `wording.names_of_paths`, also one that has a `=`.
  """
  alone = [value for value in values if unnamed and ("=" not in value or os.path.exists(value))]
  names = dict(zip(alone, wording.names_of_paths(list(map(os.path.abspath, alone))), strict=True))
  paths: dict[str, str] = {}
  for value in values:
    name, _, path = (names[value], "", value) if value in names else value.partition("=")
    name = name.strip()
    if not (name and path):
      raise UsageError(f"{option}={value}: write it as {option}=NAME=PATH")
    if name in paths:
      raise UsageError(f"'{name}' is named twice: give one of them another name, as OTHER={path}")
    paths[name] = path
  check_local({option: list(paths.values())})
  return paths
