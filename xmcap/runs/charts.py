"""Which curves the page shows, and their points."""

import dataclasses
import math
from collections.abc import Sequence

from xmcap.runs.history import History, evaluations

MAX_POINTS = 400
"""Of a curve on the page; of more, the lowest and the highest of each stretch are drawn."""

SHARES = {
  "waiting_for_data": "waiting for data",
  "evaluating": "evaluating",
  "saving": "saving",
  "compiling": "compiling",
  "profiling": "profiling",
}
NORMS = {"grad_norm": "gradient", "update_norm": "update", "param_norm": "parameters"}


@dataclasses.dataclass(frozen=True)
class Chart:
  """A chart with a line for each run that has the curve.

  Attributes:
    curve: name in `metrics.jsonl`.
    title: of the chart.
    unit: of its values.
    axis: `linear`, or the name of the control that says linear or log.
    percent: the values are shares.
    from_zero: the axis begins at 0.
    times: what the values are multiplied by.
    languages: code -> name of the curve of one language, where the reader may choose.
  """

  curve: str
  title: str
  unit: str
  axis: str = "linear"
  percent: bool = False
  from_zero: bool = False
  times: float = 1.0
  languages: dict[str, str] = dataclasses.field(default_factory=dict)

  def curves(self) -> list[str]:
    """All that it can show."""
    return [self.curve, *self.languages.values()]


LEARNING = (
  Chart("train/loss", "Loss", "mean since the last report", axis="loss"),
  Chart("train/accuracy", "Accuracy", "of the next token", percent=True),
  Chart("train/exact", "Exact", "pictures with all tags right", percent=True),
  Chart("train/learning_rate", "Learning rate", "", from_zero=True),
  Chart("train/skipped", "Skipped steps", "not finite, since the start", from_zero=True),
)
SPEED = (
  Chart("speed/captions_per_second", "Captions", "a second", from_zero=True),
  Chart("speed/pictures_per_second", "Pictures", "a second", from_zero=True),
  Chart("speed/tokens_per_second", "Tokens", "a second", from_zero=True),
  Chart("speed/mfu", "Model-flops utilisation", "of the devices\u2019 peak", percent=True, from_zero=True),
  Chart("speed/step_seconds_p50", "Step time, median", "seconds", from_zero=True),
  Chart("speed/step_seconds_p95", "Step time, 95th percentile", "seconds", from_zero=True),
  Chart("memory/peak_bytes", "Memory of the fullest device", "GiB at most", from_zero=True, times=2.0**-30),
)


def present(charts: Sequence[Chart], runs: Sequence[History]) -> list[Chart]:
  """Those of charts that have a finite value to show."""
  return [chart for chart in charts if any(run.last(chart.curve) is not None for run in runs)]


def learning(runs: Sequence[History]) -> list[Chart]:
  """The charts of what is learned; without skipped steps where there are none."""
  found = present(LEARNING, runs)
  return [
    chart for chart in found if chart.curve != "train/skipped" or any(run.last(chart.curve) for run in runs)
  ]


def evaluation(runs: Sequence[History], metrics: Sequence[str]) -> list[Chart]:
  """A chart for each metric, with its languages."""
  measured = evaluations([name for run in runs for name in run.names()])
  made = []
  for metric in metrics:
    of_languages = dict(measured[metric])
    mean = of_languages.pop("", None)
    if mean is not None:
      made.append(Chart(mean, metric, "mean over languages" if of_languages else "", languages=of_languages))
  return present(made, runs)


def norms(runs: Sequence[History]) -> dict[str, list[Chart]]:
  """Part of the model -> its charts: gradient, update, parameters."""
  names = dict.fromkeys(name for run in runs for name in run.names())
  kinds = {name.partition("/")[2]: None for name in names if name.partition("/")[0] in NORMS}
  return {
    part: present([Chart(f"{kind}/{part}", title, "", axis="norms") for kind, title in NORMS.items()], runs)
    for part in kinds
  }


def points(run: History, curve: str, times: float = 1.0) -> tuple[list[int], list[float | None]]:
  """Steps and values to draw, at most `MAX_POINTS`: where there are more, extremes stay."""
  steps, values = run.curve(curve)
  kept = range(len(steps)) if len(steps) <= MAX_POINTS else _extremes(values)
  return [steps[i] for i in kept], [short(None if values[i] is None else times * values[i]) for i in kept]


def _extremes(values: Sequence[float | None]) -> list[int]:
  stretch = math.ceil(2 * len(values) / MAX_POINTS)
  kept: set[int] = {0, len(values) - 1}
  for begin in range(0, len(values), stretch):
    places = range(begin, min(begin + stretch, len(values)))
    finite = [i for i in places if values[i] is not None]
    # A stretch with nothing finite stays a gap.
    kept |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)} if finite else {begin}
  return sorted(kept)


def shares(run: History) -> tuple[list[int], dict[str, list[float]]]:
  """Steps, and for each kind of `SHARES` that took any time its share of the time up to each step from the one before.

  Where there are many reports, neighbours are put together.
  """
  found = [(step, ran, values) for step, ran, values in run.rows if "time/waiting_for_data" in values]
  together = max(1, math.ceil(len(found) / (MAX_POINTS // 2)))
  groups = [found[begin : begin + together] for begin in range(0, len(found), together)]
  steps = [group[-1][0] for group in groups]
  means = {
    name: [
      short(sum(values.get(f"time/{name}") or 0.0 for _, _, values in group) / len(group)) for group in groups
    ]
    for name in SHARES
  }
  return steps, {name: of_name for name, of_name in means.items() if any(of_name)}


def mean_shares(run: History) -> dict[str, float]:
  """The same over the whole run, each report by the time that it is about."""
  sums, whole, before = dict.fromkeys(SHARES, 0.0), 0.0, 0.0
  for _, ran, values in run.rows:
    if "time/waiting_for_data" not in values:
      continue
    passed, before = ran - before, ran
    whole += passed
    for name in SHARES:
      sums[name] += passed * (values.get(f"time/{name}") or 0.0)
  return {name: value / whole for name, value in sums.items()} if whole else dict.fromkeys(SHARES, 0.0)


def short(value: float | None) -> float | None:
  """Five digits that count: what a page's curves need."""
  return None if value is None else float(f"{value:.5g}")
