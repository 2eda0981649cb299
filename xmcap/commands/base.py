"""Common to the subcommands: the parser, the declaration of a command and of its options, and their gin files."""

import argparse
import contextlib
import functools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmcap import terminal
from xmcap.errors import UsageError


class Parser(argparse.ArgumentParser):
  """argparse, but a wrong call is a UsageError of one line."""

  def error(self, message):
    raise UsageError(f"{message} (see {self.prog} --help)")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
  """Shows the defaults that are neither off nor empty."""

  def _get_help_string(self, action):
    return super()._get_help_string(action) if action.default else action.help


def add_command(
  commands, name: str, run, summary: str, details: str = "", hands_words_on: bool = False
) -> argparse.ArgumentParser:
  """Declares a subcommand, which calls `run(arguments)`.

  One that `hands_words_on` gives its arguments to another program as they are; those of all others must be UTF-8.
  """
  command = commands.add_parser(
    name,
    help=summary,
    description=f"{summary[0].upper()}{summary[1:]}. {details}".strip(),
    allow_abbrev=False,
    formatter_class=_Formatter,
  )
  command.set_defaults(
    run=run, options=command._option_string_actions, prog=command.prog, hands_words_on=hands_words_on
  )
  return command


def add_group(commands, name: str, metavar: str, summary: str, **texts: str):
  """Declares a command of commands, and returns what they are added to."""
  group = commands.add_parser(name, help=summary, allow_abbrev=False, **texts)
  return group.add_subparsers(metavar=metavar, required=True, parser_class=Parser)


def text(
  command, name: str, metavar: str | None, help: str, default: Any = None, short: str = "", **settings: Any
) -> None:
  """Adds an option, or a positional argument where the name has no dashes; `settings` are argparse's."""
  command.add_argument(*filter(None, (short, name)), metavar=metavar, help=help, default=default, **settings)


def flag(command, name: str, help: str) -> None:
  """Adds an option without a value."""
  command.add_argument(name, action="store_true", help=help)


def number(
  command, name: str, help: str, default: int | None = None, least: int = 0, most: int | None = None,
  metavar: str = "N", **settings: Any,
) -> None:  # fmt: skip
  """Adds an option that is a whole number from `least` to `most`; UsageError for any other value."""

  def parsed(value: str) -> int:
    found = int(value) if re.fullmatch("-?[0-9]{1,30}", value) else None
    if found is None or found < least or (most is not None and found > most):
      raise UsageError(f"{name}={value}: give a number from {least}{'' if most is None else f' to {most:,}'}")
    return found

  command.add_argument(name, type=parsed, metavar=metavar, help=help, default=default, **settings)


def add_output(command) -> None:
  """Adds the options of a table of rankings: where it goes, its languages, intervals and title."""
  text(command, "--out", "DIR", "where the tables go", short="-o", required=True)
  text(command, "--languages", "CODES", "only these; default: all that are named", "")
  number(
    command, "--bootstrap", "resamples of the pictures for 95%% intervals, such as 1000", 0, most=100_000
  )
  number(command, "--seed", "of the resamples and of random classes", 0)
  text(command, "--title", "TEXT", "heads the tables", "")


def add_processes(command) -> None:
  """Adds the option that says how many processes share the work."""
  number(command, "--processes", "default: one a core", least=1)


def add_gin(command) -> None:
  """Adds the options that name gin files and override bindings."""
  group = command.add_argument_group("configuration")
  text(group, "--gin_file", "FILE", "a gin file; later ones win (repeatable)", [], action="append")
  text(group, "--gin_search_paths", "DIRS", "folders to look gin files up in, comma separated", "")
  text(group, "--gin.NAME", "VALUE", "override one binding (repeatable)", dest="_")
  flag(group, "--explain", "print the resolved configuration and exit")


def configure(arguments, parse: Callable | None = None, default: Sequence[str] = ()) -> bool:
  """Parses the gin files and overrides of a command; returns False if --explain only wants to see the result.

  `parse` is `configuration.parse` or takes the same arguments; `default` are files for a command without any.
  """
  from xmcap import configuration

  folders = check_names(arguments, default)
  (parse or configuration.parse)(gin_files(arguments) or default, arguments.overrides, folders)
  if arguments.explain:
    print(configuration.explain())
    print(configuration.explain_defaults(), end="")
  return not arguments.explain


def check_names(arguments, default: Sequence[str] = ()) -> list[str]:
  """Refuses what `configuration.check_names` does, before seconds of imports; returns the folders of gin files."""
  from xmcap import configuration

  folders = [path for path in arguments.gin_search_paths.split(",") if path]
  configuration.check_names(arguments.gin_file or default, arguments.overrides, folders)
  return folders


def gin_files(arguments) -> list[str | Callable[[], None]]:
  """The gin files of a command; a `model.json` among them, which is no gin, as a function that makes its bindings."""
  return [
    functools.partial(_bind_model, file) if file.endswith(".json") else file for file in arguments.gin_file
  ]


def _bind_model(path: str) -> None:
  from xmcap.evaluation import model_dir
  from xmcap.models import model_json

  model_dir.bind(model_json.read(path))


def say(line: str) -> None:
  """Prints a line of progress, apart from the results."""
  print(terminal.shown(line, limit=None), file=sys.stderr)


@contextlib.contextmanager
def saying(what: str, every: float = 10) -> Iterator[None]:
  """Says what is done inside it: at once, and every so many seconds how long it has taken."""
  begun, ended = time.monotonic(), threading.Event()

  def repeat() -> None:
    while not ended.wait(every):
      say(f"{what}: {time.monotonic() - begun:.0f} s so far")

  say(what)
  teller = threading.Thread(target=repeat, daemon=True)
  teller.start()
  try:
    yield
  finally:
    ended.set()
    teller.join()


def named_paths(option: str, values: Sequence[str], unnamed: bool = False) -> dict[str, str]:
  """Returns NAME -> PATH of the values of an option that are written NAME=PATH; UsageError for any other.

  With `unnamed` a PATH alone is called by its last part.
  """
  paths: dict[str, str] = {}
  for value in values:
    name, equals, path = value.partition("=")
    if unnamed and not equals:
      name, path = os.path.basename(os.path.normpath(value)), value
    name = name.strip()
    if not (name and path):
      raise UsageError(f"{option}={value}: write it as {option}=NAME=PATH")
    if name in paths:
      raise UsageError(f"{option}={value}: '{name}' is named twice; give one of them another name")
    paths[name] = path
  return paths
