"""Results as tables of rows: for a terminal, as Markdown, as CSV, and as JSON."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from xmcap.scoring import files, grid
from xmcap.storage import outputs

Cell = str | int | float | None


@dataclasses.dataclass(frozen=True)
class Column:
  """A column.

  Attributes:
    name: what the CSV file calls it.
    heading: what people read; the name if empty.
    format: format specification of its numbers for people, such as `.2f`; CSV keeps every digit.
  """

  name: str
  heading: str = ""
  format: str = ""

  def show(self, cell: Cell) -> str:
    """Returns a cell as people read it; `-` where there is no value."""
    if cell is None:
      return "-"
    if isinstance(cell, str):
      return files.shown(cell)
    shown = format(cell, self.format)
    # A mean of penalties may be -0.0, or round to it.
    return shown if any(digit in shown for digit in "123456789") else shown.lstrip("+-")


@dataclasses.dataclass(frozen=True)
class Sheet:
  """A table.

  Attributes:
    name: stem of its CSV file.
    title: what it shows.
    columns: its columns.
    rows: a cell a column; None where there is no value.
  """

  name: str
  title: str
  columns: tuple[Column, ...]
  rows: tuple[tuple[Cell, ...], ...]

  def terminal(self) -> str:
    """Returns the table for a terminal below its title."""
    return f"{files.shown(self.title, limit=None)}\n{self._grid().text()}"

  def markdown(self) -> str:
    """Returns the table in Markdown below its title."""
    return f"### {grid.markdown_text(self.title)}\n\n{self._grid().markdown()}"

  def csv(self) -> str:
    """Returns the table as CSV with every digit; empty where there is no value."""
    return grid.write_csv(
      [column.name for column in self.columns],
      [[float(cell) if isinstance(cell, float) else cell for cell in row] for row in self.rows],
    )

  def _grid(self) -> grid.Grid:
    texts = [all(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]
    return grid.Grid(
      tuple(column.heading or column.name for column in self.columns),
      tuple(
        tuple(column.show(cell) for column, cell in zip(self.columns, row, strict=True)) for row in self.rows
      ),
      num_labels=[*texts, False].index(False),
    )


class Result:
  """What a command finds out: shown as sheets and notes, written in three forms.

  A subclass gives `stem`, the name of its files, `tables`, `notes` and `as_json`.
  """

  stem: str
  notes: tuple[str, ...]
  tables: Callable[[], Sequence[Sheet]]
  as_json: Callable[[], dict[str, Any]]

  def terminal(self) -> str:
    """Returns all sheets and notes as text."""
    return "\n".join(
      [
        *(sheet.terminal() for sheet in self.tables()),
        *(files.shown(note, limit=None) for note in self.notes),
      ]
    )

  def write(self, out: str | os.PathLike) -> None:
    """Writes `STEM.json`, `STEM.md` and a CSV file for each sheet into a folder, made if need be.

    Raises:
      XmcapError: the folder cannot be written.
    """
    out = pathlib.Path(out)
    markdown = [sheet.markdown() for sheet in self.tables()] + [
      f"- {grid.markdown_text(note)}" for note in self.notes
    ]
    value = json.dumps(self.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
    with outputs.together(out):
      files.write_text(out / f"{self.stem}.json", value + "\n")
      files.write_text(out / f"{self.stem}.md", "\n".join(markdown) + "\n")
      for sheet in self.tables():
        files.write_text(out / f"{sheet.name}.csv", sheet.csv())

  def files(self, out: str | os.PathLike) -> list[pathlib.Path]:
    """The files that `write` writes."""
    names = [f"{self.stem}.json", f"{self.stem}.md", *(f"{sheet.name}.csv" for sheet in self.tables())]
    return [pathlib.Path(out, name) for name in names]
