"""`metrics.jsonl` of a run's folder: what was measured, a JSON object a line; neither jax nor tensorflow is needed.

A line has `step` and `time` (seconds since 1970), and either numbers by name (null where one was not finite) or an
`event` with its facts: `started`, `finished`, `stopped`, `failed`. A run that was killed and goes on appends: of a step
that it repeats the last line holds.
"""

import concurrent.futures
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from xmcap.errors import one_line

FILE = "metrics.jsonl"


def line(step: int, seconds: float, values: Mapping[str, Any]) -> str:
  """One line of the file."""
  plain = {name: _plain(value) for name, value in values.items()}
  return json.dumps({"step": int(step), "time": round(seconds, 3), **plain}, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
  if value is None or isinstance(value, str | bool | int):
    return value
  # As many digits as float32 has.
  return float(f"{value:.8g}") if math.isfinite(value) else None


class MetricsFile:
  """The file, open for appending.

  On a disk each line is written at once. An object store cannot append: there the whole object is written anew, in the
  background and once in `every` seconds, so that a kill loses so much of it at most.

  A file that cannot be written ends no run: that is said once, and the lines are kept until it can be.

  Args:
    model_dir: the run's folder.
    say: prints a line.
    every: seconds.
  """

  def __init__(self, model_dir: str | os.PathLike, say: Callable[[str], None], every: float = 60.0):
    self._path = epath.Path(model_dir) / FILE
    self._say = say
    self._every = every
    self._lines: list[str] = []
    self._failed = False
    self._object = _Object(self._path) if "://" in os.fspath(model_dir) else None
    self._last = time.monotonic()

  def write(self, step: int, values: Mapping[str, Any]) -> None:
    """Adds a line."""
    self._lines.append(line(step, time.time(), values))
    if self._object is None or time.monotonic() - self._last >= self._every:
      self._flush()

  def close(self) -> None:
    """Writes what is left."""
    self._flush()
    if self._object is not None:
      self._tell(self._object.close())

  def _flush(self) -> None:
    self._last = time.monotonic()
    if self._object is not None:
      self._tell(self._object.add("".join(self._lines).encode()))
      self._lines.clear()
      return
    if not self._lines:
      return
    try:
      _append(self._path, "".join(self._lines).encode())
    except OSError as error:
      self._tell(error)
      return
    self._lines.clear()
    self._failed = False

  def _tell(self, error: Exception | None) -> None:
    if error is not None and not self._failed:
      self._failed = True
      reason = getattr(error, "strerror", None) or one_line(error)
      self._say(f"{self._path}: cannot be written ({reason}); the run goes on and tries again")


def _append(path: epath.Path, data: bytes) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "ab+") as file:
    if file.seek(0, os.SEEK_END):
      file.seek(-1, os.SEEK_END)
      # A kill or a full disk may have cut the last line short.
      if file.read(1) != b"\n":
        data = b"\n" + data
    file.write(data)


class _Object:
  """An object that is written whole, by a thread of its own."""

  def __init__(self, path: epath.Path):
    self._path = path
    self._whole: bytes | None = None
    self._new = b""
    self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="metrics")
    self._written: concurrent.futures.Future | None = None

  def add(self, data: bytes) -> Exception | None:
    """Starts to write; returns the error of the last time. While that still goes on, the data wait."""
    self._new += data
    if self._written is not None and not self._written.done():
      return None
    error = None if self._written is None else self._written.exception()
    self._written = self._thread.submit(self._write)
    return error

  def _write(self) -> None:
    if self._whole is None:
      # Read again after an error: what is there must not be lost.
      self._whole = self._path.read_bytes() if self._path.exists() else b""
      if self._whole and not self._whole.endswith(b"\n"):
        self._whole += b"\n"
    new, self._new = self._new, b""
    self._whole += new
    self._path.write_bytes(self._whole)

  def close(self) -> Exception | None:
    """Waits until all is written; returns the error if it was not."""
    if self._written is not None:
      concurrent.futures.wait([self._written])
      if self._new or self._written.exception() is not None:
        self._written = self._thread.submit(self._write)
    self._thread.shutdown()
    return None if self._written is None else self._written.exception()
