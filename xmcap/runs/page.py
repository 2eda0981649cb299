"""Writes the page of runs: one self-contained HTML file with a table and the curves of all runs.

A script (`runs.js`) draws the curves from the data in the page.
"""

import dataclasses
import os
from collections.abc import Collection, Sequence

from xmcap import languages
from xmcap.runs import charts as charts_lib
from xmcap.runs import summary
from xmcap.runs.charts import CurveChart
from xmcap.runs.history import RunHistory
from xmcap.scoring.report import elements
from xmcap.scoring.report.elements import escape
from xmcap.scoring.writing.grid import Grid

_TIME_NOTE = (
  "Shares of the time between two reports; the rest is training. Below: the shares of the whole run."
)
_GOODPUT_NOTE = (
  "Shares of the wall time since the first start, over all starts; the steps are the run\u2019s goodput."
)
_NORMS_NOTE = (
  "L2 norms of the gradient before clipping, the update and the parameters, for each part of the model."
)
_SMOOTHING = [("0", "None"), ("0.6", "Some"), ("0.9", "Much")]
_SCALES = [("linear", "Linear"), ("log", "Log")]


def write(
  path: str | os.PathLike, runs: Sequence[RunHistory], metrics: Sequence[str], notes: Sequence[str] = ()
) -> None:
  """Writes the page; the same runs give the same bytes. `notes` are lines at the top, such as left-out folders."""
  charts = charts_lib.sections(runs, metrics)
  norms = charts_lib.norms(runs)
  data = {"table": _table(runs, metrics), **_data(runs, charts, norms)}
  goodput = ""
  if (grid := summary.goodput(runs)) is not None:
    data["goodput"] = _cells(grid)
    holder = elements.table_holder("Shares of the time of each run", id="goodput-table")
    goodput = elements.section("goodput", "Goodput", holder, _GOODPUT_NOTE)
  codes = sorted(
    {code for chart in charts["evaluation"] for code in chart.languages},
    key=lambda code: languages.get(code).english_name,
  )
  means = [("", "mean"), *((code, f"{languages.get(code).english_name} ({code})") for code in codes)]
  loss_axis = elements.choice("loss-axis", "Loss axis", _SCALES)
  language = elements.choice("language", "Language", means, buttons=False)
  norms_axis = elements.choice("norms-axis", "Axis", _SCALES, "log")
  table = elements.section("runs", "Runs", elements.table_holder("Runs and their last numbers", id="table"))
  sections = {
    "runs": table + _switches(),
    "learning": _section(charts["learning"], "learning", "Learning", loss_axis),
    "evaluation": _section(charts["evaluation"], "evaluation", "Evaluation", language),
    "speed": _section(charts["speed"], "speed", "Speed"),
    "time": _section(data["shares"], "time", "Where the time goes", note=_TIME_NOTE),
    "goodput": goodput,
    "norms": _section(norms, "norms", "Norms by part", norms_axis, _NORMS_NOTE),
  }
  title = " · ".join(run.name for run in runs) if len(runs) <= 3 else f"{len(runs)} runs"
  header = f'<header class="page-head"><h1>{escape(title)}</h1><p class="lede">{_lede(runs)}</p></header>\n'
  style, script = (elements.resource(name, "xmcap.runs") for name in ("runs.css", "runs.js"))
  elements.write_page(
    path,
    f"{title} – xmcap runs",
    style=elements.resources("base.css", "scores.css") + style,
    header_html=header + _notices(runs, notes),
    sections_html=sections,
    data_html=elements.script_json("runs-data", data),
    script=elements.resources("base.js", "drawing.js", "tables.js") + script,
  )


