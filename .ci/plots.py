"""Draws the plots of docs/benchmarks.md from benchmarks/results/*.json: docs/images/plot_NAME.svg and its variants.

usage: python .ci/plots.py     seconds; a test says when a result has changed since
"""

import html
import json
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results"

_WIDTHS = {"": 720, "-400": 380}
"""Ending of a file's name -> its width in pixels."""
_PALETTES = {
  "": {"text": "#333", "soft": "#666", "line": "#ddd", "series": ("#3f51b5", "#c2410c", "#0f766e")},
  "-dark": {"text": "#ddd", "soft": "#aaa", "line": "#444", "series": ("#9fa8ff", "#fb923c", "#5eead4")},
}
_HEIGHT, _TOP, _BOTTOM, _LEFT, _RIGHT = 300, 58, 44, 62, 16


class Series(NamedTuple):
  """A line: its name and its points; `measured` is how many of the first points are, the others are modelled."""

  name: str
  points: list[tuple[float, float]]
  measured: int


class Lines(NamedTuple):
  """A plot of lines on two logarithmic axes."""

  title: str
  x: str
  y: str
  series: list[Series]


class Bars(NamedTuple):
  """Bars of parts that add up, from the left."""

  title: str
  x: str
  parts: tuple[str, ...]
  bars: list[tuple[str, tuple[float, ...]]]


def scoring() -> Lines:
  """CPU seconds of scoring against captions."""
  rows = _rows("scoring_growth")
  ours = [(_number(row[0]), _number(row[1])) for row in rows]
  peer = [(_number(row[0]), _number(row[2])) for row in rows if row[2] != "-"]
  return Lines(
    "Scoring by CIDEr-D in 36 languages", "captions", "CPU seconds",
    [Series("xmcap score", ours, len(ours)), Series("pycocoevalcap", peer, len(peer))],
  )  # fmt: skip


def stream() -> Lines:
  """Pictures per second against cores."""
  rows = _rows("stream_cores")
  cores = [_number(row[0].partition(",")[0]) for row in rows]
  measured = sum("model" not in row[0] for row in rows)
  series = [
    Series(name, [(core, _number(row[place])) for core, row in zip(cores, rows, strict=True)], measured)
    for name, place in (("processes", 2), ("threads", 1))
  ]
  return Lines("The data stream of one host", "cores", "pictures per second", series)


def plan() -> Bars:
  """A planned step of BB by its parts."""
  bars = []
  for row in _rows("plan_captions_per_image"):
    hidden, exposed = _number(row[5]), _number(row[6])
    bars.append((f"{row[0].upper()}, K = {row[1]}", (hidden, exposed - hidden)))
  parts = ("computing, by the compiler's schedule", "communication, if nothing hides it")
  return Bars("A planned training step on 64 v4 chips, 2,048 captions", "ms", parts, bars)


PLOTS: dict[str, Callable[[], Lines | Bars]] = {
  "plot_scoring": scoring,
  "plot_stream": stream,
  "plot_plan": plan,
}


def draw(plot: Lines | Bars, width: int, palette: dict[str, Any]) -> str:
  """A plot as SVG."""
  body = _lines(plot, width, palette) if isinstance(plot, Lines) else _bars(plot, width, palette)
  height = _HEIGHT if isinstance(plot, Lines) else _bars_height(plot)
  head = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    f'font-family="system-ui, sans-serif" font-size="13" role="img">'
  )
  title = f"<title>{html.escape(plot.title)}</title>{_text(8, 18, plot.title, palette['text'], weight=600)}"
  return f"{head}{title}{''.join(body)}</svg>\n"


def files() -> dict[str, str]:
  """Name of each file -> its text."""
  return {
    f"{name}{narrow}{dark}.svg": draw(make(), width, palette)
    for name, make in PLOTS.items()
    for narrow, width in _WIDTHS.items()
    for dark, palette in _PALETTES.items()
  }


