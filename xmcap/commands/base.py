"""What the subcommands share: the parser, how a command is declared, and the gin options."""

import argparse
import functools
import sys
from collections.abc import Callable

from xmcap import terminal
from xmcap.errors import UsageError


class Parser(argparse.ArgumentParser):
  """argparse, but a wrong call is one line that says what to do."""

  def error(self, message):
    raise UsageError(f"{message} (see {self.prog} --help)")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
  """Shows defaults, but for options that are off or empty unless given."""

  def _get_help_string(self, action):
    return super()._get_help_string(action) if action.default else action.help


def add_command(
  commands, name: str, run, summary: str, details: str = "", hands_words_on: bool = False
) -> argparse.ArgumentParser:
  """Declares a subcommand: `run(arguments)` is called with what was parsed.

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
  """The gin files of a command; a `model.json` among them, which is no gin, as a function that binds what it says."""
  return [
    functools.partial(_bind_model, file) if file.endswith(".json") else file for file in arguments.gin_file
  ]


def _bind_model(path: str) -> None:
  from xmcap.evaluation import model_dir
  from xmcap.models import model_json

  model_dir.bind(model_json.read(path))


def explained(arguments) -> bool:
  """Prints the resolved configuration if that is all that was asked for; returns whether it was."""
  if arguments.explain:
    from xmcap import configuration

    print(configuration.explain())
  return arguments.explain


def search_paths(arguments) -> list[str]:
  """Returns the folders of --gin_search_paths."""
  return [path for path in arguments.gin_search_paths.split(",") if path]
