"""The rows of papers below a table of scores: one row per system, its own first, as they print them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import grid, latex
from xmcap.scoring.metrics.base import Metric

_LABELS = {"model": "", "paper": "paper", "table": "table"}


@dataclasses.dataclass(frozen=True)
class Papers:
  """Scores of systems in some languages and means.

  Attributes:
    rows: of texts under `model`, `paper` and `table`, and of scores by language code or mean; those lacking are absent.
    names: language code or mean -> how it is shown.
    metric, scale: what the scores are, and the factor at which they are shown.
  """

  rows: Sequence[Mapping[str, Any]]
  names: Mapping[str, str]
  metric: Metric
  scale: int

  @property
  def headings(self) -> tuple[str, ...]:
    """The headings of the columns; the first three are of texts."""
    return (*_LABELS.values(), *(f"{self.metric.heading}, {shown}" for shown in self.names.values()))

  def cells(self) -> tuple[tuple[str, ...], ...]:
    """Returns the cells of each row."""
    return tuple(
      (
        *(row.get(label, "") for label in _LABELS),
        *(self.metric.format(row[name], self.scale) if name in row else "-" for name in self.names),
      )
      for row in self.rows
    )

  def grid(self) -> grid.Grid:
    """Returns the rows for a terminal and for Markdown."""
    return grid.Grid(self.headings, self.cells(), num_labels=len(_LABELS))

  def latex(self) -> str:
    """Returns a LaTeX `table` in which the best score of a column is bold."""
    cells = [[*map(latex.text, row)] for row in self.cells()]
    for column, name in enumerate(self.names, start=len(_LABELS)):
      scores = {place: row[name] for place, row in enumerate(self.rows) if name in row}
      for place in latex.best(scores, {place: cells[place][column] for place in scores}):
        cells[place][column] = latex.bold(cells[place][column])
    own = self.rows[0]["model"]
    caption = f"{self.metric.heading} of {own} beside that of papers"
    spec = "l" * len(_LABELS) + "r" * len(self.names)
    lines = latex.tabular(spec, self.headings, cells)
    return latex.table(lines, caption, latex.label(f"{own} papers", "papers"))
