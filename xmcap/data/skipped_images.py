"""Handles images that cannot be decoded: the run stops at the first, or skips and lists them."""

import json
import os
import threading

from absl import logging

from xmcap.errors import UsageError, XmcapError
from xmcap.files import files
from xmcap.files.bucket_paths import epath

ON_BAD = ("skip", "stop")


class SkippedImages:
  """The images that one process has skipped.

  Whether an image can be decoded depends only on its bytes, so a resumed run skips the same ones.

  Args:
    on_bad: `stop` or `skip`.
    limit: number of different images that may be skipped; one more ends the run, as something else must be wrong.
  """

  def __init__(self, on_bad: str = "stop", limit: int = 100):
    if on_bad not in ON_BAD or limit < 0:
      raise UsageError(
        f"on_bad={on_bad}, bad_limit={limit}: choose {' or '.join(ON_BAD)}, and a limit of 0 or more"
      )
    self.on_bad = on_bad
    self.limit = limit
    self._reasons: dict[str, str] = {}
    self._file: epath.Path | None = None
    self._lock = threading.Lock()

  def list_in(self, file: str | os.PathLike) -> None:
    """Lists skipped images in a file from now on, as JSON lines (`key`, `reason`); those already in it count."""
    if self.on_bad == "stop":
      return
    with self._lock:
      self._file = epath.Path(file)
      if self._file.exists():
        try:
          lines = [json.loads(line) for line in self._file.read_text().splitlines()]
          self._reasons = {str(line["key"]): str(line["reason"]) for line in lines} | self._reasons
        except (ValueError, TypeError, KeyError, RecursionError):
          raise XmcapError(f"{file}: not a list of skipped pictures written by a run: move it away") from None

  def add(self, key: str, error: XmcapError) -> None:
    """Skips an image because of an error; XmcapError if `on_bad` is `stop`, or if there are too many."""
    if self.on_bad == "stop":
      raise XmcapError(f"{error}, or skip such pictures with the stream's on_bad = 'skip'") from None
    with self._lock:
      if key in self._reasons:
        return
      self._reasons[key] = str(error)
      logging.warning("left out: %s", error)
      if self._file is not None:
        self._write(self._file)
      if len(self._reasons) > self.limit:
        where = f"; they are listed in {self._file}" if self._file is not None else ""
        raise XmcapError(
          f"{len(self._reasons)} pictures cannot be decoded, and bad_limit is {self.limit}: the last is {error}{where}"
        )

  def _write(self, file: epath.Path) -> None:
    # The whole file each time, because stores such as gs:// cannot append; the limit keeps it short.
    lines = [
      json.dumps({"key": key, "reason": why}, ensure_ascii=False) for key, why in self._reasons.items()
    ]
    files.write_anywhere(file, ("\n".join(lines) + "\n").encode())
