"""Rows of `xmcap published`, by table."""

from xmcap.published.findings import Findings, Row


def by_table(found: Findings) -> dict[str, list[Row]]:
  """Returns table -> its rows."""
  return {row.table: [each for each in found.rows if each.table == row.table] for row in found.rows}
