"""Means, chart and table of scores: the sections, and the data from which a script draws them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from xmcap import languages
from xmcap.pages.report import elements
from xmcap.scoring.statistics import means
from xmcap.scoring.tables import score_table
from xmcap.scoring.tables.language_fidelity import HEADINGS
from xmcap.scoring.tables.papers import Papers

_GROUPS = {"english": "English", "web": "web", "low_resource": "low-resource", "other": "other"}
_COUNTS = {"classes": "Classes", "images": "Images"}

OF_MEDIANS = "about-median-rank"
"""The id of the explanation of median ranks."""

TILES = '<section class="tiles" aria-label="Mean scores"></section>\n'
"""The section of the means, which a script fills with one tile per metric."""

Others = Sequence[tuple[str, score_table.Table]]
"""Names and tables of the systems shown beside the report's own system."""


def chart_section(table: score_table.Table) -> str:
  """Returns the section of the chart, with one column per language and other systems as marks."""
  return elements.section(
    "languages",
    "By language",
    '<div class="sheet scroll" id="chart" tabindex="0" role="group" aria-label="Chart of scores"></div>',
    '<span class="legend"></span>',
    elements.metric_choice("chart-metric", table.metrics, table.primary)
    + elements.choice("chart-sort", "Sort by", [("code", "Code"), ("score", "Score"), ("group", "Group")]),
  )


def table_section(table: score_table.Table) -> str:
  """Returns the section of the table: one row per language, with intervals, published columns and other systems."""
  toggle = ""
  if table.intervals:
    # Intervals in many columns would hide the scores.
    checked = " checked" if len(table.metrics) <= 3 else ""
    toggle = f'<label class="check"><input type="checkbox" name="intervals"{checked}> 95% intervals</label>'
  body = elements.table_holder("Scores by language", id="scores")
  if table.published:
    body += '<h3 class="of-papers">Rows of papers</h3>\n' + elements.table_holder(
      "Rows of papers", id="papers"
    )
    body += elements.script_json("papers-data", _papers(table.papers))
  return elements.section("table", "Table", body, "Click a heading to sort by its column.", toggle)


def _papers(papers: Papers) -> dict[str, Any]:
  """Returns the headings and rows for the script; of texts first, then of scores."""
  texts = len(papers.headings) - len(papers.names)
  rows = []
  for row, cells in zip(papers.rows, papers.cells(), strict=True):
    labels = [{"text": text, "head": not place} for place, text in enumerate(cells[:texts])]
    numbers = zip(papers.names, cells[texts:], strict=True)
    rows.append([*labels, *({"text": text, "value": row.get(name, "")} for name, text in numbers)])
  headings = [{"text": text, "numeric": place >= texts} for place, text in enumerate(papers.headings)]
  return {"headings": headings, "rows": rows}


def data(
  table: score_table.Table,
  others: Others,
  name: str,
  beside: Sequence[str] | None = None,
  baseline: str | None = None,
) -> dict[str, Any]:
  """Returns the rows, languages before means, and for each system and metric [score, low, high] per row.

  So are the columns `beside`; the fidelity is [that of the captions, that of the references] per row, None if it was
  not measured. Metrics that a system lacks are absent; missing scores, shares and ends of intervals are None.

  `table` belongs to the leading system `name`. Differences are those of it to all others and to the columns `beside`,
  given by their headings (None: all of the table), or with a `baseline` those of all systems to it.
  """
  rows = [*table.rows, *table.means]
  groups = language_groups(table)
  order = list(groups)
  codes = [
    {"code": language, "group": next(place for place, name in enumerate(order) if language in groups[name])}
    for language in table.rows
  ]
  names = [name, *(other for other, _ in others)]
  systems = []
  for system, of_system in [(name, table), *others]:
    metrics = [metric for metric in table.metrics if metric in of_system.metrics]
    scores = {
      metric: [_score(of_system, row, metric, table.factor(metric)) for row in rows] for metric in metrics
    }
    systems.append({"name": system, "scores": scores})
  factor = table.factor(table.primary)
  return {
    "primary": table.primary,
    "languages": codes,
    "groups": order,
    "columns": [
      {
        "heading": heading,
        "about": about,
        "cells": [[row[name], shown(row[name])] for row in table.rows.values()],
      }
      for name, heading, about, shown in _columns(table)
    ],
    "means": [score_table.mean_label(mean) for mean in table.means],
    "systems": systems,
    "beside": {
      heading: [
        _entry(table.beside[heading].get(row), table.beside_intervals.get(heading, {}).get(row), factor)
        for row in rows
      ]
      for heading in (table.beside if beside is None else beside)
    },
    "fidelity": [[table.shares[heading].get(row) for heading in HEADINGS] for row in rows]
    if table.shares
    else None,
    "baseline": None if baseline is None else names.index(baseline),
  }


def _columns(table: score_table.Table) -> list[tuple[str, str, str, Callable[[float], str]]]:
  """Returns the columns without a mean: name, heading, id of the explanation, and how a cell is shown."""
  ranks = [(name, means.MEDIANS[name], OF_MEDIANS, score_table.shown_rank) for name in table.medians]
  return ranks + [(name, _COUNTS[name], "", "{:,}".format) for name in _COUNTS if name in table.counts]


def language_groups(table: score_table.Table) -> dict[str, tuple[str, ...]]:
  """Returns the groups of the languages of a table: name -> codes.

  With classes they are Babel-ImageNet's, of the languages that have a mean; else those of XM3600.
  """
  if "classes" not in table.counts:
    group_of = {language: _GROUPS[languages.get(language).group] for language in table.rows}
    names = list(_GROUPS.values())
  else:
    averaged = list(means.mean_groups(table.rows).values())[-1]
    others = {language: "English" if language == "en" else "other" for language in table.rows}
    group_of = others | {
      language: means.class_group(table.rows[language]["classes"]) for language in averaged
    }
    names = [*map(means.class_group, means.CLASS_GROUPS), "English", "other"]
  members = {name: tuple(code for code, group in group_of.items() if group == name) for name in names}
  return {name: of_name for name, of_name in members.items() if of_name}


def _score(table: score_table.Table, row: str, metric: str, factor: int) -> list[float | None] | None:
  scores = table.rows.get(row) or table.means.get(row)
  return _entry(scores[metric] if scores else None, table.intervals.get(row, {}).get(metric), factor)


def _entry(score: float | None, ends: score_table.Interval | None, factor: int) -> list[float | None] | None:
  if score is None:
    return None
  if ends is None or any(map(math.isnan, ends)):
    return [factor * score, None, None]
  return [factor * score, *(factor * end for end in ends)]
