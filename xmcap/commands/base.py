"""Common to the subcommands: the parser, the declaration of a command, and the options that several have."""

import argparse
import functools
import sys
from collections.abc import Callable

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


def say(line: str) -> None:
  """Prints a line of progress, apart from the results."""
  print(terminal.shown(line, limit=None), file=sys.stderr)


def positive(text: str) -> int:
  """The type of an option that is a number of at least 1."""
  number = int(text) if text.isdecimal() else 0
  if number < 1:
    raise argparse.ArgumentTypeError(f"{text}: give a number of at least 1")
  return number


def add_processes(command) -> None:
  """Adds the option that says how many processes share the work."""
  command.add_argument("--processes", type=positive, metavar="N", help="default: one a core")


def add_gin(command) -> None:
  """Adds the options that name gin files and override bindings."""
  group = command.add_argument_group("configuration")
  group.add_argument(
    "--gin_file", action="append", default=[], metavar="FILE", help="a gin file; later ones win (repeatable)"
  )
  group.add_argument(
    "--gin_search_paths", default="", metavar="DIRS", help="folders to look gin files up in, comma separated"
  )
  group.add_argument("--gin.NAME", metavar="VALUE", dest="_", help="override one binding (repeatable)")
  group.add_argument("--explain", action="store_true", help="print the resolved configuration and exit")


def gin_files(arguments) -> list[str | Callable[[], None]]:
  """The gin files of a command; a `model.json` among them, which is no gin, as a function that makes its bindings."""
  return [
    functools.partial(_bind_model, file) if file.endswith(".json") else file for file in arguments.gin_file
  ]


def _bind_model(path: str) -> None:
  from xmcap.evaluation import model_dir
  from xmcap.models import model_json

  model_dir.bind(model_json.read(path))


def explained(arguments) -> bool:
  """Prints the resolved configuration and returns True if --explain was given."""
  if arguments.explain:
    from xmcap import configuration

    print(configuration.explain())
  return arguments.explain


def search_paths(arguments) -> list[str]:
  """Returns the folders of --gin_search_paths."""
  return [path for path in arguments.gin_search_paths.split(",") if path]
