"""Reads the first sheet of an Excel workbook."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from xmcap import extras
from xmcap.errors import UsageError, one_line
from xmcap.reading import sheet_program
from xmcap.terminal import shown

MOST_MEMORY = 2 << 30
"""Bytes that unfolding a sheet may take; a million rows of ten columns take half of them."""


@dataclasses.dataclass(frozen=True)
class Date:
  """A cell that is no text and no number."""

  text: str


def rows(path: str | os.PathLike, notes: list[str]) -> Iterator[tuple[int, list[Any]]]:
  """Yields (number from 1, cells) of the rows that are not empty, of which the first is the header.

  Args:
    path: the workbook.
    notes: takes which sheet is read, if there are several.

  Raises:
    UsageError: python-calamine is missing, the file is damaged, or its sheet is too large.
  """
  if importlib.util.find_spec("python_calamine") is None:
    raise UsageError(
      f"{path}: workbooks need python-calamine: save the sheet as CSV UTF-8, or {extras.install('xlsx')}"
    )
  command = [sys.executable, "-P", sheet_program.__file__, os.path.abspath(path), str(MOST_MEMORY)]
  with subprocess.Popen(
    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
  ) as reader:
    assert reader.stdout is not None
    try:
      first = json.loads(reader.stdout.readline() or '{"error": ""}')
      if first.get("error"):
        raise UsageError(f"{path}: cannot be read ({one_line(first['error'])}); save the sheet as CSV UTF-8")
      if first.get("sheets", 0) > 1:
        notes.append(f"the sheet '{shown(first['sheet'])}', the first of {first['sheets']}")
      for number, line in enumerate(reader.stdout, 1):
        cells = json.loads(line, object_hook=lambda cell: Date(cell["date"]))
        if any(cell != "" for cell in cells):
          yield number, cells
    except BaseException:
      reader.kill()
      raise
    if reader.wait():
      raise UsageError(
        f"{path}: reading its first sheet takes over {MOST_MEMORY >> 30} GiB, or the file is damaged: delete cells far "
        "from the others, or save the sheet as CSV UTF-8"
      )
