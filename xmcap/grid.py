"""A table of cells, formatted as text, Markdown or LaTeX."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from xmcap import latex, markdown, terminal

_GAP = "  "  # between two columns
# A cell of several words, which may be broken as a number may not.
_WORDS = re.compile(r"(?:[^\W\d_]{2,}.*){3}")
_LONGEST_WORD = 16  # a longer one of a heading or a label is broken too


@dataclasses.dataclass(frozen=True)
class Grid:
  """Cells of a table, as text.

  Attributes:
    headings: column headings.
    body: rows.
    foot: rows below a rule, such as means.
    num_labels: number of label columns on the left; the other columns are numbers and aligned right.
    spare: headings of numbers in the order in which a terminal that is too narrow goes without them; those that are
      not there are passed over, and after them go the others, from the right.
  """

  headings: tuple[str, ...]
  body: tuple[tuple[str, ...], ...]
  foot: tuple[tuple[str, ...], ...] = ()
  num_labels: int = 1
  spare: tuple[str, ...] = ()

  def text(self, rest: str = "", columns: int | None = None) -> str:
    """Returns the table with aligned columns of plain characters, one line per row unless it is too wide.

    In a terminal that is narrower, or in so many `columns`, headings, labels and words take several lines. If that is
    not enough, columns of numbers are left out, and a line names them and where all are: in `rest`, such as a file.
    """
    rows = [
      [terminal.shown(cell, limit=None) for cell in row] for row in (self.headings, *self.body, *self.foot)
    ]
    limit = columns or terminal.columns()
    widths = self._widths(rows, limit)
    lines = [self._lines(row, widths) for row in rows]
    rule = [_GAP.join("-" * width for width in widths.values())]
    lines.insert(1, rule)
    if self.foot:
      lines.insert(-len(self.foot), rule)
    if limit and len(widths) < len(self.headings):
      absent = ", ".join(filter(None, (name for i, name in enumerate(rows[0]) if i not in widths)))
      where = f"All are in {rest}, and" if rest else "All are"
      said = f"Too wide for {limit} columns, so without: {absent}. {where} in a pipe, such as | less -S"
      lines.append(terminal.broken(said, limit))
    return "\n".join([*itertools.chain.from_iterable(lines), ""])

  def markdown(self) -> str:
    """Returns a Markdown table; the foot is bold."""
    marks = ["---" if i < self.num_labels else "---:" for i in range(len(self.headings))]
    lines = [_row(self.headings), "| " + " | ".join(marks) + " |", *(_row(row) for row in self.body)]
    lines += [_row(row, bold=True) for row in self.foot]
    return "\n".join(lines) + "\n"

  def latex(self) -> str:
    """Returns a LaTeX `tabular` (package booktabs)."""
    spec = "l" * self.num_labels + "r" * (len(self.headings) - self.num_labels)
    body, foot = ([[*map(latex.text, row)] for row in rows] for rows in (self.body, self.foot))
    return "\n".join([*latex.tabular(spec, self.headings, body, foot), ""])

  def _widths(self, rows: Sequence[Sequence[str]], limit: int | None) -> dict[int, int]:
    """Returns column -> its width, for the columns that are shown: all, if there is no limit."""
    by_column = list(zip(*rows, strict=True))
    widths = {i: max(map(terminal.cells, column)) for i, column in enumerate(by_column)}
    if limit is None:
      return widths
    least = {i: self._least(i, column) for i, column in enumerate(by_column)}
    spare = [self.headings.index(heading) for heading in self.spare if heading in self.headings]
    numbers = range(self.num_labels, len(self.headings))
    for i in dict.fromkeys((*spare, *reversed(numbers))):
      if _total(least[column] for column in widths) <= limit or len(widths) <= self.num_labels + 1:
        break
      del widths[i]
    while _total(widths.values()) > limit:
      # Where not even the longest words fit, labels are broken further.
      wide = [i for i, width in widths.items() if width > least[i]]
      wide = wide or [i for i, width in widths.items() if i < self.num_labels and width > 2]
      if not wide:
        break
      widest = max(wide, key=widths.__getitem__)
      widths[widest] = _broken_width(by_column[widest], widths[widest] - 1)
    return widths

  def _least(self, i: int, column: Sequence[str]) -> int:
    """Returns the width that a column cannot do without: that of its longest word, and of numbers the longest."""
    parts = []
    for row, cell in enumerate(column):
      if row == 0 or i < self.num_labels or _WORDS.search(cell):
        parts += [min(terminal.cells(word), _LONGEST_WORD) for word in cell.split(" ")]
      else:
        parts.append(terminal.cells(cell))
    return max(parts)

  def _lines(self, row: Sequence[str], widths: dict[int, int]) -> list[str]:
    """Returns the lines that a row takes."""
    broken = [terminal.broken(row[i], width) for i, width in widths.items()]
    lines = []
    for parts in itertools.zip_longest(*broken, fillvalue=""):
      spaces = [
        " " * (width - terminal.cells(part)) for part, width in zip(parts, widths.values(), strict=True)
      ]
      aligned = (
        part + space if i < self.num_labels else space + part
        for i, part, space in zip(widths, parts, spaces, strict=True)
      )
      lines.append(_GAP.join(aligned).rstrip())
    return lines


def _broken_width(column: Sequence[str], width: int) -> int:
  """Returns the width that the cells of a column take when they are broken to a width."""
  return max(
    map(terminal.cells, itertools.chain.from_iterable(terminal.broken(cell, width) for cell in column))
  )


def _total(widths: Iterable[int]) -> int:
  """Returns the width of a line whose columns have these widths."""
  widths = list(widths)
  return sum(widths) + len(_GAP) * (len(widths) - 1)


def _row(cells: Sequence[str], bold: bool = False) -> str:
  shown = [*map(markdown.cell, cells)]
  return "| " + " | ".join(f"**{cell}**" if bold and cell else cell for cell in shown) + " |"
