"""Tables of results, for the terminal, Markdown, LaTeX, CSV and JSON."""

import abc
import collections
import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any, ClassVar

from xmcap import grid, markdown, spreadsheet
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.terminal import shown

Cell = str | int | float | None


@dataclasses.dataclass(frozen=True)
class SheetColumn:
  """A column: `name` is for the CSV file; `heading` (default: the name) and `format` are for display."""

  name: str
  heading: str = ""
  format: str = ""

  def show(self, cell: Cell) -> str:
    """Returns a cell for display; `-` if there is no value."""
    if cell is None:
      return "-"
    if isinstance(cell, str):
      return shown(cell)
    number = format(cell, self.format)
    # A mean of penalties may be -0.0, or round to it.
    return number if any(digit in number for digit in "123456789") else number.lstrip("+-")


@dataclasses.dataclass(frozen=True)
class Sheet:
  """A table; `name` is the stem of its CSV file, and a row has a cell for each column."""

  name: str
  title: str
  columns: Sequence[SheetColumn]
  rows: Sequence[Sequence[Cell]]

  def __post_init__(self) -> None:
    """Raises UsageError for two columns of one name, which come from names in a user's file."""
    for name, times in collections.Counter(column.name for column in self.columns).items():
      if times > 1:
        raise UsageError(
          f"the table {self.name} would have two columns '{shown(name)}'; give the system or difference of this name "
          "another"
        )

  @classmethod
  def of_objects(
    cls, name: str, title: str, columns: Sequence[SheetColumn], objects: Sequence[object]
  ) -> "Sheet":
    """Makes a sheet with a row for each object; the columns have the names of its attributes."""
    return cls(name, title, columns, [[getattr(row, column.name) for column in columns] for row in objects])

  def terminal(self, out: str | os.PathLike = "") -> str:
    """Returns the table for a terminal below its title; `out` is the folder where it is written."""
    rest = os.path.join(out, f"{self.name}.csv") if out else ""
    return f"{shown(self.title, limit=None)}\n{self._grid().text(rest)}"

  def markdown(self) -> str:
    """Returns the table in Markdown below its title."""
    return f"### {markdown.text(self.title)}\n\n{self._grid().markdown()}"

  def latex(self) -> str:
    """Returns the table in LaTeX (package booktabs) below its title, which is a comment."""
    return f"% {shown(self.title, limit=None)}\n{self._grid().latex()}"

  def csv(self) -> str:
    """Returns the table as CSV in full precision; a missing value is an empty field."""
    return spreadsheet.table([column.name for column in self.columns], self.rows)

  def _grid(self) -> grid.Grid:
    headings = tuple(column.heading or column.name for column in self.columns)
    body = tuple(
      tuple(column.show(cell) for column, cell in zip(self.columns, row, strict=True)) for row in self.rows
    )
    are_texts = [all(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]
    return grid.Grid(headings, body, num_labels=[*are_texts, False].index(False))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings(abc.ABC):
  """Results with sheets, notes and a JSON form, which has the fields of the subclass. `stem` names the files."""

  stem: ClassVar[str]
  level: ClassVar[float] = 0.95  # coverage of the bootstrap intervals
  resamples: int = 0
  seed: int = 0
  notes: Sequence[str] = ()

  @abc.abstractmethod
  def sheets(self) -> Sequence[Sheet]:
    """Returns the tables."""

  def as_json(self) -> dict[str, Any]:
    """Returns the fields; nested dataclasses become JSON objects."""
    fields = {name: value for name, value in vars(self).items() if name not in ("resamples", "seed", "notes")}
    bootstrap = {"resamples": self.resamples, "seed": self.seed, "level": self.level}
    return {**fields, "bootstrap": bootstrap, "notes": self.notes}

  def terminal(self, out: str | os.PathLike = "") -> str:
    """Returns all sheets and notes as text; `out` is the folder where they are written."""
    notes = [shown(note, limit=None) for note in self.notes]
    return "\n".join([*(sheet.terminal(out) for sheet in self.sheets()), *notes])

  def files(self, out: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the files that `write` writes."""
    return [pathlib.Path(out, name) for name in self._texts()]

  def write(self, out: str | os.PathLike) -> None:
    """Writes `STEM.json`, `.md` and `.tex`, and a CSV file for each sheet, into a folder; XmcapError if it cannot."""
    with outputs.together(out):
      for name, text in self._texts().items():
        files.write_text(pathlib.Path(out, name), text)

  def _texts(self) -> dict[str, str]:
    """Returns name -> content of the files."""
    sheets = self.sheets()
    notes = [f"- {markdown.text(note)}" for note in self.notes]
    texts = {
      f"{self.stem}.json": json.dumps(self, ensure_ascii=False, indent=2, allow_nan=False, default=_plain),
      f"{self.stem}.md": "\n".join([*(sheet.markdown() for sheet in sheets), *notes]),
      f"{self.stem}.tex": "\n".join(sheet.latex() for sheet in sheets),
      **{f"{sheet.name}.csv": sheet.csv() for sheet in sheets},
    }
    return {name: f"{text.rstrip()}\n" for name, text in texts.items()}


def _plain(value: Any) -> Any:
  return value.as_json() if hasattr(value, "as_json") else vars(value)
