"""Reads the numbers of a run from its `metrics.jsonl`."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError, XmcapError
from xmcap.files.bucket_paths import epath
from xmcap.training.reporting import metrics_file
from xmcap.training.reporting.metrics_file import EVAL, FILE

# Seconds without a line (or five times its longest gap) after which a run that has not ended counts as silent.
_QUIET = 600.0
_OTHERS = ("step", "time", "event")
_LOWER_IS_BETTER = ("loss", "cross_entropy", "perplexity", "labels_loss")


@dataclasses.dataclass
class RunHistory:
  """The logged metrics of a run.

  Attributes:
    name: short name, unique among the runs shown.
    total_steps: of its last start; None if that is unknown.
    state: `running`, `finished`, `stopped`, `failed`, or `silent` if it ended without a message.
    rows: (step, values by name), by ascending step; None is a value that was not finite.
    quiet: seconds from its last line until it was read.
    torn: number of lines that could not be read.
    starts: how often it was started.
    xla_flags: of its last start.
  """

  name: str
  folder: str
  total_steps: int | None = None
  state: str = "running"
  reason: str = ""
  rows: list[tuple[int, dict[str, float | None]]] = dataclasses.field(default_factory=list)
  quiet: float = 0.0
  torn: int = 0
  starts: int = 0
  xla_flags: str = ""

  @property
  def step(self) -> int:
    """The last reported step."""
    return self.rows[-1][0] if self.rows else 0

  def curve(self, name: str) -> tuple[list[int], list[float | None]]:
    """Returns steps and values of one name."""
    points = [(step, values[name]) for step, values in self.rows if name in values]
    return [step for step, _ in points], [value for _, value in points]

  def last(self, name: str) -> float | None:
    """Returns the last finite value of a name, or None."""
    return next((value for value in reversed(self.curve(name)[1]) if value is not None), None)

  def best(self, name: str) -> tuple[float, int] | None:
    """Returns the best value of a metric and the first step with it, or None."""
    points = [(value, step) for step, value in zip(*self.curve(name), strict=True) if value is not None]
    if not points:
      return None
    if name.rpartition("/")[2] in _LOWER_IS_BETTER:
      return min(points)
    return max(points, key=lambda pair: (pair[0], -pair[1]))


def names_of(runs: Sequence[RunHistory]) -> list[str]:
  """Returns the names of all values in the runs, in order of first appearance."""
  return list(dict.fromkeys(name for run in runs for _, values in run.rows for name in values))


def evaluations(names: Sequence[str]) -> list[str]:
  """Returns the metrics of evaluations among names, without `eval/` and without their values in one language.

  Those are below the metric, as `eval/t2i_r1/af` below `eval/t2i_r1`.
  """
  metrics = dict.fromkeys(name.removeprefix(EVAL) for name in names if name.startswith(EVAL))
  return [metric for metric in metrics if metric.rpartition("/")[0] not in metrics]


def read_runs(folders: Sequence[str], now: float | None = None) -> tuple[list[RunHistory], list[str]]:
  """Reads runs; a folder that is not a run stands for the runs directly below it.

  `now`, in seconds since 1970, decides whether a run is silent; None: the current time. Returns the runs, and a line
  about each folder that was left out. Raises UsageError if there are no runs at all.
  """
  gathered, left_out = [], []
  for folder in map(epath.Path, folders):
    runs = [folder]
    if not (folder / FILE).exists():
      below = sorted(folder.iterdir()) if folder.is_dir() else []
      runs = [path for path in below if (path / FILE).exists()]
    gathered += runs
    if not runs:
      left_out.append(f"{folder}: no {FILE}: give the MODEL_DIR of a run, or a folder of runs")
  if not gathered:
    raise UsageError("; ".join(left_out))
  unique = list(dict.fromkeys(os.fspath(path).rstrip("/") for path in gathered))
  now = time.time() if now is None else now
  names = wording.names_of_paths(unique)
  return [_read(name, folder, now) for name, folder in zip(names, unique, strict=True)], left_out


def _read(name: str, folder: str, now: float) -> RunHistory:
  file = epath.Path(folder) / FILE
  try:
    lines = metrics_file.read(folder)
  except OSError as error:
    raise XmcapError(f"{file}: cannot be read ({error}): remove it from the list") from None
  history = RunHistory(name, folder)
  rows: dict[int, dict[str, float | None]] = {}
  last, longest = 0.0, 0.0  # time of the last line, and the longest gap within a start
  for row in lines:
    if row is None:
      history.torn += 1
      continue
    step, event = row["step"], row.get("event")
    if event != "started":
      longest = max(longest, row["time"] - (last or row["time"]))
    last = row["time"]
    if event == "started":
      history.starts += 1
      # A run that was killed repeats the steps after its last checkpoint.
      rows = {at: values for at, values in rows.items() if at <= step}
      history.xla_flags = str(row.get("xla_flags", ""))
      total = row.get("total_steps")
      history.total_steps = total if metrics_file.is_number(total) and isinstance(total, int) else None
    if event is None:
      rows[step] = {**rows.get(step, {}), **_measured(row)}
    else:
      history.state = "running" if event == "started" else event
      history.reason = str(row.get("error", ""))
  history.rows = sorted(rows.items(), key=lambda item: item[0])
  history.quiet = now - (last or file.stat().mtime)  # a file without a valid line has no time of its own
  if history.state == "running" and history.quiet > max(_QUIET, 5 * longest):
    history.state = "silent"
  return history


def _measured(row: dict[str, Any]) -> dict[str, float | None]:
  """Returns the numbers of a line, None for those that were not finite."""
  return {
    name: value
    for name, value in row.items()
    if name not in _OTHERS and (value is None or metrics_file.is_number(value))
  }
