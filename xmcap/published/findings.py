"""The one form of `xmcap published`: a row for each printed number, beside the same number as computed."""

import dataclasses
import math
import os
from collections.abc import Sequence

from xmcap import grid, markdown, spreadsheet
from xmcap.files import files

ROUNDED = "the numbers that it is computed from are rounded"


@dataclasses.dataclass(frozen=True)
class RecomputedNumber:
  """A printed number and the same number as computed.

  Attributes:
    table: where it is printed, such as `Table 2`; rows of one table are counted together.
    what: the cell, such as `mSigLIP, de`.
    printed: the number with all digits that are printed: they say how exact it is; "" of a figure.
    computed: in the unit of `printed`.
    slack: how far rounding of the numbers that `computed` is made of can move it.
    reason: why the cell deviates, if that is known.
  """

  table: str
  what: str
  printed: str
  computed: float
  slack: float = 0.0
  reason: str = ""

  @property
  def deviation(self) -> float:
    """The computed number minus the printed one; NaN without one."""
    return self.computed - float(self.printed or "nan")

  @property
  def equal(self) -> bool:
    """Whether the computed number rounds to the printed digits; half a unit of the last one rounds either way."""
    digits = len(self.printed.partition(".")[2])
    return abs(self.deviation) <= 0.5 * 10**-digits + 1e-6

  @property
  def rounded(self) -> bool:
    """Whether the number has other digits, but no others than rounding explains."""
    digits = len(self.printed.partition(".")[2])
    return not self.equal and abs(self.deviation) <= 0.5 * 10**-digits + self.slack + 1e-6

  @property
  def why(self) -> str:
    """Why the digits differ; "" if they do not, or nobody knows."""
    if self.printed == "":
      return self.reason
    return "" if self.equal else ROUNDED if self.rounded else self.reason


@dataclasses.dataclass(frozen=True)
class RecomputedTable:
  """All numbers of a paper that can be computed, and a line for each file that is absent and each table left out.

  Attributes:
    note: what of the files readers must know, in one line.
  """

  paper: str
  rows: tuple[RecomputedNumber, ...]
  absent: tuple[str, ...] = ()
  note: str = ""

  @property
  def deviations(self) -> tuple[RecomputedNumber, ...]:
    """The rows whose digits differ, those that rounding explains included."""
    return tuple(row for row in self.rows if not row.equal)

  def terminal(self) -> str:
    """Returns a table with a line per table of the paper, then each deviation, as text for a terminal."""
    return "".join([f"{self.paper}\n", self._counts().text(), *self._lines()])

  def write(self, out: str | os.PathLike) -> None:
    """Writes `published.csv`, with a row per cell, and `published.md` into a folder, which is made if necessary."""
    headings = ["paper", "table", "what", "printed", "computed", "deviation", "equal", "why"]
    rows = [
      [self.paper, row.table, row.what, row.printed, row.computed, row.deviation, row.equal, row.why]
      for row in self.rows
    ]
    notes = "".join(f"- {markdown.text(line)}\n" for line in self._lines())
    text = "\n".join(filter(None, [f"### {self.paper}\n", self._counts().markdown(), notes]))
    files.write_forms(out, "published", csv=spreadsheet.table(headings, rows), md=text)

  def _lines(self) -> list[str]:
    note = [f"note: {self.note}\n"] if self.note else []
    return [*note, *map(_line, self.deviations), *(f"absent: {line}\n" for line in self.absent)]

  def _counts(self) -> grid.Grid:
    tables = dict.fromkeys(row.table for row in self.rows)
    lines = [_counted(table, [row for row in self.rows if row.table == table]) for table in tables]
    headings = ("table", "cells", "equal", "rounded", "deviating", "largest deviation")
    return grid.Grid(headings, tuple(lines), (_counted("all", self.rows),) if len(lines) > 1 else ())


def _counted(name: str, rows: Sequence[RecomputedNumber]) -> tuple[str, ...]:
  equal, rounded = sum(row.equal for row in rows), sum(row.rounded for row in rows)
  deviating = sum(row.printed != "" for row in rows) - equal - rounded
  # A number that cannot be computed is further off than any other.
  largest = max(
    (math.inf if math.isnan(row.deviation) else abs(row.deviation) for row in rows if row.printed),
    default=0.0,
  )
  return (
    name,
    f"{len(rows):,}",
    f"{equal:,}",
    f"{rounded:,}",
    f"{deviating:,}",
    f"{largest:.4f}",
  )


def _line(row: RecomputedNumber) -> str:
  if not row.printed:
    return f"{row.table}: {row.what}: computed {row.computed:.5g} ({row.why})\n"
  why = f" ({row.why})" if row.why else ""
  return (
    f"{row.table}: {row.what}: printed {row.printed}, computed {row.computed:.5g}, "
    f"deviation {row.deviation:+.4g}{why}\n"
  )
