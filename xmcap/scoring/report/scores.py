"""Means, chart and table of scores: the sections, and the data from which a script draws them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.scoring.report import elements
from xmcap.scoring.writing import tables

_GROUPS = ("english", "web", "low_resource", "other")

TILES = '<section class="tiles" aria-label="Mean scores"></section>\n'
"""The section of the means, which a script fills with one tile per metric."""

Others = Sequence[tuple[str, tables.Table]]
"""Names and tables of the systems shown beside the report's own system."""


def chart_section(table: tables.Table) -> str:
  """Returns the section of the chart, with one column per language and other systems as marks."""
  return elements.section(
    "languages",
    "By language",
    '<div class="sheet scroll" id="chart" tabindex="0" role="group" aria-label="Chart of scores"></div>',
    '<span class="legend"></span>',
    elements.metric_choice("chart-metric", table.metrics, table.primary)
    + elements.choice("chart-sort", "Sort by", [("code", "Code"), ("score", "Score"), ("group", "Group")]),
  )


def table_section(table: tables.Table) -> str:
  """Returns the section of the table: one row per language, with intervals, published columns and other systems."""
  toggle = ""
  if table.intervals:
    # Intervals in many columns would hide the scores.
    checked = " checked" if len(table.metrics) <= 3 else ""
    toggle = f'<label class="check"><input type="checkbox" name="intervals"{checked}> 95% intervals</label>'
  holder = elements.table_holder("Scores by language", id="scores")
  return elements.section("table", "Table", holder, "Click a heading to sort by its column.", toggle)


def data(
  table: tables.Table,
  others: Others,
  name: str,
  beside: Mapping[str, Mapping[str, float]] | None = None,
  baseline: str | None = None,
) -> dict[str, Any]:
  """Returns the rows, languages before means, and for each system and metric [score, low, high] per row.

  Metrics that a system lacks are absent; missing scores and ends of intervals are None.

  `table` belongs to the leading system `name`. Differences are those of it to all others and to the columns `beside`
  (None: the table's own), or with a `baseline` those of all systems to it.
  """
  rows = [*table.rows, *table.means]
  codes = [
    {"code": code, "group": _GROUPS.index(languages.get(code).group), "images": row["images"]}
    for code, row in table.rows.items()
  ]
  names = [name, *(other for other, _ in others)]
  systems = []
  for system, of_system in [(name, table), *others]:
    metrics = [metric for metric in table.metrics if metric in of_system.metrics]
    scores = {
      metric: [_score(of_system, row, metric, table.factor(metric)) for row in rows] for metric in metrics
    }
    systems.append({"name": system, "scores": scores})
  beside = table.beside if beside is None else beside
  beside = {heading: tables.scaled(column, table.factor(table.primary)) for heading, column in beside.items()}
  return {
    "primary": table.primary,
    "languages": codes,
    "means": [tables.mean_label(mean) for mean in table.means],
    "systems": systems,
    "beside": {heading: [column.get(row) for row in rows] for heading, column in beside.items()},
    "baseline": None if baseline is None else names.index(baseline),
  }


def _score(table: tables.Table, row: str, metric: str, factor: int) -> list[float | None] | None:
  scores = table.rows.get(row) or table.means.get(row)
  if scores is None:
    return None
  low, high = table.intervals.get(row, {}).get(metric) or (math.nan, math.nan)
  ends = [None, None] if math.isnan(low) or math.isnan(high) else [factor * low, factor * high]
  return [factor * scores[metric], *ends]
