"""The curves as plain SVG, as the page shows them where no script runs; runs.js draws the same anew."""

import math
from collections.abc import Sequence

from xmcap.runs import charts as charts_lib
from xmcap.runs.summary import number
from xmcap.scoring.report import axes, elements

NUM_LINES = 6
"""Colours of lines (in the style sheet); further runs repeat them with dashes."""

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 54, 16, 10, 40
_DOTS_UP_TO = 40  # points that are few are seen one by one

Line = tuple[int, Sequence[int], Sequence[float | None]]
"""The run's number, steps and values; None is a gap."""


def line_classes(number: int) -> str:
  """The classes that give a run's line its colour and its dashes."""
  return f"run line-{number % NUM_LINES} dash-{number // NUM_LINES % 3}"


def key(number: int) -> str:
  """What stands before a run's name: a piece of its line, with its mark."""
  return (
    f'<svg class="line-key {line_classes(number)}" viewBox="0 0 26 14" aria-hidden="true">'
    f'<path class="line" d="M1 7H25"/>{elements.mark(number, 13, 7)}</svg>'
  )


def curves(
  chart: charts_lib.Chart, lines: Sequence[Line], names: Sequence[str], height: int, log: bool = False
) -> str:
  """An `<svg>` of lines over steps.

  Args:
    chart: what they are.
    lines: in the order of the runs.
    names: of all runs.
    height: in pixels, at a width of 560.
    log: the axis of values is logarithmic; what is not above 0 is left out.
  """
  lines = [(run, steps, [_at(value, log) for value in values]) for run, steps, values in lines]
  finite = [value for _, _, values in lines for value in values if value is not None]
  if not finite:
    return (
      f'<svg class="lines" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="nothing to draw"></svg>'
    )
  low, high = min(finite), max(finite)
  if log:
    ticks = axes.log_ticks(10**low, 10**high)
    places = [math.log10(tick) for tick in ticks]
  else:
    ticks = places = axes.ticks(min(0.0, low) if chart.from_zero else low, high)
  last_step = max(steps[-1] for _, steps, _ in lines)
  x_ticks = axes.ticks(0, last_step)
  width, depth = _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM

  def x(step: float) -> float:
    return _LEFT + width * step / x_ticks[-1]

  def y(value: float) -> float:
    return _TOP + depth * (1 - (value - places[0]) / (places[-1] - places[0]))

  said = "; ".join(
    f"{names[run]} {number(last)}" for run, _, values in lines if (last := _last(values, log)) is not None
  )
  label = elements.escape(f"{chart.title} by step. Last values: {said}.")
  parts = [
    f'<svg class="lines" viewBox="0 0 {_WIDTH} {height}" tabindex="0" role="img" aria-label="{label}">'
  ]
  for tick, place in zip(ticks, places, strict=True):
    parts.append(_grid_line(y(place), axes.text(tick, chart.percent)))
  parts += [_step_tick(x(tick), height, axes.text(tick)) for tick in x_ticks]
  parts.append(f'<text class="axis" x="{_WIDTH - _RIGHT}" y="{height - 6}">step</text>')
  for run, steps, values in lines:
    parts.append(f'<g class="{line_classes(run)}"><path class="line" d="{_path(steps, values, x, y)}"/>')
    known = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
    if len(known) <= _DOTS_UP_TO:
      parts += [
        f'<circle class="dot" cx="{x(step):.1f}" cy="{y(value):.1f}" r="2.4"/>' for step, value in known
      ]
    if known:
      parts.append(elements.mark(run, x(known[-1][0]), y(known[-1][1])))
    parts.append("</g>")
  return "".join(parts) + "</svg>"


def shares(steps: Sequence[int], kinds: dict[str, Sequence[float]], height: int, name: str) -> str:
  """An `<svg>` of stacked shares of the time between a report and the one before it.

  Args:
    steps: of the reports.
    kinds: of `charts.SHARES` -> shares.
    height: in pixels, at a width of 560.
    name: of the run.
  """
  x_ticks = axes.ticks(0, steps[-1])
  width, depth = _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
  label = elements.escape(f"Shares of the time of {name} by step; the numbers are below.")
  parts = [
    f'<svg class="lines" viewBox="0 0 {_WIDTH} {height}" tabindex="0" role="img" aria-label="{label}">'
  ]
  for tick in (0, 0.25, 0.5, 0.75, 1):
    parts.append(_grid_line(_TOP + depth * (1 - tick), axes.text(tick, percent=True)))
  below = [0.0] * len(steps)
  xs = [_LEFT + width * step / x_ticks[-1] for step in (0, *steps)]
  parts.append(f'<rect class="share" x="{_LEFT}" y="{_TOP}" width="{xs[-1] - _LEFT:.1f}" height="{depth}"/>')
  for kind, values in kinds.items():
    above = [min(1.0, a + b) for a, b in zip(below, values, strict=True)]
    parts.append(f'<path class="share share-{kind}" d="{_band(xs, below, above, depth)}"/>')
    below = above
  parts += [_step_tick(_LEFT + width * tick / x_ticks[-1], height, axes.text(tick)) for tick in x_ticks]
  parts.append(f'<text class="axis" x="{_WIDTH - _RIGHT}" y="{height - 6}">step</text></svg>')
  return "".join(parts)


def _grid_line(y: float, text: str) -> str:
  return (
    f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    f'<text class="tick" x="{_LEFT - 8}" y="{y + 3.5:.1f}">{text}</text>'
  )


def _step_tick(x: float, height: int, text: str) -> str:
  return f'<text class="step-tick" x="{x:.1f}" y="{height - _BOTTOM + 17}">{text}</text>'


def _at(value: float | None, log: bool) -> float | None:
  if value is None or (log and value <= 0):
    return None
  return math.log10(value) if log else value


def _last(values: Sequence[float | None], log: bool) -> float | None:
  value = next((value for value in reversed(values) if value is not None), None)
  return None if value is None else 10**value if log else value


def _path(steps: Sequence[int], values: Sequence[float | None], x, y) -> str:
  parts, pen = [], "M"
  for step, value in zip(steps, values, strict=True):
    if value is None:
      pen = "M"
      continue
    parts.append(f"{pen}{x(step):.1f} {y(value):.1f}")
    pen = "L"
  return "".join(parts)


def _band(xs: Sequence[float], below: Sequence[float], above: Sequence[float], depth: float) -> str:
  upper = [f"{xs[i]:.1f} {_TOP + depth * (1 - above[i]):.1f}H{xs[i + 1]:.1f}" for i in range(len(above))]
  lower = [
    f"{xs[i + 1]:.1f} {_TOP + depth * (1 - below[i]):.1f}H{xs[i]:.1f}" for i in reversed(range(len(below)))
  ]
  return "M" + "L".join([*upper, *lower]) + "Z"
