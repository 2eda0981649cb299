"""Prints what the installed xmcap asks for, as a lock pins it: for `uv pip install --require-hashes`.

usage: python pinned.py LOCK [EXTRA ...]

The lock holds hashes of these and of all that they need; it is a constraint of the same command.
"""

import importlib.metadata
import pathlib
import re
import sys

_ASKED = re.compile(
  r"(?P<name>[\w.-]+)(?P<extras>\[[^\]]*\])?[^;]*(?:; *extra == [\"'](?P<of>[\w-]+)[\"'])?$"
)


def normalized(name: str) -> str:
  """A name as locks write it."""
  return re.sub(r"[-_.]+", "-", name).lower()


def pinned(requirements: list[str], extras: list[str], lock: str) -> list[str]:
  """Returns a line of each requirement without an extra or of these extras: its pin, or as it is if it has none."""
  pins: dict[str, list[str]] = {}
  for line in lock.splitlines():
    if match := re.match(r"([\w.-]+)(==[^\\]*)", line):
      pins.setdefault(match[1], []).append(match[2].strip())
  lines = {}
  for requirement in requirements:
    match = _ASKED.match(requirement)
    if match and (match["of"] is None or match["of"] in extras):
      name = normalized(match["name"])
      of_extras = match["extras"] or ""
      lines |= dict.fromkeys([name + of_extras + pin for pin in pins.get(name, [])] or [name + of_extras])
  return list(lines)


if __name__ == "__main__":
  text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
  print(*pinned(importlib.metadata.requires("xmcap") or [], sys.argv[2:], text), sep="\n")
