"""The bar chart of the report: a column a language, other systems as marks, drawn as plain SVG."""

import math
from collections.abc import Mapping, Sequence

from xmcap import languages
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import axes, elements

_LEFT, _TOP, _BOTTOM, _HEIGHT = 46, 14, 26, 236
_WIDEST, _PITCH = 1180, 30
_GROUPS = ("english", "web", "low_resource")

Others = Sequence[tuple[str, tables.Table]]
"""Names and tables of what is shown beside the system that a report is about."""


def section(table: tables.Table, others: Others, name: str) -> str:
  """Returns the section: a chart for each metric, of which one is shown."""
  sorts = [("code", "Code"), ("score", "Score"), ("group", "Group")]
  panels = "".join(
    f'<div class="panel" data-metric="{metric}"{"" if metric == table.primary else " hidden"}>'
    f"{chart(metric, table, others)}</div>"
    for metric in table.metrics
  )
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
    f'<div class="sheet scroll" tabindex="0" role="group" aria-label="Chart of scores">{panels}</div>',
    f'<span class="legend">{"".join(keys)}</span>',
    elements.metric_choice("chart-metric", table.metrics, table.primary)
    + elements.choice("chart-sort", "Sort by", sorts),
  )


def chart(metric: str, table: tables.Table, others: Others) -> str:
  """Returns an `<svg>` of one metric, columns in the order of the table.

  Each column carries its place in every sort order as `data-by-*`, for the script to move it.
  """
  scores = {code: row[metric] for code, row in table.rows.items()}
  marks = [
    (number, name, other)
    for number, (name, other) in enumerate(others)
    if metric in other.metrics and other.rows.keys() & scores.keys()
  ]
  highest = max(
    [
      *scores.values(),
      *(ends[1] for code in scores if (ends := _ends(table, code, metric))),
      *(row[metric] for _, _, other in marks for code, row in other.rows.items() if code in scores),
    ]
  )
  ticks = axes.ticks(0.0, 1.0 if metric == "exact" and highest > 0.4 else highest)
  pitch = min(72.0, max(_PITCH, (_WIDEST - _LEFT) / len(scores)))
  width = _LEFT + pitch * len(scores)

  def y(score: float) -> float:
    return _TOP + _HEIGHT * (1 - min(score, ticks[-1]) / ticks[-1])

  parts = [
    f'<svg class="chart" viewBox="0 0 {width:.0f} {_TOP + _HEIGHT + _BOTTOM}" role="img" '
    f'aria-label="{_label(metric, scores)}" style="min-width:{min(width, 840):.0f}px;max-width:{width:.0f}px">'
  ]
  for tick in ticks:
    text = f"{100 * tick:g}%" if metrics_lib.METRICS[metric].percent else f"{tick:g}"
    parts.append(
      f'<line class="grid" x1="{_LEFT}" x2="{width:.0f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
      f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 3.5:.1f}">{text}</text>'
    )
  places = _places(scores)
  bar = min(30.0, pitch * (0.5 if marks else 0.62))
  # Marks stand beside the middle of the bar, where its interval is.
  middle = pitch / 2 - (4 if marks else 0)
  for code, score in scores.items():
    order = " ".join(f'data-by-{by}="{_LEFT + pitch * place[code]:.1f}"' for by, place in places.items())
    start = _LEFT + pitch * places["code"][code]
    parts.append(
      f'<g class="column" {order} data-tip="{_tip(metric, code, table, marks)}" '
      f'style="transform:translateX({start:.1f}px)">'
      f'<rect class="hit" width="{pitch:.1f}" y="{_TOP}" height="{_HEIGHT + _BOTTOM}"/>'
      f'<path class="bar" d="{_bar(middle - bar / 2, bar, y(score))}"/>'
    )
    if ends := _ends(table, code, metric):
      parts.append(f'<path class="whisker" d="{_whisker(middle, y(ends[0]), y(ends[1]))}"/>')
    for number, _, other in marks:
      if code in other.rows:
        x = middle + bar / 2 + 3.2
        if ends := _ends(other, code, metric):
          line = f"mark-line-{number % elements.NUM_MARKS}"
          parts.append(f'<path class="whisker {line}" d="M{x:.1f} {y(ends[1]):.1f}V{y(ends[0]):.1f}"/>')
        parts.append(elements.mark(number, x, y(other.rows[code][metric]), 4.2))
    parts.append(f'<text class="code" x="{pitch / 2:.1f}" y="{_TOP + _HEIGHT + 17}">{code}</text></g>')
  mean = y(list(table.means.values())[-1][metric])
  parts.append(f'<line class="mean" x1="{_LEFT}" x2="{width:.0f}" y1="{mean:.1f}" y2="{mean:.1f}"/></svg>')
  return "".join(parts)


def _ends(table: tables.Table, code: str, metric: str) -> tables.Interval | None:
  ends = table.intervals.get(code, {}).get(metric)
  return None if ends is None or any(map(math.isnan, ends)) else ends


def _tip(metric: str, code: str, table: tables.Table, marks: Sequence[tuple[int, str, tables.Table]]) -> str:
  lines = [
    languages.get(code).english_name,
    f"{metrics_lib.METRICS[metric].heading} {table.cell(code, metric)}",
  ]
  lines += [f"{name} {other.cell(code, metric)}" for _, name, other in marks if code in other.rows]
  return elements.escape("\n".join(lines))


def _bar(x: float, width: float, top: float) -> str:
  bottom = _TOP + _HEIGHT
  radius = min(3.0, max(0.0, bottom - top))
  return (
    f"M{x:.1f} {bottom}V{top + radius:.1f}q0 {-radius:.1f} {radius:.1f} {-radius:.1f}"
    f"h{width - 2 * radius:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}V{bottom}Z"
  )


def _whisker(x: float, low: float, high: float) -> str:
  return f"M{x - 3:.1f} {high:.1f}h6M{x:.1f} {high:.1f}V{low:.1f}M{x - 3:.1f} {low:.1f}h6"


def _label(metric: str, scores: Mapping[str, float]) -> str:
  held = metrics_lib.METRICS[metric]
  best, worst = (
    f"{languages.get(code).english_name}, {held.format(scores[code])}"
    for code in (max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__))
  )
  return elements.escape(
    f"{held.heading} of each language; highest {best}; lowest {worst}. The table holds every number."
  )


def _places(scores: Mapping[str, float]) -> dict[str, dict[str, int]]:
  orders = {
    "code": list(scores),
    "score": sorted(scores, key=lambda code: -scores[code]),
    "group": sorted(scores, key=lambda code: (_GROUPS.index(languages.get(code).group), -scores[code])),
  }
  return {by: {code: place for place, code in enumerate(codes)} for by, codes in orders.items()}
