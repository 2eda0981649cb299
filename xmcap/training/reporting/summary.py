"""A table of runs: the state of each, and its last and best numbers."""

import dataclasses
from collections.abc import Callable, Sequence

from xmcap.grid import Grid
from xmcap.training.reporting.goodput import KINDS, SECONDS
from xmcap.training.reporting.history import RunHistory, evaluations, names_of

# A narrow terminal goes without all metrics but the first three, then without these in this order, then without those.
_MOST_METRICS = 3
_SPARE = ("lr", "memory", "waits", "pictures/s", "goodput", "MFU", "captions/s", "loss")
_FIRST = ("cider_d", "cider", "loss", "accuracy")  # metrics shown before all others


@dataclasses.dataclass(frozen=True)
class RunColumn:
  """Each run's last number of one name; `is_metric`: a metric of an evaluation, whose best is shown too."""

  heading: str
  name: str
  format: Callable[[float], str]
  is_metric: bool = False

  def text(self, run: RunHistory) -> str:
    """Returns the last finite number of a run, or a dash."""
    value = run.last(self.name)
    return "-" if value is None else self.format(value)

  def best(self, run: RunHistory) -> str:
    """Returns the best value of a metric and its step if it is not the last value, else ""."""
    best = run.best(self.name) if self.is_metric else None
    return "" if best is None or number(best[0]) == self.text(run) else f"{number(best[0])} @ {best[1]:,}"


def _metrics(runs: Sequence[RunHistory]) -> list[str]:
  """Returns the metrics of evaluations, CIDEr first."""
  rank = {name: number for number, name in enumerate(_FIRST)}
  return sorted(
    evaluations(names_of(runs)), key=lambda metric: rank.get(metric.rpartition("/")[2], len(rank))
  )


def _columns(runs: Sequence[RunHistory], metrics: Sequence[str]) -> list[RunColumn]:
  """Returns the columns of numbers; those that no run has are left out."""
  made = [
    RunColumn("loss", "train/loss", number),
    RunColumn("lr", "train/learning_rate", "{:.2e}".format),
    RunColumn("captions/s", "speed/captions_per_second", _count),
    RunColumn("pictures/s", "speed/pictures_per_second", _count),
    RunColumn("MFU", "speed/mfu", "{:.1%}".format),
    RunColumn("memory", "memory/peak_share", "{:.0%}".format),
    RunColumn("goodput", "goodput/steps", "{:.1%}".format),
    RunColumn("waits", "time/waiting_for_data", "{:.1%}".format),
  ]
  made += [RunColumn(metric, f"eval/{metric}", number, is_metric=True) for metric in metrics]
  shown = [column for column in made if any(run.last(column.name) is not None for run in runs)]
  # If all runs learn captions, captions per second are enough.
  captions = [run.last("speed/captions_per_second") is not None for run in runs if run.rows]
  return [column for column in shown if column.heading != "pictures/s" or not all(captions)]


def number(value: float) -> str:
  """Formats a number with about four significant digits."""
  if 0.1 <= abs(value) < 100 or value == 0:
    return f"{value:.4f}"
  return f"{value:.3g}" if abs(value) < 0.1 else f"{value:,.5g}"


def state(run: RunHistory) -> str:
  """Returns the state of a run, such as `running` or `silent 3 h`."""
  if run.state != "silent":
    return run.state
  hours = run.quiet / 3600
  return f"silent {hours:.0f} h" if hours >= 1 else f"silent {60 * hours:.0f} min"


def steps(run: RunHistory) -> str:
  """Returns the progress of a run, such as `1,200 of 2,000`."""
  total = run.total_steps
  return f"{run.step:,} of {total:,}" if total not in (None, run.step) else f"{run.step:,}"


def table(runs: Sequence[RunHistory]) -> Grid:
  """Returns the table of states and numbers."""
  metrics = _metrics(runs)
  shown = _columns(runs, metrics)
  rows = []
  for run in runs:
    cells = [(column.text(run), column.best(run)) for column in shown]
    texts = [f"{text} ({best})" if best else text for text, best in cells]
    rows.append((run.name, state(run), steps(run), *texts))
  headings = ("run", "state", "step", *(column.heading for column in shown))
  return Grid(headings, tuple(rows), num_labels=2, spare=(*reversed(metrics[_MOST_METRICS:]), *_SPARE))


def goodput(runs: Sequence[RunHistory]) -> Grid | None:
  """Returns a table of the runs' time over all their starts: hours, and shares by kind; None if no run counted it."""
  counted = [run for run in runs if run.last(SECONDS) is not None]
  kinds = [kind for kind in KINDS if any(run.last(f"goodput/{kind}") for run in counted)]
  rows = []
  for run in counted:
    shares = [f"{run.last(f'goodput/{kind}') or 0.0:.1%}" for kind in kinds]
    rows.append((run.name, f"{(run.last(SECONDS) or 0.0) / 3600:.1f}", str(run.starts), *shares))
  headings = ("run", "hours", "starts", *(kind.replace("_", " ") for kind in kinds))
  return Grid(headings, tuple(rows)) if rows else None


def _count(value: float) -> str:
  return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