def _data(
  runs: Sequence[RunHistory],
  charts: dict[str, list[CurveChart]],
  norms: dict[str, list[CurveChart]],
) -> dict:
  """Returns the data for the script: charts and the points of their curves; equal lists of steps are stored once."""
  places: dict[tuple[int, ...], int] = {}
  curves: dict[str, list] = {}
  for chart in [chart for section in (*charts.values(), *norms.values()) for chart in section]:
    for curve in (chart.curve, *chart.languages.values()):
      lines = [(run, *charts_lib.points(history, curve, chart.times)) for run, history in enumerate(runs)]
      curves[curve] = [
        [run, places.setdefault(tuple(steps), len(places)), values]
        for run, steps, values in lines
        if any(value is not None for value in values)
      ]
  shares, clocks = [], []
  for run, history in enumerate(runs):
    steps, kinds, means = charts_lib.shares(history)
    if steps:
      place = places.setdefault(tuple(steps), len(places))
      shares.append({"run": run, "steps": place, "kinds": kinds, "means": means})
    rows = history.rows[:: max(1, len(history.rows) // charts_lib.MAX_POINTS)] + history.rows[-1:]
    clocks.append([[step for step, _, _ in rows], [round(ran / 3600, 4) for _, ran, _ in rows]])
  return {
    "runs": [run.name for run in runs],
    "clocks": clocks,
    "steps": [list(steps) for steps in places],
    "charts": {name: list(map(dataclasses.asdict, section)) for name, section in charts.items()},
    "norms": {part: list(map(dataclasses.asdict, of_part)) for part, of_part in norms.items()},
    "curves": curves,
    "shares": shares,
    "kinds": charts_lib.SHARES,
  }


def _section(charts: Collection, name: str, title: str, controls: str = "", note: str = "") -> str:
  """Returns a section for the script to fill; "" if it has no charts."""
  return elements.section(name, title, '<div class="plots"></div>', note, controls) if charts else ""


def _lede(runs: Sequence[RunHistory]) -> str:
  states = [run.state for run in runs]
  counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
  machines = dict.fromkeys(
    f"{run.facts['devices']} × {run.facts['device_kind']}"
    for run in runs
    if {"devices", "device_kind"} <= run.facts.keys()
  )
  return escape("; ".join(filter(None, [", ".join(counts), ", ".join(machines)])))


def _notices(runs: Sequence[RunHistory], notes: Sequence[str]) -> str:
  lines = [escape(note) for note in notes]
  for run in runs:
    if run.torn:
      lines.append(f"<b>{escape(run.name)}</b>: {run.torn} lines of its metrics.jsonl could not be read")
    if run.state == "failed":
      lines.append(f"<b>{escape(run.name)}</b> failed: {escape(run.reason)}")
  return elements.notices(lines)


def _table(runs: Sequence[RunHistory], metrics: Sequence[str]) -> dict:
  """Returns the headings and cells of the table, for the script."""
  columns = summary.columns(runs, metrics)
  headings = [{"text": "Run", "numeric": False}, {"text": "State", "numeric": False}, {"text": "Step"}]
  headings += [{"text": column.heading, "hint": column.hint} for column in columns]
  rows = []
  for number, run in enumerate(runs):
    state = summary.state(run)
    cells = [
      {"text": run.name, "value": run.name, "head": True, "classes": "first", "mark": number},
      {"text": state, "value": state, "classes": f"state-{run.state}"},
      {"text": summary.steps(run), "value": run.step},
    ]
    for column in columns:
      value, best = run.last(column.name), column.best(run)
      cell = {"text": column.text(run), "value": value, "under": f"best {best}" if best else ""}
      cells.append({"text": "\u2013", "value": ""} if value is None else cell)
    rows.append(cells)
  return {"headings": headings, "rows": rows}


def _cells(grid: Grid) -> dict:
  """Returns a table whose first column has names and whose others have numbers, for the script."""
  headings = [{"text": text, "numeric": column > 0} for column, text in enumerate(grid.headings)]
  rows = [
    [{"text": name, "value": name, "head": True, "classes": "first"}]
    + [{"text": text, "value": float(text.rstrip("%"))} for text in numbers]
    for name, *numbers in grid.body
  ]
  return {"headings": headings, "rows": rows}


def _switches() -> str:
  choices = elements.choice("along", "Along", [("step", "Steps"), ("hours", "Hours")])
  choices += elements.choice("smoothing", "Smoothing", _SMOOTHING)
  return (
    f'<div id="switches" role="group" aria-label="Controls of all charts"><div class="legend"></div>'
    f'<div class="controls">{choices}</div></div>\n'
  )
