"""The bar chart of the report: a column a language, baselines as marks, drawn as plain SVG."""

import html
import math
from collections.abc import Mapping

from xmcap import languages
from xmcap.scoring import tables

_LEFT, _TOP, _BOTTOM, _HEIGHT = 44, 14, 26, 230
_WIDEST, _PITCH = 1100, 29
_GROUPS = ("english", "web", "low_resource")
NUM_MARKS = 4
"""Number of shapes (and colours, in the style sheet) that tell baselines apart; further ones repeat."""


def chart(metric: str, table: tables.Table, baselines: Mapping[str, tables.Table]) -> str:
  """Returns an `<svg>` of one metric, columns in the order of the table.

  Each column carries its place in every sort order as `data-by-*`, for the script to move it.
  """
  scores = {code: row[metric] for code, row in table.rows.items()}
  marks = {
    name: {code: row[metric] for code, row in baseline.rows.items() if code in scores}
    for name, baseline in baselines.items()
  }
  highest = max([*scores.values(), *(score for values in marks.values() for score in values.values())])
  ticks = _ticks(1.0 if metric == "exact" else highest)
  pitch = min(72.0, max(_PITCH, (_WIDEST - _LEFT) / len(scores)))
  width = _LEFT + pitch * len(scores)

  def y(score: float) -> float:
    return _TOP + _HEIGHT * (1 - score / ticks[-1])

  parts = [
    f'<svg class="chart" viewBox="0 0 {width:.0f} {_TOP + _HEIGHT + _BOTTOM}" role="img" '
    f'aria-label="{_label(metric, scores)}" style="min-width:{min(width, 780):.0f}px">'
  ]
  for tick in ticks:
    text = f"{100 * tick:.0f}%" if metric == "exact" else f"{tick:g}"
    parts.append(
      f'<line class="grid" x1="{_LEFT}" x2="{width:.0f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
      f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 3.5:.1f}">{text}</text>'
    )
  places = _places(scores)
  bar = min(30.0, pitch * 0.66)
  for code, score in scores.items():
    tips = [f"{languages.get(code).english_name}: {tables.format_score(metric, score)}"]
    tips += [
      f"{name}: {tables.format_score(metric, values[code])}"
      for name, values in marks.items()
      if code in values
    ]
    order = " ".join(f'data-by-{by}="{_LEFT + pitch * place[code]:.1f}"' for by, place in places.items())
    start = _LEFT + pitch * places["code"][code]
    parts.append(
      f'<g class="column" {order} style="transform:translateX({start:.1f}px)">'
      f"<title>{html.escape(chr(10).join(tips))}</title>"
      f'<rect class="hit" width="{pitch:.1f}" y="{_TOP}" height="{_HEIGHT + _BOTTOM}"/>'
      f'<path class="bar" d="{_bar((pitch - bar) / 2, bar, y(score))}"/>'
    )
    for number, values in enumerate(marks.values()):
      if code in values:
        parts.append(mark(number, pitch / 2, y(values[code])))
    parts.append(f'<text class="code" x="{pitch / 2:.1f}" y="{_TOP + _HEIGHT + 17}">{code}</text></g>')
  mean = list(table.means.items())[-1]
  parts.append(
    f'<line class="mean" x1="{_LEFT}" x2="{width:.0f}" y1="{y(mean[1][metric]):.1f}" '
    f'y2="{y(mean[1][metric]):.1f}"><title>Mean, {tables.mean_label(mean[0])}: '
    f"{tables.format_score(metric, mean[1][metric])}</title></line></svg>"
  )
  return "".join(parts)


def mark(number: int, x: float, y: float, size: float = 4.6) -> str:
  """Returns the mark of a baseline, by its number, centred at a point."""
  number %= NUM_MARKS
  s = size
  path = (
    f"M{x - s:.1f} {y:.1f}L{x:.1f} {y - s:.1f}L{x + s:.1f} {y:.1f}L{x:.1f} {y + s:.1f}Z",
    f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0Z",
    f"M{x - s:.1f} {y + s * 0.8:.1f}L{x:.1f} {y - s:.1f}L{x + s:.1f} {y + s * 0.8:.1f}Z",
    f"M{x - s * 0.85:.1f} {y - s * 0.85:.1f}h{1.7 * s:.1f}v{1.7 * s:.1f}h{-1.7 * s:.1f}Z",
  )[number]
  return f'<path class="mark mark-{number}" d="{path}"/>'


def _bar(x: float, width: float, top: float) -> str:
  bottom = _TOP + _HEIGHT
  radius = min(3.0, max(0.0, bottom - top))
  return (
    f"M{x:.1f} {bottom}V{top + radius:.1f}q0 {-radius:.1f} {radius:.1f} {-radius:.1f}"
    f"h{width - 2 * radius:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}V{bottom}Z"
  )


def _label(metric: str, scores: Mapping[str, float]) -> str:
  best, worst = (
    f"{languages.get(code).english_name}, {tables.format_score(metric, scores[code])}"
    for code in (max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__))
  )
  return html.escape(
    f"{tables.COLUMNS[metric]} of each language; highest {best}; lowest {worst}. The "
    "table holds every number."
  )


def _places(scores: Mapping[str, float]) -> dict[str, dict[str, int]]:
  orders = {
    "code": list(scores),
    "score": sorted(scores, key=lambda code: -scores[code]),
    "group": sorted(scores, key=lambda code: (_GROUPS.index(languages.get(code).group), -scores[code])),
  }
  return {by: {code: place for place, code in enumerate(codes)} for by, codes in orders.items()}


def _ticks(highest: float) -> list[float]:
  """Returns round numbers from 0 to at least `highest`, five steps or fewer."""
  if highest <= 0:
    return [0.0, 1.0]
  rough = highest / 5
  power = 10.0 ** math.floor(math.log10(rough))
  step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
  return [round(step * i, 12) for i in range(math.ceil(highest / step - 1e-9) + 1)]
