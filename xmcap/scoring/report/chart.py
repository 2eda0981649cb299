"""The bar chart of the report: a column a language, other systems as marks. A script draws it from the data here."""

import math
from collections.abc import Sequence
from typing import Any

from xmcap import languages
from xmcap.scoring import tables
from xmcap.scoring.report import elements

_GROUPS = ("english", "web", "low_resource")

Others = Sequence[tuple[str, tables.Table]]
"""Names and tables of what is shown beside the system that a report is about."""


def section(table: tables.Table, others: Others, name: str) -> str:
  """Returns the section."""
  keys = [elements.named(name, None)]
  keys += [elements.named(other, number) for number, (other, _) in enumerate(others)]
  mean = f"mean, {tables.mean_label(list(table.means)[-1])}"
  line = '<line class="mean" x1="0" x2="14" y1="7" y2="7"/>'
  keys.append(f'<span class="named"><svg class="key" viewBox="0 0 14 14">{line}</svg>{mean}</span>')
  if table.intervals:
    line = '<path class="whisker" d="M4 2h6M7 2v10M4 12h6"/>'
    keys.append(f'<span class="named"><svg class="key" viewBox="0 0 14 14">{line}</svg>95% interval</span>')
  return elements.section(
    "languages",
    "By language",
    '<div class="sheet scroll" id="chart" tabindex="0" role="group" aria-label="Chart of scores"></div>'
    + elements.script_json("chart-data", data(table, others, name)),
    f'<span class="legend">{"".join(keys)}</span>',
    elements.metric_choice("chart-metric", table.metrics, table.primary)
    + elements.choice("chart-sort", "Sort by", [("code", "Code"), ("score", "Score"), ("group", "Group")]),
  )


def data(table: tables.Table, others: Others, name: str) -> dict[str, Any]:
  """Returns languages, the mean of each metric and, for each system and metric, [score, low, high] a language.

  A system's scores in a metric are None where it has none; so is a score, and the ends of an absent interval.
  """
  codes = list(table.rows)
  return {
    "primary": table.primary,
    "languages": [
      {
        "code": code,
        "name": languages.get(code).english_name,
        "group": _GROUPS.index(languages.get(code).group),
      }
      for code in codes
    ],
    "means": list(table.means.values())[-1],
    "systems": [
      {
        "name": name,
        "scores": {
          metric: [_score(of_system, code, metric) for code in codes]
          for metric in table.metrics
          if metric in of_system.metrics
        },
      }
      for name, of_system in [(name, table), *others]
    ],
  }


def _score(table: tables.Table, code: str, metric: str) -> list[float | None] | None:
  if code not in table.rows:
    return None
  low, high = table.intervals.get(code, {}).get(metric) or (math.nan, math.nan)
  ends = [None, None] if math.isnan(low) or math.isnan(high) else [low, high]
  return [table.rows[code][metric], *ends]
