"""Rows of `xmcap published`, by table."""

from xmcap.published.findings import RecomputedNumber, RecomputedTable


def by_table(found: RecomputedTable) -> dict[str, list[RecomputedNumber]]:
  """Returns table -> its rows."""
  return {row.table: [each for each in found.rows if each.table == row.table] for row in found.rows}
