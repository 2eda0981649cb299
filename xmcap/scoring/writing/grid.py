"""A table of cells, formatted as text, Markdown, LaTeX or CSV."""

import csv
import dataclasses
import io
from collections.abc import Sequence

from xmcap import terminal
from xmcap.scoring.writing import latex

_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#"})


@dataclasses.dataclass(frozen=True)
class Grid:
  """Cells of a table, as text.

  Attributes:
    headings: column headings.
    body: rows.
    foot: rows below a rule, such as means.
    num_labels: number of label columns on the left; the other columns are numbers and aligned right.
  """

  headings: tuple[str, ...]
  body: tuple[tuple[str, ...], ...]
  foot: tuple[tuple[str, ...], ...] = ()
  num_labels: int = 1

  def text(self) -> str:
    """Returns the table with aligned columns for a terminal, one line of plain characters per row."""
    rows = [
      [terminal.shown(cell, limit=None) for cell in row] for row in (self.headings, *self.body, *self.foot)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [self._line(row, widths) for row in rows]
    lines.insert(1, rule)
    if self.foot:
      lines.insert(-len(self.foot), rule)
    return "\n".join(lines) + "\n"

  def markdown(self) -> str:
    """Returns a Markdown table; the foot is bold."""
    marks = ["---" if i < self.num_labels else "---:" for i in range(len(self.headings))]
    lines = [_row(self.headings), "| " + " | ".join(marks) + " |", *(_row(row) for row in self.body)]
    lines += [_row(row, bold=True) for row in self.foot]
    return "\n".join(lines) + "\n"

  def latex(self) -> str:
    """Returns a LaTeX `tabular` (package booktabs)."""
    spec = "l" * self.num_labels + "r" * (len(self.headings) - self.num_labels)
    lines = [latex.row(self.headings), "\\midrule", *map(latex.row, self.body)]
    if self.foot:
      lines += ["\\midrule", *map(latex.row, self.foot)]
    return "\n".join([*latex.tabular(spec, lines), ""])

  def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
      cell.ljust(width) if i < self.num_labels else cell.rjust(width)
      for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def write_csv(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
  """Returns CSV with a header; numbers in full precision, None as an empty field."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(headings)
  writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
  return text.getvalue()


def markdown_text(text: str) -> str:
  """Returns a text on one line, escaped for Markdown."""
  return " ".join(text.split()).translate(_MARKDOWN)


def _row(cells: Sequence[str], bold: bool = False) -> str:
  shown = [markdown_text(cell) for cell in cells]
  return "| " + " | ".join(f"**{cell}**" if bold and cell else cell for cell in shown) + " |"
