"""A figure for a paper, by matplotlib: scores by language, or differences to a baseline, with 95% intervals."""

import io
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from xmcap import extras, languages
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.comparing import comparison as comparison_lib
from xmcap.scoring.tables import score_table

# Inches: a column and the two columns of ACL's style; more languages than fit into one need both.
_COLUMN, _PAGE, _MOST_IN_COLUMN, _HEIGHT = 3.03, 6.3, 17, 1.9
_MOST_LEVEL = 8  # labels that fit into a column side by side
# Text stays text, in fonts that publishers take (TrueType, no Type 3), and the same input gives the same bytes.
_STYLE: dict[Any, Any] = {
  "svg.fonttype": "none", "svg.hashsalt": "xmcap", "pdf.fonttype": 42, "text.parse_math": False,
  "font.family": "DejaVu Sans", "font.size": 7, "axes.linewidth": 0.6, "axes.spines.top": False,
  "axes.spines.right": False, "xtick.major.size": 0, "ytick.major.size": 2, "ytick.major.width": 0.6,
  "legend.frameon": False,
}  # fmt: skip
_METADATA = {".svg": {"Date": None, "Creator": "xmcap"}, ".pdf": {"CreationDate": None, "Creator": "xmcap"}}
# Of Okabe and Ito, told apart by readers who are colour-blind.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_MARKERS = "osD^"


class _Series(NamedTuple):
  """The points of a system: label -> (value, low, high), whose ends may be NaN; `filled` are labels."""

  name: str
  points: dict[str, tuple[float, float, float]]
  filled: frozenset[str] = frozenset()


def check(path: str | os.PathLike) -> None:
  """Raises UsageError if a file is of no format of a figure, or matplotlib is not installed."""
  if pathlib.Path(path).suffix.lower() not in _METADATA:
    raise UsageError(f"--plot={path}: a figure is {' or '.join(_METADATA)}, by the name of its file")
  if extras.absent(extras.OPTIONS["plot"]):
    raise UsageError(f"--plot needs matplotlib, of the extra plot: {extras.install('plot')}")


def write_scores(path: str | os.PathLike, table: score_table.Table) -> None:
  """Writes the primary metric of a table as bars by language and the last mean, with intervals if it has them."""
  metric = table.primary
  factor, unknown = table.factor(metric), (math.nan, math.nan)
  names = [*table.rows, *(list(table.means)[-1:] if len(table.rows) > 1 else [])]
  points = {}
  for name in names:
    low, high = table.intervals.get(name, {}).get(metric, unknown)
    label = name if name in table.rows else "mean"
    points[label] = (factor * table.scores[name][metric], factor * low, factor * high)
  _write(path, [_Series(table.title, points)], metrics_lib.METRICS[metric].heading, bars=True)


def write_differences(path: str | os.PathLike, comparison: comparison_lib.Comparison) -> None:
  """Writes the differences to the baseline in the first metric, by language and in the last mean.

  A filled mark is a significant difference.
  """
  metric = comparison.rows[0].metric
  factor = metrics_lib.METRICS[metric].factor(comparison.scale)
  series = []
  for system in dict.fromkeys(row.system for row in comparison.rows):
    rows = [row for row in comparison.rows if (row.system, row.metric) == (system, metric)]
    of_languages = [row for row in rows if languages.is_known(row.name)]  # before the means
    shown = {row.name: row for row in of_languages}
    if len(rows) > len(of_languages) > 1:
      shown["mean"] = rows[-1]
    points = {
      label: (factor * row.difference, factor * row.low, factor * row.high) for label, row in shown.items()
    }
    series.append(
      _Series(system, points, frozenset(label for label, row in shown.items() if row.significant))
    )
  heading = metrics_lib.METRICS[metric].heading
  label = f"{heading} minus that of {comparison.baseline}"
  if len(series) == 1:
    label = f"{heading}: {series[0].name} minus {comparison.baseline}"
  _write(path, series, label, bars=False)


def _write(path: str | os.PathLike, series: Sequence[_Series], label: str, bars: bool) -> None:
  import matplotlib
  from matplotlib import figure

  suffix = pathlib.Path(path).suffix.lower()
  labels = list(series[0].points)
  width = _COLUMN if len(labels) <= _MOST_IN_COLUMN else _PAGE
  written = io.BytesIO()
  with matplotlib.rc_context():
    matplotlib.rcdefaults()  # not the style of the user's matplotlibrc
    matplotlib.rcParams.update(_STYLE)
    drawn = figure.Figure(figsize=(width, _HEIGHT), layout="constrained")
    axes = drawn.subplots()
    for place, of_system in enumerate(series):
      _draw(axes, of_system, labels, place, len(series), bars)
    is_upright = len(labels) > _MOST_LEVEL or max(map(len, labels)) > len("mean")
    axes.set_xticks(range(len(labels)), labels, rotation=90 if is_upright else 0)
    axes.set_xlim(-0.7, len(labels) - 0.3)
    if labels[-1] == "mean":
      axes.axvline(len(labels) - 1.5, color="0.7", linewidth=0.6, linestyle=":")
    if not bars:
      axes.axhline(0, color="0.3", linewidth=0.6)
    axes.set_ylabel(label, wrap=True)
    if len(series) > 1:
      drawn.legend(loc="outside upper center", ncols=min(len(series), 4))
    drawn.savefig(written, format=suffix[1:], metadata=_METADATA[suffix])
  with files.whole(path) as file:
    file.write(written.getvalue())


def _draw(axes: Any, series: _Series, labels: Sequence[str], place: int, count: int, bars: bool) -> None:
  """Draws a system, the `place`th of `count` beside each other at a language."""
  color = _COLORS[place % len(_COLORS)]
  marker = _MARKERS[(place + place // len(_COLORS)) % len(_MARKERS)]
  for x, label in enumerate(labels):
    value, low, high = series.points[label]
    x += (place - (count - 1) / 2) * 0.7 / count
    if bars:
      axes.bar(x, value, 0.7, color="#56b4e9" if label != "mean" else color)
    else:
      face = color if label in series.filled else "white"
      name = series.name if label == labels[0] else None
      axes.plot(
        x, value, marker, color=color, markerfacecolor=face, markersize=3, markeredgewidth=0.8, label=name
      )
    if not math.isnan(low):
      axes.vlines(x, low, high, color="0.2" if bars else color, linewidth=0.8, zorder=3 if bars else 1)
