"""Reads the numbers of a run from its `metrics.jsonl`."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError, XmcapError
from xmcap.storage.bucket_paths import epath
from xmcap.training.reporting import metrics_file
from xmcap.training.reporting.metrics_file import FILE

# Seconds without a line (or five times its longest gap) after which a run that has not ended counts as silent.
_QUIET = 600.0
_OTHERS = ("step", "time", "event")
_LOWER_IS_BETTER = ("loss", "cross_entropy", "perplexity", "labels_loss")


@dataclasses.dataclass
class RunHistory:
  """The logged metrics of a run.

  Attributes:
    name: short name, unique among the runs shown.
    facts: `total_steps`, `parameters`, `devices` and `device_kind` of its last start.
    state: `running`, `finished`, `stopped`, `failed`, or `silent` if it ended without a message.
    rows: (step, seconds of running, values by name), by ascending step; None is a value that was not finite.
    quiet: seconds from its last line until it was read.
    torn: number of lines that could not be read.
    starts: how often it was started.
  """

  name: str
  folder: str
  facts: dict[str, Any] = dataclasses.field(default_factory=dict)
  state: str = "running"
  reason: str = ""
  rows: list[tuple[int, float, dict[str, float | None]]] = dataclasses.field(default_factory=list)
  quiet: float = 0.0
  torn: int = 0
  starts: int = 0

  @property
  def step(self) -> int:
    """The last reported step."""
    return self.rows[-1][0] if self.rows else 0

  def curve(self, name: str) -> tuple[list[int], list[float | None]]:
    """Returns steps and values of one name."""
    found = [(step, values[name]) for step, _, values in self.rows if name in values]
    return [step for step, _ in found], [value for _, value in found]

  def last(self, name: str) -> float | None:
    """Returns the last finite value of a name, or None."""
    return next((value for value in reversed(self.curve(name)[1]) if value is not None), None)

  def best(self, name: str) -> tuple[float, int] | None:
    """Returns the best value of a metric and the first step with it, or None."""
    found = [(value, step) for step, value in zip(*self.curve(name), strict=True) if value is not None]
    if not found:
      return None
    if name.rpartition("/")[2] in _LOWER_IS_BETTER:
      return min(found)
    return max(found, key=lambda pair: (pair[0], -pair[1]))


def names_of(runs: Sequence[RunHistory]) -> list[str]:
  """Returns the names of all values in the runs, in order of first appearance."""
  return list(dict.fromkeys(name for run in runs for _, _, values in run.rows for name in values))


def evaluations(names: Sequence[str]) -> dict[str, dict[str, str]]:
  """Returns the metrics of evaluations among names: metric -> {language code, or "" for the mean: name}."""
  found: dict[str, dict[str, str]] = {}
  for name in names:
    if not name.startswith("eval/"):
      continue
    metric, _, last = name.removeprefix("eval/").rpartition("/")
    if metric and last in languages.LANGUAGES:
      found.setdefault(metric, {})[last] = name
    elif not metric or last != "mean":
      found.setdefault(name.removeprefix("eval/"), {})[""] = name
  return found


def read_runs(folders: Sequence[str], now: float | None = None) -> tuple[list[RunHistory], list[str]]:
  """Reads runs; a folder that is not a run stands for the runs directly below it.

  `now`, in seconds since 1970, decides whether a run is silent; None: the current time. Returns the runs, and a line
  about each folder that was left out. Raises UsageError if there are no runs at all.
  """
  found, left_out = [], []
  for folder in map(epath.Path, folders):
    runs = [folder]
    if not (folder / FILE).exists():
      below = sorted(folder.iterdir()) if folder.is_dir() else []
      runs = [each for each in below if (each / FILE).exists()]
    found += runs
    if not runs:
      left_out.append(f"{folder}: no {FILE}: give the MODEL_DIR of a run, or a folder of runs")
  if not found:
    raise UsageError("; ".join(left_out))
  unique = list(dict.fromkeys(os.fspath(path).rstrip("/") for path in found))
  now = time.time() if now is None else now
  names = _short_names(unique)
  return [_read(name, folder, now) for name, folder in zip(names, unique, strict=True)], left_out


def _short_names(folders: Sequence[str]) -> list[str]:
  """Returns the shortest trailing parts of paths that tell all of them apart."""
  parts = [folder.replace("://", "/").split("/") for folder in folders]
  for count in range(1, max(map(len, parts)) + 1):
    names = ["/".join(each[-count:]) for each in parts]
    if len(set(names)) == len(names):
      break
  return names


def _read(name: str, folder: str, now: float) -> RunHistory:
  file = epath.Path(folder) / FILE
  try:
    lines = metrics_file.read(folder)
  except OSError as error:
    raise XmcapError(f"{file}: cannot be read ({error}): remove it from the list") from None
  history = RunHistory(name, folder)
  rows: dict[int, tuple[float, dict[str, float | None]]] = {}
  ran, longest = 0.0, 0.0  # seconds of running, without the time between starts; and the longest gap
  last = 0.0
  for row in lines:
    if row is None:
      history.torn += 1
      continue
    step, event = row["step"], row.get("event")
    if event != "started":
      passed = max(0.0, row["time"] - (last or row["time"]))
      ran, longest = ran + passed, max(longest, passed)
    last = row["time"]
    if event == "started":
      history.starts += 1
      # A run that was killed repeats the steps after its last checkpoint.
      rows = {at: values for at, values in rows.items() if at <= step}
      history.facts = _measured(row, str)
    if event is None:
      rows[step] = (ran, {**rows.get(step, (0, {}))[1], **_measured(row, type(None))})
    else:
      history.state = "running" if event == "started" else event
      history.reason = str(row.get("error", ""))
  history.rows = [(step, *rows[step]) for step in sorted(rows)]
  history.quiet = now - (last or file.stat().mtime)  # a file without a valid line has no time of its own
  if history.state == "running" and history.quiet > max(_QUIET, 5 * longest):
    history.state = "silent"
  return history


def _measured(row: dict[str, Any], other: type) -> dict[str, Any]:
  """Returns the numbers of a line, and its values of type `other`."""
  return {
    name: value
    for name, value in row.items()
    if name not in _OTHERS and (isinstance(value, other) or metrics_file.is_number(value))
  }
