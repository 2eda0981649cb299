"""The numbers of a run, out of its `metrics.jsonl`."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

from etils import epath

from xmcap import languages
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import strict_json
from xmcap.training.reporting.metrics_file import FILE

_QUIET = (
  600.0  # seconds without a line, until a run that has not ended counts as silent; or five reports' time
)
_OTHERS = ("step", "time", "event")
_EVENTS = ("started", "finished", "stopped", "failed")
_MOST_BYTES = 1 << 30  # of a file; a report takes about 2 kB
_MOST = 1e30  # of a number: sums and squares of it are finite


@dataclasses.dataclass
class History:
  """What a run has written.

  Attributes:
    name: of the run, short and its own among those shown.
    folder: MODEL_DIR.
    facts: of its last start: `total_steps`, `parameters`, `devices`, `device_kind`.
    state: `running`, `finished`, `stopped`, `failed`, or `silent` where it ended without a word.
    reason: of a failure.
    rows: (step, seconds of running, values by name), steps rising; None is a value that was not finite.
    last_time: of its last line, seconds since 1970.
    torn: lines that could not be read.
  """

  name: str
  folder: str
  facts: dict[str, Any]
  state: str
  reason: str
  rows: list[tuple[int, float, dict[str, float | None]]]
  last_time: float
  torn: int

  @property
  def step(self) -> int:
    """The last that it reported."""
    return self.rows[-1][0] if self.rows else 0

  def names(self) -> list[str]:
    """Of all that was measured, in the order of the first lines."""
    return list(dict.fromkeys(name for _, _, values in self.rows for name in values))

  def curve(self, name: str) -> tuple[list[int], list[float | None]]:
    """Steps and values of one name."""
    found = [(step, values[name]) for step, _, values in self.rows if name in values]
    return [step for step, _ in found], [value for _, value in found]

  def last(self, name: str) -> float | None:
    """The last finite value of a name; None: there is none."""
    return next((value for value in reversed(self.curve(name)[1]) if value is not None), None)

  def best(self, name: str) -> tuple[float, int] | None:
    """The best value of a metric, and its step; None: there is none."""
    found = [(value, step) for step, value in zip(*self.curve(name), strict=True) if value is not None]
    if not found:
      return None
    return min(found) if lower_is_better(name) else max(found, key=lambda pair: (pair[0], -pair[1]))


def lower_is_better(name: str) -> bool:
  """Whether a metric counts what is wrong."""
  return name.rpartition("/")[2] in ("loss", "cross_entropy", "perplexity", "labels_loss")


def evaluations(names: Sequence[str]) -> dict[str, dict[str, str]]:
  """The metrics of evaluations among names: metric -> {language code, or "" for the mean: name}."""
  found: dict[str, dict[str, str]] = {}
  for name in names:
    if not name.startswith("eval/"):
      continue
    metric, _, last = name.removeprefix("eval/").rpartition("/")
    if metric and (last in languages.LANGUAGES or last == "mean"):
      if last != "mean":
        found.setdefault(metric, {})[last] = name
    else:
      found.setdefault(name.removeprefix("eval/"), {})[""] = name
  return found


def read_runs(folders: Sequence[str], now: float | None = None) -> tuple[list[History], list[str]]:
  """Reads runs; a folder that is none stands for the runs right under it.

  Args:
    folders: MODEL_DIRs, or folders of them; local or `gs://`.
    now: seconds since 1970, by which a run is silent; None: the clock's.

  Returns:
    The runs, and a line about each folder that was left out.

  Raises:
    UsageError: there is no run in any of them.
    XmcapError: a file cannot be read.
  """
  found, left_out = [], []
  for folder in folders:
    path = epath.Path(folder)
    below = [] if (path / FILE).exists() else _runs_below(path)
    if (path / FILE).exists():
      found.append(path)
    elif below:
      found.extend(below)
    else:
      left_out.append(_why_not(path))
  if not found:
    raise UsageError("; ".join(left_out))
  unique = list(dict.fromkeys(os.fspath(path).rstrip("/") for path in found))
  named = zip(_short_names(unique), unique, strict=True)
  return [_read(name, folder, time.time() if now is None else now) for name, folder in named], left_out


def _runs_below(path: epath.Path) -> list[epath.Path]:
  if not path.is_dir():
    return []
  return sorted(below for below in path.iterdir() if (below / FILE).exists())


def _why_not(path: epath.Path) -> str:
  if not path.exists():
    return f"{path}: there is no such folder"
  if (path / "tensorboard").exists():
    return f"{path}: no {FILE}, as before xmcap wrote one; see its curves by tensorboard --logdir={path}"
  return f"{path}: no {FILE}: give the MODEL_DIR of a run, or a folder of runs"


def _short_names(folders: Sequence[str]) -> list[str]:
  """The last parts of paths, as many as tell all of them apart."""
  parts = [folder.replace("://", "/").split("/") for folder in folders]
  for count in range(1, max(map(len, parts)) + 1):
    names = ["/".join(each[-count:]) for each in parts]
    if len(set(names)) == len(names):
      break
  return names


def _read(name: str, folder: str, now: float) -> History:
  file = epath.Path(folder) / FILE
  try:
    if file.stat().length > _MOST_BYTES:
      raise XmcapError(
        f"{file}: larger than {_MOST_BYTES:,} bytes, which no run writes; remove it from the list"
      )
    lines = file.read_bytes().split(b"\n")
  except OSError as error:
    raise XmcapError(f"{file}: cannot be read ({error}); remove it from the list") from None
  history = History(name, folder, {}, "running", "", [], 0.0, 0)
  clock = _Clock()
  rows: dict[int, tuple[float, dict[str, float | None]]] = {}
  for line in lines:
    row = _parse(line)
    if row is None:
      history.torn += bool(line.strip())
      continue
    step, event = row["step"], row.get("event")
    ran = clock.at(row["time"], event == "started")
    history.last_time = row["time"]
    if event == "started":
      # What a killed run did after its last checkpoint is done again from there.
      rows = {at: values for at, values in rows.items() if at <= step}
      history.facts = {fact: value for fact, value in row.items() if fact not in _OTHERS and _is_fact(value)}
    if event is not None:
      history.state = "running" if event == "started" else event
      history.reason = str(row.get("error", ""))
      continue
    values = {
      name: value
      for name, value in row.items()
      if name not in _OTHERS and (value is None or _is_number(value))
    }
    rows[step] = (ran, {**rows.get(step, (0, {}))[1], **values})
  history.rows = [(step, *rows[step]) for step in sorted(rows)]
  if history.state == "running" and now - history.last_time > max(_QUIET, 5 * clock.longest):
    history.state = "silent"
  return history


def _parse(line: bytes) -> dict[str, Any] | None:
  try:
    row = strict_json.parse_object(line, FILE)
  except UsageError:
    return None
  if type(row.get("step")) is not int or not 0 <= row["step"] <= _MOST:
    return None
  if row.get("event", "started") not in _EVENTS:
    return None
  return row if _is_number(row.get("time")) and row["time"] >= 0 else None


def _is_number(value: Any) -> bool:
  """Finite, no bool, and no integer that no float holds."""
  return type(value) in (int, float) and abs(value) <= _MOST


def _is_fact(value: Any) -> bool:
  return isinstance(value, str) or _is_number(value)


class _Clock:
  """Seconds that a run has been running, without the time between its starts."""

  def __init__(self):
    self._ran = 0.0
    self._before: float | None = None
    self.longest = 0.0

  def at(self, seconds: float, started: bool) -> float:
    if self._before is not None and not started:
      passed = max(0.0, seconds - self._before)
      self._ran += passed
      self.longest = max(self.longest, passed)
    self._before = seconds
    return self._ran
