"""A cache of byte ranges on the local disk: bounded, shared by the threads and processes of a host.

It is a table of SQLite, which keeps it whole however a process ends. When the limit is reached, ranges that nobody has
read for an hour make room. If there are none, nothing is added: training goes through all pictures before it meets one
again, and then a cache that keeps what it has finds more than one that always takes in the newest.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import sqlite3
import threading
import time

import gin
from absl import logging

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files

_PAGE = 4_096  # bytes
_LOOK_EVERY = 30.0  # seconds for which a full cache is not tried again
_SETTINGS = f"""
PRAGMA page_size = {_PAGE};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS ranges (key BLOB PRIMARY KEY, used REAL, data BLOB);
"""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RecordCache:
  """The cache of records that are read from a bucket.

  Attributes:
    directory: its folder; by default `xmcap/records` in XDG_CACHE_HOME or `~/.cache`. All processes of a host give
      the same one.
    bytes: its size on the disk at most, the log of the last writes (some 4 MB) aside; 0: none is kept.
  """

  directory: str = ""
  bytes: int = 8 << 30

  def __post_init__(self):
    if self.bytes < 0:
      raise UsageError(f"RecordCache.bytes={self.bytes}: give a size of at least 0")

  def open(self) -> "RangeCache | None":
    """The cache, one a process; XmcapError if its folder cannot be made."""
    directory = self.directory or files.cache_folder("records")
    return _opened(os.path.abspath(directory), self.bytes) if self.bytes else None


@functools.cache
def _opened(directory: str, size: int) -> "RangeCache":
  return RangeCache(directory, size)


def key(*parts: object) -> bytes:
  """The key of a range: 16 bytes made of what names it, such as address, version and place."""
  return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=16).digest()


class RangeCache:
  """A cache in a folder, of `size` bytes, safe in threads and processes; see `RecordCache`.

  What was not read for `idle` seconds may make room; this is looked at to half of them.
  """

  def __init__(self, directory: str | os.PathLike, size: int, idle: float = 3600.0):
    self.directory = pathlib.Path(directory)
    self.size = size
    self._path = self.directory / "ranges.sqlite"
    self._idle = idle
    self._full_until = float("-inf")
    self._lock = threading.Lock()
    try:
      self.directory.mkdir(parents=True, exist_ok=True)
      self._database = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
      self._database.executescript(_SETTINGS)
      if self.disk_bytes() > size:
        self._database.executescript("DELETE FROM ranges; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
      self._database.execute(f"PRAGMA max_page_count = {max(1, size // _PAGE)}")
    except (OSError, sqlite3.Error) as error:
      reason = getattr(error, "strerror", None) or one_line(error)
      raise XmcapError(
        f"{directory}: the cache of records cannot be written ({reason}): remove it, "
        "set RecordCache.directory, or RecordCache.bytes=0 for none"
      ) from None

  def get(self, key: bytes) -> bytes | None:
    """The range of a key; None where there is none."""
    with self._lock:
      try:
        row = self._database.execute("SELECT data, used FROM ranges WHERE key = ?", (key,)).fetchone()
        if row is None:
          return None
        if row[1] < time.time() - self._idle / 2:
          self._database.execute("UPDATE ranges SET used = ? WHERE key = ?", (time.time(), key))
        return row[0]
      except sqlite3.Error as error:
        self._give_up(error)
        return None

  def put(self, key: bytes, data: bytes) -> None:
    """Adds a range, unless the cache is full or the disk refuses."""
    with self._lock:
      if time.monotonic() < self._full_until:
        return
      try:
        if not self._insert(key, data) and not (self._make_room() and self._insert(key, data)):
          self._full_until = time.monotonic() + _LOOK_EVERY
      except sqlite3.Error as error:
        self._give_up(error)

  def disk_bytes(self) -> int:
    """What the ranges take on the disk."""
    return self._path.stat().st_size if self._path.exists() else 0

  def _insert(self, key: bytes, data: bytes) -> bool:
    """Whether there is room."""
    try:
      self._database.execute("INSERT OR REPLACE INTO ranges VALUES (?, ?, ?)", (key, time.time(), data))
    except sqlite3.OperationalError as error:
      if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
        raise
      return False
    return True

  def _make_room(self) -> bool:
    """Removes what was not read for long; whether there was any."""
    old = self._database.execute("DELETE FROM ranges WHERE used < ?", (time.time() - self._idle,))
    return old.rowcount > 0

  def _give_up(self, error: sqlite3.Error) -> None:
    if self._full_until != float("inf"):
      logging.warning("%s: the cache takes no more records: %s", self.directory, one_line(error))
    self._full_until = float("inf")
