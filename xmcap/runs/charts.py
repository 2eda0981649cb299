"""The charts of the page, and the points of their curves."""

import dataclasses
import math
from collections.abc import Sequence

from xmcap.runs.history import RunHistory, evaluations, names_of

MAX_POINTS = 400
"""Most points of a curve on the page; longer curves keep the lowest and the highest point of each stretch."""

SHARES = {
  "waiting_for_data": "waiting for data",
  "evaluating": "evaluating",
  "saving": "saving",
  "compiling": "compiling",
  "profiling": "profiling",
}
_NORMS = {"grad_norm": "gradient", "update_norm": "update", "param_norm": "parameters"}


@dataclasses.dataclass(frozen=True)
class CurveChart:
  """A chart with a line for each run that has the curve.

  Attributes:
    curve: name in `metrics.jsonl`.
    axis: `linear`, or the name of the control that selects linear or log.
    languages: code -> name of the curve of one language; the reader chooses one.
  """

  curve: str
  title: str
  unit: str = ""
  axis: str = "linear"
  percent: bool = False
  from_zero: bool = False
  times: float = 1.0
  languages: dict[str, str] = dataclasses.field(default_factory=dict)


_LEARNING = (
  CurveChart("train/loss", "Loss", "mean since the last report", axis="loss"),
  CurveChart("train/accuracy", "Accuracy", "of the next token", percent=True),
  CurveChart("train/exact", "Exact", "pictures with all tags right", percent=True),
  CurveChart("train/learning_rate", "Learning rate", from_zero=True),
  CurveChart("train/skipped", "Skipped steps", "non-finite, since the start", from_zero=True),
)
_SPEED = (
  CurveChart("speed/captions_per_second", "Captions", "per second", from_zero=True),
  CurveChart("speed/pictures_per_second", "Pictures", "per second", from_zero=True),
  CurveChart("speed/tokens_per_second", "Tokens", "per second", from_zero=True),
  CurveChart(
    "speed/mfu", "Model-flops utilisation", "of the devices\u2019 peak", percent=True, from_zero=True
  ),
  CurveChart("speed/step_seconds_p50", "Step time, median", "seconds", from_zero=True),
  CurveChart("speed/step_seconds_p95", "Step time, 95th percentile", "seconds", from_zero=True),
  CurveChart(
    "memory/peak_bytes", "Memory of the fullest device", "peak in GiB", from_zero=True, times=2.0**-30
  ),
)


def sections(runs: Sequence[RunHistory], metrics: Sequence[str]) -> dict[str, list[CurveChart]]:
  """Returns section -> its charts; the chart of skipped steps only if there are any."""
  skipped = any(run.last("train/skipped") for run in runs)
  learning = [chart for chart in _LEARNING if skipped or chart.curve != "train/skipped"]
  measured = evaluations(names_of(runs))
  evaluation = []
  for metric in metrics:
    curves = dict(measured[metric])
    mean = curves.pop("", None)
    if mean is not None:
      evaluation.append(CurveChart(mean, metric, "mean over languages" if curves else "", languages=curves))
  charts = {"learning": learning, "evaluation": evaluation, "speed": _SPEED}
  return {name: _present(section, runs) for name, section in charts.items()}


def norms(runs: Sequence[RunHistory]) -> dict[str, list[CurveChart]]:
  """Returns part of the model -> its charts: gradient, update, parameters."""
  split = [name.partition("/") for name in names_of(runs)]
  charts = {}
  for part in dict.fromkeys(part for kind, _, part in split if kind in _NORMS):
    of_part = [CurveChart(f"{kind}/{part}", title, axis="norms") for kind, title in _NORMS.items()]
    charts[part] = _present(of_part, runs)
  return {part: of_part for part, of_part in charts.items() if of_part}


def points(run: RunHistory, curve: str, times: float = 1.0) -> tuple[list[int], list[float | None]]:
  """Returns steps and values to draw, at most about `MAX_POINTS`; longer curves keep their extremes."""
  steps, values = run.curve(curve)
  kept = range(len(steps)) if len(steps) <= MAX_POINTS else _extremes(values)
  drawn = (values[i] for i in kept)
  return [steps[i] for i in kept], [None if value is None else _short(times * value) for value in drawn]


def shares(run: RunHistory) -> tuple[list[int], dict[str, list[float]], dict[str, float]]:
  """Returns steps, and for each kind of `SHARES` that took any time, its share at each step and in the whole run.

  If there are many reports, adjacent ones are merged. A report is weighted by the time that it covers.
  """
  reports, before = [], 0.0
  for step, ran, values in run.rows:
    if "time/waiting_for_data" in values:
      reports.append((step, max(ran - before, 1e-9), values))
      before = ran
  together = max(1, math.ceil(len(reports) / (MAX_POINTS // 2)))
  groups = [reports[begin : begin + together] for begin in range(0, len(reports), together)]
  whole = {kind: share for kind in SHARES if (share := _share(reports, kind))}
  drawn = {kind: [_short(_share(group, kind)) for group in groups] for kind in whole}
  return [group[-1][0] for group in groups], drawn, whole


def _share(reports: Sequence[tuple[int, float, dict]], kind: str) -> float:
  passed = sum(seconds * (values.get(f"time/{kind}") or 0.0) for _, seconds, values in reports)
  return passed / sum(seconds for _, seconds, _ in reports) if reports else 0.0


def _present(charts: Sequence[CurveChart], runs: Sequence[RunHistory]) -> list[CurveChart]:
  """Returns the charts that have a finite value to show."""
  return [chart for chart in charts if any(run.last(chart.curve) is not None for run in runs)]


def _extremes(values: Sequence[float | None]) -> list[int]:
  stretch = math.ceil(2 * len(values) / MAX_POINTS)
  kept = {0, len(values) - 1}
  for begin in range(0, len(values), stretch):
    part = enumerate(values[begin : begin + stretch], begin)
    finite = [(value, i) for i, value in part if value is not None]
    # A stretch without finite values stays a gap.
    kept |= {min(finite)[1], max(finite, key=lambda found: found[0])[1]} if finite else {begin}
  return sorted(kept)


def _short(value: float) -> float:
  """Rounds to five significant digits, which is enough for the curves of a page."""
  return float(f"{value:.5g}")
