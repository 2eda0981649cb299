"""The runs as a table: where each stands, and its last and best numbers."""

import dataclasses
import time
from collections.abc import Callable, Sequence

from xmcap.errors import UsageError
from xmcap.runs.history import History, evaluations
from xmcap.scoring.grid import Grid
from xmcap.scoring.report import axes

_FIRST = ("cider_d", "cider", "loss", "accuracy")  # of the metrics, before all others
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Column:
  """A number of each run.

  Attributes:
    heading: above it.
    hint: what it is, in a sentence.
    value: of a run; None: it has none.
    text: of a value of that run.
    best: the best value and its step, where that is not the last; else "".
  """

  heading: str
  hint: str
  value: Callable[[History], float | None]
  text: Callable[[History], str]
  best: Callable[[History], str] = lambda run: ""


def metrics_of(runs: Sequence[History], wanted: Sequence[str] = ()) -> list[str]:
  """The metrics of evaluations to show, CIDEr first.

  Args:
    runs: that may have them.
    wanted: only these, in this order; () is all.

  Raises:
    UsageError: no run has one of those wanted.
  """
  found = list(dict.fromkeys(metric for run in runs for metric in evaluations(run.names())))
  for metric in wanted:
    if metric not in found:
      raise UsageError(f"--metrics={metric}: measured were {', '.join(found) or 'none'}")
  if wanted:
    return list(wanted)
  rank = {name: number for number, name in enumerate(_FIRST)}
  return sorted(found, key=lambda metric: rank.get(metric.rpartition("/")[2], len(rank)))


def columns(runs: Sequence[History], metrics: Sequence[str]) -> list[Column]:
  """The columns of numbers; those that no run has are left out."""
  made = [
    _last("loss", "training loss of the last report", "train/loss", number),
    _last("lr", "learning rate", "train/learning_rate", "{:.2e}".format),
    _last("captions/s", "captions a second, of all devices", "speed/captions_per_second", _count),
    _last("pictures/s", "pictures a second, of all devices", "speed/pictures_per_second", _count),
    _last("MFU", "model-flops utilisation", "speed/mfu", "{:.1%}".format),
    _last("memory", "of the fullest device, at most", "memory/peak_share", "{:.0%}".format),
    _last("waits", "share of the time waiting for data", "time/waiting_for_data", "{:.1%}".format),
  ]
  for metric in metrics:
    names = [name for name in dict.fromkeys(name for run in runs for name in run.names())]
    name = evaluations(names)[metric].get("")
    if name is not None:
      made.append(_last_and_best(metric, name))
  shown = [column for column in made if any(column.value(run) is not None for run in runs)]
  # Of runs that all learn captions, captions a second say it.
  captions = [run.last("speed/captions_per_second") is not None for run in runs if run.rows]
  return [column for column in shown if column.heading != "pictures/s" or not all(captions)]


def number(value: float) -> str:
  """A number with four digits that count."""
  if 0.1 <= abs(value) < 100 or value == 0:
    return f"{value:.4f}"
  return f"{value:.3g}" if abs(value) < 0.1 else f"{value:,.5g}"


def state(run: History, now: float | None = None) -> str:
  """How a run stands, such as `running` or `silent 3 h`."""
  if run.state != "silent":
    return run.state
  hours = ((time.time() if now is None else now) - run.last_time) / 3600
  return f"silent {hours:.0f} h" if hours >= 1 else f"silent {60 * hours:.0f} min"


def steps(run: History) -> str:
  """How far a run is, such as `1,200 of 2,000`."""
  total = run.facts.get("total_steps")
  return f"{run.step:,} of {total:,}" if isinstance(total, int) and total != run.step else f"{run.step:,}"


def table(runs: Sequence[History], metrics: Sequence[str], now: float | None = None) -> Grid:
  """The table for a terminal."""
  shown = columns(runs, metrics)
  rows = []
  for run in runs:
    cells = ["-" if column.value(run) is None else _cell(column, run) for column in shown]
    rows.append((run.name, state(run, now), steps(run), *cells))
  return Grid(("run", "state", "step", *(column.heading for column in shown)), tuple(rows), (), 2)


def hidden(metrics: Sequence[str]) -> tuple[list[str], str]:
  """The metrics that a terminal has room for, and a line about the others; "" where there are none."""
  kept, others = list(metrics[:_SHOWN]), metrics[_SHOWN:]
  return kept, f"also measured: {', '.join(others)} (--metrics=NAMES, or --out=FILE.html)" if others else ""


def _cell(column: Column, run: History) -> str:
  best = column.best(run)
  return f"{column.text(run)} ({best})" if best else column.text(run)


def _last(heading: str, hint: str, name: str, text: Callable[[float], str]) -> Column:
  return Column(heading, hint, lambda run: run.last(name), lambda run: text(run.last(name)))


def _last_and_best(metric: str, name: str) -> Column:
  def best(run: History) -> str:
    value, step = run.best(name)
    return "" if number(value) == number(run.last(name)) else f"{number(value)} @ {axes.text(step)}"

  return dataclasses.replace(_last(metric, "last, and best @ step", name, number), best=best)


def _count(value: float) -> str:
  return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
