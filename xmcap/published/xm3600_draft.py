"""Recomputes Table 6 of the XM3600 paper's draft, whose systems are PLuGS models, from the draft's Table 5.

Both are stored in this folder. Each comparison counts once, and Matthews's coefficient of the signs is a fourth one.
The printed numbers of Table 6 were not at hand when it was entered: their cells are empty.
"""

from xmcap import papers
from xmcap.human import rated_pairs
from xmcap.published.findings import RecomputedNumber, RecomputedTable


def recompute(results: None = None) -> RecomputedTable:
  """Recomputes the eight coefficients of Table 6; there are no result files."""
  pairs = rated_pairs.read_published("draft")
  (cells,) = rated_pairs.correlate(pairs, resamples=0, directions="once").cells.values()
  rows = []
  for row in papers.read("xm3600_draft_table6_correlations"):
    for delta, cell in cells[row["coefficient"].lower()].items():
      assert cell.value is not None  # no column is constant
      rows.append(RecomputedNumber("Table 6", f"{row['coefficient']}, {delta}", row[delta], cell.value))
  absent = ("Tables 1 to 5 (the captions of its systems are not public)",)
  return RecomputedTable("Draft of XM3600", tuple(rows), absent)
