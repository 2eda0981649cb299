"""Data of the heat map of scores, by region of the image and language of the caption; a script draws it.

Below the map is a table of means over groups of languages and over scripts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.pages.report import elements, notes
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.result import Result
from xmcap.scoring.tables import score_table

MAX_REGIONS = 60
"""Largest number of regions shown, those with most images; XM3600 has 36."""


def section(systems: Mapping[str, Result], baseline: str | None = None) -> str:
  """Returns the section `regions`, a heat map and the table of groups; without regions `groups`, that table alone.

  Scores are those of the first system. Differences are those of the first system to the others, or with a `baseline`
  those of all other systems to it.
  """
  names = list(systems)
  first = systems[names[0]]
  groups = _groups(first)
  if not first.slices.regions:
    note = "The references have no image/locale, so there are no regions."
    return elements.section("groups", "By group and script", groups, note)
  values = data(systems)
  pairs = [(0, i) for i in range(1, len(names))]
  if baseline is not None:
    pairs = [(i, names.index(baseline)) for i, name in enumerate(names) if name != baseline]
  pairs = [(i, j) for i, j in pairs if values["scores"][i] and values["scores"][j]]
  values["pairs"] = pairs
  whose = f" of {names[0]}" if len(names) > 1 else ""
  views = [("score", f"score{whose}"), ("own", f"difference{whose} to all regions")]
  views += [
    (f"pair-{place}", f"difference of {names[i]} to {names[j]}") for place, (i, j) in enumerate(pairs)
  ]
  note = "A row is the region of the images, a column the language of the captions. Click a cell to see its captions."
  left_out = len(first.slices.regions) - len(values["regions"])
  if left_out:
    note += f" {left_out:,} regions with fewer images are not shown."
  body = holder("Scores by region and language") + elements.script_json("heat-data", values)
  summary = "<summary>By group of languages and by script</summary>"
  body += elements.tag("details", summary + groups, class_="explanations")
  controls = elements.metric_choice("heat-metric", first.table.metrics, first.table.primary)
  controls += view_controls(views)
  return elements.section("regions", "Region by language", body, note, controls)


def view_controls(views: Sequence[tuple[str, str]]) -> str:
  """Returns the controls of a heat map other than its metric: view, order, numbers."""
  return (
    elements.choice("heat-view", "Show", views, buttons=False)
    + elements.choice("heat-order", "Order", [("code", "Code"), ("score", "Score")])
    + '<label class="check"><input type="checkbox" name="heat-numbers"> numbers</label>'
  )


def holder(label: str, named: bool = False) -> str:
  """Returns the box of a heat map that a script draws; `named` means that its row headings are names, not codes."""
  classes = "heat by-name" if named else "heat"
  return f"""<div class="sheet heat-sheet">
<div class="scroll"><table id="heat" class="{classes}" role="grid" aria-label="{label}"></table></div>
<p class="heat-legend" id="heat-legend" aria-hidden="true"></p></div>
"""


def data(systems: Mapping[str, Result]) -> dict[str, Any]:
  """Returns regions, columns, and for each system and metric a row of scores per region, beginning with "all".

  Scores are rounded to one digit more than is shown; None if a language has no image of the region.
  """
  first = next(iter(systems.values()))
  counts = {
    region: max((row.get("images", 0) for row in of_region.values()), default=0)
    for region, of_region in first.slices.regions.items()
  }
  regions = sorted(sorted(counts, key=lambda region: -counts[region])[:MAX_REGIONS])
  mean = list(first.table.means)[-1]
  names = [*first.table.rows, mean]
  columns = [
    {"code": language, "name": languages.get(language).english_name} for language in first.table.rows
  ]
  rows = [{"code": region, "name": region_name(region), "images": counts[region]} for region in regions]
  return {
    "regions": rows,
    "row": "region",
    "column": "captions",
    "all": "all regions",
    "columns": [*columns, {"code": "mean", "name": f"mean, {score_table.mean_label(mean)}"}],
    "scores": [_scores(result, first.table, regions, names) for result in systems.values()],
  }


def region_name(region: str) -> str:
  """Returns the display name of an `image/locale`: the language spoken there, if it is one of ours."""
  return languages.get(region).english_name if region in languages.LANGUAGES else region


def _scores(result: Result, table: score_table.Table, regions: Sequence[str], names: Sequence[str]) -> dict:
  """Returns the scores of a result at the scale of the first system's table, in its metrics."""
  if not result.slices.regions:
    return {}
  rows = [{**result.table.rows, **result.table.means}]
  rows += [result.slices.regions.get(region, {}) for region in regions]
  return {
    metric: [
      [_rounded(metric, row.get(name, {}).get(metric), table.factor(metric)) for name in names]
      for row in rows
    ]
    for metric in table.metrics
    if metric in result.table.metrics
  }


def _rounded(metric: str, score: float | None, factor: int) -> float | None:
  if score is None or math.isnan(score):
    return None
  return round(factor * score, metrics_lib.METRICS[metric].decimals + 1)


def _groups(result: Result) -> str:
  """Returns a table of the means over groups of languages and over scripts."""
  metrics = [metrics_lib.METRICS[metric] for metric in result.table.metrics]
  headings = [{"text": "Languages", "numeric": False, "about": notes.OF_GROUPS}, {"text": "Count"}]
  headings += [{"text": metric.heading, "about": notes.anchor(metric.name)} for metric in metrics]
  rows = []
  for name, scores in result.slices.groups.items():
    kind, _, value = name.partition(":")
    title = notes.group_name(kind, value)
    count = {"text": str(scores["languages"]), "value": scores["languages"]}
    numbers = [
      {"text": result.table.shown(metric.name, scores[metric.name]), "value": scores[metric.name]}
      for metric in metrics
    ]
    rows.append([{"text": title, "head": True}, count, *numbers])
  values = elements.script_json("groups-data", {"headings": headings, "rows": rows})
  return elements.table_holder("Means over groups of languages", id="group-means") + values
