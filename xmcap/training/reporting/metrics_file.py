"""`metrics.jsonl` of a run's folder: what was measured, one JSON object a line. Needs neither jax nor tensorflow.

A line has `step`, `time` (seconds since 1970), and either numbers by name (null if not finite) or an `event` with its
facts: `started`, `finished`, `stopped`, `failed`. A run that resumes appends; the last line of a repeated step counts.
"""

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
  return float(f"{value:.8g}") if math.isfinite(value) else None  # as many digits as float32 has


class MetricsFile:
  """The writer of the file.

  On a disk each line is appended at once. An object store cannot append, so there the whole object is written again
  every `every` seconds, and a kill loses at most that much. If writing fails, `say` is told once, the run goes on, and
  the lines wait for the next time.
  """

  name = FILE

  def __init__(self, model_dir: str | os.PathLike, say: Callable[[str], None], every: float = 60.0):
    self._path = epath.Path(model_dir) / FILE
    self._is_remote = "://" in os.fspath(model_dir)
    self._say = say
    self._every = every
    self._lines: list[str] = []
    self._object: bytes | None = None  # what the object store holds, once it is known
    self._failed = False
    self._last = time.monotonic()

  def scalars(self, step: int, values: Mapping[str, Any]) -> None:
    """Adds a line of numbers."""
    self._lines.append(line(step, time.time(), values))
    if not self._is_remote or time.monotonic() - self._last >= self._every:
      self.close()

  def event(self, step: int, what: str, facts: Mapping[str, Any]) -> None:
    """Adds a line that the run started or ended."""
    self.scalars(step, {"event": what, **facts})

  def close(self) -> None:
    """Writes the lines that are left."""
    self._last = time.monotonic()
    data = "".join(self._lines).encode()
    try:
      if self._is_remote and data:
        self._rewrite(data)
      elif data:
        _append(self._path, data)
    except Exception as error:  # an object store's client has errors of its own
      if not self._failed:
        reason = getattr(error, "strerror", None) or one_line(error)
        self._say(f"{self._path}: cannot be written ({reason}); the run goes on and tries again")
      self._failed = True
    else:
      self._lines.clear()
      self._failed = False

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
      if file.read(1) != b"\n":  # a kill or a full disk has cut the last line short
        data = b"\n" + data
    file.write(data)
