"""Printed numbers next to recomputed ones."""

import dataclasses
import os

from xmcap.scoring import files
from xmcap.scoring.writing import grid


@dataclasses.dataclass(frozen=True)
class Cell:
  """A number of a model in a language or mean, as printed and as recomputed."""

  model: str
  name: str
  printed: float
  recomputed: float


@dataclasses.dataclass(frozen=True)
class Check:
  """A table of the paper: its cells that have result files, and the largest difference due to rounding."""

  table: str
  cells: tuple[Cell, ...]
  tolerance: float

  @property
  def deviations(self) -> tuple[Cell, ...]:
    """The cells whose numbers differ by more than the tolerance."""
    return tuple(cell for cell in self.cells if not abs(cell.printed - cell.recomputed) <= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Findings:
  """All checks, and a line for each result file that is absent."""

  checks: tuple[Check, ...]
  absent: tuple[str, ...]

  def terminal(self) -> str:
    """Returns the tables, and each deviation, as text for a terminal."""
    lines = [self._grid().text()]
    for check in self.checks:
      lines += [
        f"{check.table}: {cell.model}, {cell.name}: printed {cell.printed:g}, recomputed {cell.recomputed:.4f}\n"
        for cell in check.deviations
      ]
    return "".join([*lines, *(f"absent: {line}\n" for line in self.absent)])

  def write(self, out: str | os.PathLike) -> None:
    """Writes `published.csv`, with a row per cell, and `published.md` into a folder, which is made if necessary."""
    headings = ["table", "model", "name", "printed", "recomputed", "equal"]
    rows = [
      [check.table, cell.model, cell.name, cell.printed, cell.recomputed, cell not in check.deviations]
      for check in self.checks
      for cell in check.cells
    ]
    files.write_forms(out, "published", csv=grid.write_csv(headings, rows), md=self._grid().markdown())

  def _grid(self) -> grid.Grid:
    return grid.Grid(
      ("table", "cells", "equal", "largest difference"),
      tuple(
        (
          check.table,
          f"{len(check.cells):,}",
          f"{len(check.cells) - len(check.deviations):,}",
          f"{max(abs(cell.printed - cell.recomputed) for cell in check.cells):.4f}",
        )
        for check in self.checks
      ),
    )
