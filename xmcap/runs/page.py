"""The page of runs: one HTML file that loads nothing, with a table and curves that lie over each other."""

import os
from collections.abc import Sequence

from xmcap import languages
from xmcap.runs import charts as charts_lib
from xmcap.runs import drawing, summary
from xmcap.runs.charts import Chart
from xmcap.runs.history import History
from xmcap.scoring import files
from xmcap.scoring.report import elements, sortable

_HEIGHT, _SMALL = 250, 190
_SMOOTHING = (("0", "None"), ("0.6", "Some"), ("0.9", "Much"))
_SCALES = (("linear", "Linear"), ("log", "Log"))


def write(
  path: str | os.PathLike,
  runs: Sequence[History],
  metrics: Sequence[str],
  notes: Sequence[str] = (),
  now: float | None = None,
) -> None:
  """Writes the page. The same runs at the same time give the same bytes.

  Args:
    path: the file.
    runs: what it shows.
    metrics: of evaluations, in order.
    notes: lines at the top, such as which folders were left out.
    now: seconds since 1970, by which a run is silent; None: the clock's.

  Raises:
    XmcapError: the file cannot be written.
  """
  data = _Data(runs)
  sections = {
    "runs": ("Runs", _table(runs, metrics, now)),
    "learning": ("Learning", _learning(data)),
    "evaluation": ("Evaluation", _evaluation(data, metrics)),
    "speed": ("Speed", _charts(data, "speed", "Speed", charts_lib.present(charts_lib.SPEED, runs))),
    "time": ("Time", _time(data)),
    "norms": ("Norms", _norms(data)),
  }
  links = "".join(f'<a href="#{key}">{text}</a>' for key, (text, body) in sections.items() if body)
  title = " · ".join(run.name for run in runs) if len(runs) <= 3 else f"{len(runs)} runs"
  style = elements.resource("base.css") + elements.resource("scores.css") + _own("runs.css")
  page = [
    elements.page_head(elements.escape(f"{title} – xmcap runs"), style, scripts=True),
    # What needs the script is not there without it.
    "<noscript><style>.needs-script, #switches fieldset, .controls { display: none !important; }</style></noscript>\n",
    '<a class="skip" href="#runs">Skip to the table</a>\n'
    f'<nav class="contents" aria-label="Sections"><a class="brand" href="#top">xmcap</a>{links}</nav>\n'
    f'<main id="top">\n<header class="page-head"><h1>{elements.escape(title)}</h1>'
    f'<p class="lede">{_lede(runs)}</p></header>\n',
    _notices(runs, notes),
    sections["runs"][1],
    _switches(runs),
    *(body for key, (_, body) in sections.items() if key != "runs"),
    "</main>\n",
    elements.script_json("runs-data", data.document()),
    f"<script>\n{elements.resource('base.js')}{elements.resource('axes.js')}{_own('runs.js')}</script>\n",
    "</body>\n</html>\n",
  ]
  files.write_text(path, "".join(page).encode("utf-8", "replace").decode())


def _own(name: str) -> str:
  return elements.resource(name, __package__)


