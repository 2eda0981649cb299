"""`metrics.jsonl` in a run's folder: one JSON object per line. Needs neither jax nor tensorflow.

A line has `step`, `time` (seconds since 1970), and either numbers by name (null if not finite) or an `event`
(`started`, `finished`, `stopped`, `failed`) with its facts. A resumed run appends; the last line of a repeated step
counts.
"""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from xmcap.errors import UsageError, XmcapError
from xmcap.files import strict_json
from xmcap.files.bucket_paths import epath

FILE = "metrics.jsonl"
COMPILE_SECONDS = "compile_seconds/"  # followed by the length of targets, or by `step` without targets
EVAL = "eval/"  # followed by a metric of an evaluator, and by a language
EVENTS = ("started", "finished", "stopped", "failed")
_MOST_BYTES = 1 << 30  # largest file; a report takes about 2 kB
_LARGEST = 1e30  # largest number, so that sums and squares are finite


def read(model_dir: str | os.PathLike) -> list[dict[str, Any] | None]:
  """Returns the lines of a run's file in their order, None for one that is truncated or malformed; [] without a file.

  Raises:
    XmcapError: the file is larger than any run writes.
    OSError, or the store's own error: it cannot be read.
  """
  file = epath.Path(model_dir) / FILE
  if not file.exists():
    return []
  if file.stat().length > _MOST_BYTES:
    raise XmcapError(
      f"{file}: larger than {_MOST_BYTES:,} bytes, which no run writes: remove it from the list"
    )
  return [_parse(line) for line in file.read_bytes().split(b"\n") if line.strip()]


def unfinished(model_dir: str | os.PathLike) -> tuple[int, int] | None:
  """Returns the last step and the number of steps of a run that has not come to its end; None if it has, or is unknown.

  Raises as `read`.
  """
  rows = read(model_dir)
  last, total = max((row["step"] for row in rows if row is not None), default=0), total_steps(rows)
  return (last, total) if total is not None and last < total else None


def total_steps(rows: Sequence[Mapping[str, Any] | None]) -> int | None:
  """Returns the number of steps that a run was to have at its last start, from its lines; None if it is unknown."""
  starts = [row for row in rows if row is not None and row.get("event") == "started"]
  total = starts[-1].get("total_steps") if starts else None
  return total if type(total) is int else None


def has_evaluation(rows: Sequence[Mapping[str, Any] | None], step: int) -> bool:
  """Whether results of evaluators are among the lines of a step."""
  return any(row["step"] == step and any(name.startswith(EVAL) for name in row) for row in rows if row)


def _parse(text: bytes) -> dict[str, Any] | None:
  try:
    row = strict_json.parse_object(text, FILE)
  except UsageError:
    return None
  if row.get("event", "started") not in EVENTS or type(row.get("step")) is not int:
    return None
  numbers = (row["step"], row.get("time"))
  return row if all(is_number(number) and number >= 0 for number in numbers) else None


def is_number(value: Any) -> TypeGuard[float]:
  """Whether it is a finite number, not a bool, and not an integer too large for a float."""
  return type(value) in (int, float) and abs(value) <= _LARGEST


def line(step: int, seconds: float, values: Mapping[str, Any]) -> str:
  """One line of the file."""
  plain = {name: _plain(value) for name, value in values.items()}
  return json.dumps({"step": int(step), "time": round(seconds, 3), **plain}, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
  if value is None or isinstance(value, str | bool | int):
    return value
  return float(f"{value:.8g}") if math.isfinite(value) else None  # the digits of float32


class MetricsFile:
  """The writer of the file.

  On a disk each line is appended at once. An object store cannot append, so there the whole object is rewritten every
  `every` seconds, and a killed run loses at most that much. Lines that could not be written are tried again next time.
  """

  def __init__(self, model_dir: str | os.PathLike, every: float = 60.0):
    self._path = epath.Path(model_dir) / FILE
    self.name = str(self._path)
    self._is_remote = "://" in os.fspath(model_dir)
    self._every = every
    self._lines: list[str] = []
    self._object: bytes | None = None  # content of the object in the store, once known
    self._last = time.monotonic()

  def scalars(self, step: int, values: Mapping[str, Any]) -> None:
    self._lines.append(line(step, time.time(), values))
    if not self._is_remote or time.monotonic() - self._last >= self._every:
      self.close()

  def event(self, step: int, kind: str, facts: Mapping[str, Any]) -> None:
    """Adds a line for the start or end of the run."""
    self.scalars(step, {"event": kind, **facts})

  def close(self) -> None:
    """Writes the remaining lines."""
    self._last = time.monotonic()
    data = "".join(self._lines).encode()
    if self._is_remote and data:
      self._rewrite(data)
    elif data:
      _append(self._path, data)
    self._lines.clear()

  def _rewrite(self, data: bytes) -> None:
    if self._object is None:
      self._object = self._path.read_bytes() if self._path.exists() else b""
    separator = b"\n" if self._object and not self._object.endswith(b"\n") else b""
    whole = self._object + separator + data
    self._path.write_bytes(whole)
    self._object = whole


def _append(path: epath.Path, data: bytes) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "ab+") as file:
    if file.seek(0, os.SEEK_END):
      file.seek(-1, os.SEEK_END)
      if file.read(1) != b"\n":  # the last line was truncated by a kill or a full disk
        data = b"\n" + data
    file.write(data)
