"""Results of an evaluation as tables: for a terminal, as Markdown, LaTeX and CSV, and as JSON."""

import abc
import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any, ClassVar

from xmcap.scoring import files, grid
from xmcap.storage import outputs
from xmcap.terminal import shown

Cell = str | int | float | None


@dataclasses.dataclass(frozen=True)
class SheetColumn:
  """A column: `name` in the CSV file, for people the `heading` (or the name) and numbers in a `format`."""

  name: str
  heading: str = ""
  format: str = ""

  def show(self, cell: Cell) -> str:
    """Returns a cell as people read it; `-` where there is no value."""
    if cell is None:
      return "-"
    if isinstance(cell, str):
      return shown(cell)
    number = format(cell, self.format)
    # A mean of penalties may be -0.0, or round to it.
    return number if any(digit in number for digit in "123456789") else number.lstrip("+-")


@dataclasses.dataclass(frozen=True)
class Sheet:
  """A table; `name` is the stem of its CSV file, and a row holds a cell for each column."""

  name: str
  title: str
  columns: Sequence[SheetColumn]
  rows: Sequence[Sequence[Cell]]

  def terminal(self) -> str:
    """Returns the table for a terminal below its title."""
    return f"{shown(self.title, limit=None)}\n{self._grid().text()}"

  def markdown(self) -> str:
    """Returns the table in Markdown below its title."""
    return f"### {grid.markdown_text(self.title)}\n\n{self._grid().markdown()}"

  def latex(self) -> str:
    """Returns the table in LaTeX (package booktabs) below its title, which is a comment."""
    return f"% {shown(self.title, limit=None)}\n{self._grid().latex()}"

  def csv(self) -> str:
    """Returns the table as CSV with every digit; empty where there is no value."""
    rows = [[float(cell) if isinstance(cell, float) else cell for cell in row] for row in self.rows]
    return grid.write_csv([column.name for column in self.columns], rows)

  def _grid(self) -> grid.Grid:
    headings = tuple(column.heading or column.name for column in self.columns)
    body = tuple(
      tuple(column.show(cell) for column, cell in zip(self.columns, row, strict=True)) for row in self.rows
    )
    are_texts = [all(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]
    return grid.Grid(headings, body, num_labels=[*are_texts, False].index(False))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings(abc.ABC):
  """Sheets and notes for people, and the same as JSON: the fields of a subclass, which says the `stem` of its files."""

  stem: ClassVar[str]
  level: ClassVar[float] = 0.95  # of the bootstrap intervals
  resamples: int
  seed: int
  notes: Sequence[str] = ()

  @abc.abstractmethod
  def sheets(self) -> Sequence[Sheet]:
    """Returns the tables."""

  def as_json(self) -> dict[str, Any]:
    """Returns the fields; a dataclass in them stands for an object of its own."""
    found = {name: value for name, value in vars(self).items() if name not in ("resamples", "seed", "notes")}
    bootstrap = {"resamples": self.resamples, "seed": self.seed, "level": self.level}
    return {**found, "bootstrap": bootstrap, "notes": self.notes}

  def terminal(self) -> str:
    """Returns all sheets and notes as text."""
    notes = [shown(note, limit=None) for note in self.notes]
    return "\n".join([*(sheet.terminal() for sheet in self.sheets()), *notes])

  def files(self, out: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the files that `write` writes."""
    names = [
      f"{self.stem}.json",
      f"{self.stem}.md",
      f"{self.stem}.tex",
      *(f"{sheet.name}.csv" for sheet in self.sheets()),
    ]
    return [pathlib.Path(out, name) for name in names]

  def write(self, out: str | os.PathLike) -> None:
    """Writes `STEM.json`, `.md` and `.tex`, and a CSV file for each sheet, into a folder; XmcapError if it cannot."""
    sheets = self.sheets()
    value = json.dumps(self, ensure_ascii=False, indent=2, allow_nan=False, default=_plain)
    notes = [f"- {grid.markdown_text(note)}" for note in self.notes]
    markdown = "\n".join([*(sheet.markdown() for sheet in sheets), *notes])
    texts = [value, markdown, "\n".join(sheet.latex() for sheet in sheets)]
    texts = [*(f"{text.rstrip()}\n" for text in texts), *(sheet.csv() for sheet in sheets)]
    with outputs.together(out):
      for path, text in zip(self.files(out), texts, strict=True):
        files.write_text(path, text)


def _plain(value: Any) -> Any:
  return value.as_json() if hasattr(value, "as_json") else vars(value)
