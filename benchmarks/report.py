"""Keeps what a benchmark measured: benchmarks/results/NAME.json, whose figures all.py puts into docs/benchmarks.md."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence

FOLDER = pathlib.Path(__file__).parent / "results"


def write(
  name: str,
  title: str,
  rows: Sequence[Sequence[str]],
  columns: Sequence[str] = ("measured", "figure"),
  notes: Sequence[str] = (),
  made_by: tuple[str, str, Mapping[str, str | int]] | None = None,
) -> None:
  """Writes the result of the script that is running.

  Args:
    name: of the file.
    title: what was compared or measured, as a heading.
    rows: a text for each column, figures with their unit.
    columns: their headings.
    notes: sentences that are needed to read the figures right.
    made_by: command, date and machine, if it was not the running script today on this machine.
  """
  wrong = [row for row in rows if len(row) != len(columns)]
  if wrong:
    raise ValueError(f"{name}: {wrong[0]} has not {len(columns)} columns")
  command, date, machine = made_by or (_command(), datetime.date.today().isoformat(), _machine())
  result = {
    "title": title,
    "command": command,
    "date": date,
    "machine": machine,
    "columns": list(columns),
    "rows": [list(row) for row in rows],
    "notes": list(notes),
  }
  FOLDER.mkdir(exist_ok=True)
  path = FOLDER / f"{name}.json"
  path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
  print(f"written to {path}; `python benchmarks/all.py` prints all tables")


def _command() -> str:
  """How the script was called, with no path of this machine in it."""
  arguments = [
    "--t5x_python=PATH" if argument.startswith("--t5x_python=") else argument
    for argument in sys.argv[1:]
    if not argument.startswith("--keep=")
  ]
  return shlex.join(["python", f"benchmarks/{pathlib.Path(sys.argv[0]).name}", *arguments])


def _machine() -> dict[str, str | int]:
  pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
  return {
    "cores": len(os.sched_getaffinity(0)),
    "memory_gib": round(pages * size / 2**30),
    "python": platform.python_version(),
    "jax": importlib.metadata.version("jax"),
  }
