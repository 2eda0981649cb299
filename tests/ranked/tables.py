"""What `xmcap score` of ranked results wrote."""

import json
import pathlib


def table(out: pathlib.Path) -> dict:
  """Returns table.json."""
  return json.loads((out / "table.json").read_text())


def row(out: pathlib.Path, language: str) -> dict:
  return table(out)["languages"][language]
