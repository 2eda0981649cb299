"""Prints a table of all commands with their purpose, out of the parser: a page of the site.

usage: python .ci/commands.py
"""

import argparse
import pathlib
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]

_HEAD = """# Commands

`xmcap COMMAND --help` lists the options. Exit codes: [Installing](install.md#exit-codes).

| command | purpose |
| --- | --- |"""


def rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
  """(command, purpose) of all commands below a parser."""
  for group in parser._actions:
    if isinstance(group, argparse._SubParsersAction):
      purposes = {choice.dest: choice.help or "" for choice in group._choices_actions}
      for name, command in group.choices.items():
        yield f"{parser.prog} {name}", purposes.get(name, "")
        yield from rows(command)


if __name__ == "__main__":
  sys.path.insert(0, str(ROOT))
  from xmcap import cli

  print(_HEAD)
  for command, purpose in rows(cli._parser("")):
    print(f"| `{command}` | {purpose.replace('|', '/')} |")
