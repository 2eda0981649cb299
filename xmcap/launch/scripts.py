"""Reads the scripts of the folder `launch/`, which are part of the package."""

import pathlib


def folder() -> pathlib.Path:
  """Returns the folder of the scripts, installed or in a checkout."""
  package = pathlib.Path(__file__).parents[1]
  installed = package / "launch_scripts"
  return installed if installed.is_dir() else package.parent / "launch"


def text(name: str) -> str:
  """Returns a script without the comments at its head."""
  lines = (folder() / name).read_text(encoding="utf-8").splitlines()
  start = next(i for i, line in enumerate(lines) if not line.startswith("#"))
  return "\n".join(lines[start:]).strip() + "\n"