class _Data:
  """The points that the page's script draws, each list of steps held once."""

  def __init__(self, runs: Sequence[History]):
    self.runs = runs
    self._steps: dict[tuple[int, ...], int] = {}
    self._curves: dict[str, list[list]] = {}
    self._shares: list[list] = []

  def lines(self, chart: Chart, curve: str) -> list[drawing.Line]:
    """The lines of a curve, noted for the script."""
    lines = []
    for number, run in enumerate(self.runs):
      steps, values = charts_lib.points(run, curve, chart.times)
      if any(value is not None for value in values):
        lines.append((number, steps, values))
    self._curves[curve] = [[number, self._number(steps), values] for number, steps, values in lines]
    return lines

  def shares(self, number: int) -> tuple[list[int], dict[str, list[float]]]:
    """The shares of a run, noted for the script."""
    steps, kinds = charts_lib.shares(self.runs[number])
    if steps:
      self._shares.append([number, self._number(steps), kinds])
    return steps, kinds

  def _number(self, steps: Sequence[int]) -> int:
    return self._steps.setdefault(tuple(steps), len(self._steps))

  def document(self) -> dict:
    """All that was noted."""
    clocks = []
    for run in self.runs:
      rows = run.rows[:: max(1, len(run.rows) // charts_lib.MAX_POINTS)] + run.rows[-1:]
      clocks.append([[step for step, _, _ in rows], [round(ran / 3600, 4) for _, ran, _ in rows]])
    return {
      "runs": [run.name for run in self.runs],
      "clocks": clocks,
      "steps": [list(steps) for steps in self._steps],
      "curves": self._curves,
      "shares": self._shares,
      "kinds": charts_lib.SHARES,
    }


def _lede(runs: Sequence[History]) -> str:
  counts: dict[str, int] = {}
  for run in runs:
    counts[run.state] = counts.get(run.state, 0) + 1
  states = ", ".join(f"{count} {state}" for state, count in counts.items())
  machines = dict.fromkeys(
    f"{run.facts['devices']} × {run.facts['device_kind']}"
    for run in runs
    if {"devices", "device_kind"} <= run.facts.keys()
  )
  return elements.escape("; ".join(filter(None, [states, ", ".join(machines)])))


def _notices(runs: Sequence[History], notes: Sequence[str]) -> str:
  lines = [elements.escape(note) for note in notes]
  for run in runs:
    if run.torn:
      lines.append(
        f"<b>{elements.escape(run.name)}</b>: {run.torn} line{'' if run.torn == 1 else 's'} of its metrics.jsonl "
        "could not be read"
      )
    if run.state == "failed":
      lines.append(f"<b>{elements.escape(run.name)}</b> failed: {elements.escape(run.reason)}")
  items = "".join(f"<li>{line}</li>" for line in lines)
  return f'<aside class="notices" aria-label="Notes"><ul>{items}</ul></aside>\n' if items else ""


def _named(number: int, run: History) -> str:
  return f'<span class="named">{drawing.key(number)}<bdi>{elements.escape(run.name)}</bdi></span>'


def _table(runs: Sequence[History], metrics: Sequence[str], now: float | None) -> str:
  shown = summary.columns(runs, metrics)
  columns = [
    sortable.Column("Run", number=False),
    sortable.Column("State", number=False),
    sortable.Column("Step"),
    *(sortable.Column(elements.escape(column.heading), hint=column.hint) for column in shown),
  ]
  rows = []
  for number, run in enumerate(runs):
    state = summary.state(run, now)
    cells = [
      sortable.row_head(_named(number, run), run.name, classes="first"),
      sortable.text(f'<span class="state state-{run.state}">{state}</span>', state),
      sortable.number(run.step, elements.escape(summary.steps(run))),
    ]
    for column in shown:
      value = column.value(run)
      cells.append(sortable.absent() if value is None else sortable.number(value, _cell(column, run)))
    rows.append(cells)
  return elements.section(
    "runs", "Runs", sortable.table("table", columns, rows, label="Runs and their last numbers")
  )


def _cell(column: summary.Column, run: History) -> str:
  best = column.best(run)
  under = f"<small>best {elements.escape(best)}</small>" if best else ""
  return f"{elements.escape(column.text(run))}{under}"


def _switches(runs: Sequence[History]) -> str:
  boxes = "".join(
    f'<label class="check"><input class="needs-script" type="checkbox" name="run" value="{number}" checked>'
    f"{_named(number, run)}</label>"
    for number, run in enumerate(runs)
  )
  choices = elements.choice("along", "Along", [("step", "Steps"), ("hours", "Hours")])
  choices += elements.choice("smoothing", "Smoothing", _SMOOTHING)
  return (
    f'<div id="switches" role="group" aria-label="What all charts show"><div class="legend">{boxes}</div>'
    f'<div class="controls">{choices}</div></div>\n'
  )


def _figure(data: _Data, chart: Chart, height: int = _HEIGHT) -> str:
  lines = data.lines(chart, chart.curve)
  for curve in chart.languages.values():
    data.lines(chart, curve)
  svg = drawing.curves(chart, lines, [run.name for run in data.runs], height, chart.axis == "norms")
  others = "".join(f' data-{code}="{elements.escape(curve)}"' for code, curve in chart.languages.items())
  flags = (" data-percent" if chart.percent else "") + (" data-from-zero" if chart.from_zero else "")
  unit = f' <span class="unit">{elements.escape(chart.unit)}</span>' if chart.unit else ""
  return (
    f'<figure class="sheet plot" data-curve="{elements.escape(chart.curve)}" data-axis="{chart.axis}" '
    f'data-height="{height}"{flags}{others}><figcaption>{elements.escape(chart.title)}{unit}</figcaption>'
    f'<div class="drawn">{svg}</div></figure>'
  )


def _charts(
  data: _Data, name: str, title: str, charts: Sequence[Chart], note: str = "", controls: str = ""
) -> str:
  if not charts:
    return ""
  figures = "".join(_figure(data, chart) for chart in charts)
  three = "" if len(charts) % 3 else " three"
  return elements.section(name, title, f'<div class="plots{three}">{figures}</div>', note, controls)


def _learning(data: _Data) -> str:
  return _charts(
    data, "learning", "Learning", charts_lib.learning(data.runs),
    controls=elements.choice("loss-axis", "Loss axis", _SCALES),
  )  # fmt: skip


def _evaluation(data: _Data, metrics: Sequence[str]) -> str:
  charts = charts_lib.evaluation(data.runs, metrics)
  codes = sorted(
    {code for chart in charts for code in chart.languages}, key=lambda code: languages.get(code).english_name
  )
  options = [("", "mean"), *((code, f"{languages.get(code).english_name} ({code})") for code in codes)]
  return _charts(
    data,
    "evaluation",
    "Evaluation",
    charts,
    controls=elements.choice("language", "Language", options, buttons=False),
  )


def _time(data: _Data) -> str:
  figures = []
  for number, run in enumerate(data.runs):
    steps, kinds = data.shares(number)
    if not steps:
      continue
    means = charts_lib.mean_shares(run)
    items = [
      f'<li><i class="swatch share-{kind}"></i>{text} <b>{means[kind]:.1%}</b></li>'
      for kind, text in charts_lib.SHARES.items()
      if means[kind]
    ]
    items.append(f'<li><i class="swatch"></i>training <b>{max(0.0, 1 - sum(means.values())):.1%}</b></li>')
    svg = drawing.shares(steps, kinds, _SMALL, run.name)
    figures.append(
      f'<figure class="sheet plot" data-shares="{len(figures)}" data-height="{_SMALL}">'
      f'<figcaption>{_named(number, run)}</figcaption><div class="drawn">{svg}</div>'
      f'<ul class="means">{"".join(items)}</ul></figure>'
    )
  if not figures:
    return ""
  note = (
    "Shares of the time between two reports; the rest is training. Below each, the shares of the whole run."
  )
  return elements.section("time", "Where the time goes", f'<div class="plots">{"".join(figures)}</div>', note)


def _norms(data: _Data) -> str:
  rows = []
  for part, charts in charts_lib.norms(data.runs).items():
    if charts:
      figures = "".join(_figure(data, chart, _SMALL) for chart in charts)
      rows.append(f'<h3>{elements.escape(part)}</h3><div class="plots three">{figures}</div>')
  if not rows:
    return ""
  note = "L2 norms of the gradient before clipping, of the update, and of the parameters, for each part of the model."
  controls = elements.choice("norms-axis", "Axis", _SCALES, "log")
  return elements.section("norms", "Norms by part", "".join(rows), note, controls)