def _lines(plot: Lines, width: int, palette: dict[str, Any]) -> list[str]:
  xs = [x for one in plot.series for x, _ in one.points]
  ys = [y for one in plot.series for _, y in one.points]
  low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
  begin, end = math.log10(min(xs)), math.log10(max(xs))

  def place(x: float, y: float) -> tuple[float, float]:
    across = (math.log10(x) - begin) / (end - begin)
    up = (math.log10(y) - low) / (high - low)
    return (
      _LEFT + across * (width - _LEFT - _RIGHT - 24) + 12,
      _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
    )

  parts = []
  for power in range(low, high + 1):
    _, y = place(xs[0], 10**power)
    parts.append(f'<path d="M{_LEFT} {y:.1f}H{width - _RIGHT}" stroke="{palette["line"]}"/>')
    parts.append(_text(_LEFT - 6, y + 4, f"{10**power:,}", palette["soft"], anchor="end"))
  for x in _apart(sorted(set(xs)), lambda x: place(x, 10**low)[0], 52):
    parts.append(
      _text(place(x, 10**low)[0], _HEIGHT - _BOTTOM + 18, f"{x:,.0f}", palette["soft"], anchor="middle")
    )
  parts.append(_text((_LEFT + width - _RIGHT) / 2, _HEIGHT - 8, plot.x, palette["soft"], anchor="middle"))
  parts.append(_text(8, _TOP - 10, plot.y, palette["soft"]))
  legend = 24 + 7 * len(plot.y)
  for one, color in zip(plot.series, palette["series"], strict=False):
    points = [place(*point) for point in one.points]
    for first, second, dashes in (
      (0, one.measured, ""),
      (one.measured - 1, len(points), ' stroke-dasharray="5 4"'),
    ):
      path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points[first:second])
      if second - first > 1:
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
    for number, (x, y) in enumerate(points):
      fill = color if number < one.measured else "none"
      parts.append(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}" stroke="{color}" stroke-width="1.5"/>'
      )
    parts.append(f'<path d="M{legend} {_TOP - 14}h16" stroke="{color}" stroke-width="3"/>')
    parts.append(_text(legend + 22, _TOP - 10, one.name, palette["text"]))
    legend += 44 + 7 * len(one.name)
  if any(one.measured < len(one.points) for one in plot.series) and width > 500:
    parts.append(_text(width - _RIGHT, _TOP - 10, "dashed: model", palette["soft"], anchor="end"))
  return parts


def _bars_height(plot: Bars) -> int:
  return _TOP + 20 * len(plot.parts) + 38 * len(plot.bars) + 8


def _bars(plot: Bars, width: int, palette: dict[str, Any]) -> list[str]:
  parts, left = [], 84
  longest = max(sum(values) for _, values in plot.bars)
  scale = (width - left - _RIGHT - 64) / longest
  for number, (name, color) in enumerate(zip(plot.parts, palette["series"], strict=False)):
    y = 40 + 20 * number
    parts.append(f'<rect x="8" y="{y - 10}" width="12" height="12" fill="{color}"/>')
    parts.append(_text(26, y, name, palette["text"]))
  for number, (name, values) in enumerate(plot.bars):
    y, x = _TOP + 20 * len(plot.parts) - 12 + 38 * number, float(left)
    parts.append(_text(8, y + 18, name, palette["text"]))
    for value, color in zip(values, palette["series"], strict=False):
      parts.append(f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.1f}" height="26" fill="{color}"/>')
      x += value * scale
    parts.append(_text(x + 6, y + 18, f"{sum(values):.1f} {plot.x}", palette["text"]))
  return parts


def _apart(values: Sequence[float], place: Callable[[float], float], pixels: float) -> list[float]:
  """Of values those whose labels do not touch; the last is always one."""
  kept = [values[-1]]
  for value in reversed(values[:-1]):
    if place(kept[-1]) - place(value) >= pixels:
      kept.append(value)
  return kept


def _text(x: float, y: float, text: str, color: str, anchor: str = "start", weight: int = 400) -> str:
  place = f'x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-weight="{weight}"'
  return f"<text {place}>{html.escape(text)}</text>"


def _rows(name: str) -> list[list[str]]:
  return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def _number(cell: str) -> float:
  return float(cell.replace(",", ""))


def main() -> None:
  for name, text in files().items():
    (IMAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
  main()
