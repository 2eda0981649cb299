"""A bounded cache of byte ranges on the local disk, shared by the threads and processes of a host.

It is an SQLite table, so it stays consistent however a process ends. When it is full, it evicts ranges that nobody has
read for an hour. If there are none, it adds nothing: training reads all images before it reads one again, and for
that pattern keeping old entries gives more hits than always taking the newest.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import shutil
import sqlite3
import threading
import time

import gin
from absl import logging

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import files

_PAGE = 4_096  # bytes
_LEAST = 8 << 30  # bytes, unless the corpora need more and fit
_MARGIN = 0.1  # of the disk stays free
_LOOK_EVERY = 30.0  # seconds before writes to a full cache are tried again
_SETTINGS = f"""
PRAGMA page_size = {_PAGE};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS ranges (key BLOB PRIMARY KEY, used REAL, data BLOB);
"""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RecordCache:
  """Settings of the cache of records read from a bucket.

  Attributes:
    directory: its folder; by default `xmcap/records` in XDG_CACHE_HOME or `~/.cache`. All processes of a host must use
      the same one.
    bytes: the largest size on disk, without the write-ahead log (some 4 MB) and the indexes, 16 bytes a record; 0
      turns the cache off. None: as much as the corpora need of which this process has spoken (`expect`), if a tenth of
      the disk stays free, or 8 GiB.
  """

  directory: str = ""
  bytes: int | None = None

  def __post_init__(self):
    if self.bytes is not None and self.bytes < 0:
      raise UsageError(f"RecordCache.bytes={self.bytes}: give a size of at least 0")

  def folder(self) -> pathlib.Path | None:
    """Returns its folder, which need not exist; None if the cache is off."""
    if self.bytes == 0:
      return None
    return pathlib.Path(os.path.abspath(self.directory or files.cache_folder("records")))

  def open(self) -> "RangeCache | None":
    """Returns the cache, one per process; XmcapError if its folder cannot be made."""
    folder = self.folder()
    return _opened(os.fspath(folder), self.bytes) if folder else None

  def describe(self) -> str:
    """What is cached, for the first lines of a run; "" if nothing is."""
    cache, needed = self.open(), sum(_expected.values())
    if cache is None or not needed:
      return ""
    fits = "all" if cache.size >= needed else f"some of {needed / 1e9:,.1f} GB"
    return (
      f"records from the bucket are cached in {cache.directory}: up to {cache.size / 1e9:,.1f} GB, {fits}"
    )


_expected: dict[str, int] = {}


def expect(name: str, records: int, size: int) -> None:
  """Says that a corpus of so many records and bytes will be read, before its first record is."""
  # A row of the table takes whole pages, half of one for nothing on average, and one for what is beside the bytes.
  _expected[name] = size + 3 * records * _PAGE // 2


def key(*parts: object) -> bytes:
  """Returns the key of a range: a 16-byte hash of what identifies it, such as address, version and offset."""
  return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=16).digest()


class RangeCache:
  """A cache of `size` bytes in a folder, safe across threads and processes; see `RecordCache`.

  A range that was not read for `idle` seconds may be evicted; the time of the last read is accurate to half of that.
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
    """Returns the range of a key; None if it is not cached."""
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
    """Returns the size of the cache on disk."""
    return self._path.stat().st_size if self._path.exists() else 0

  def _insert(self, key: bytes, data: bytes) -> bool:
    """Adds a range; returns whether there was room."""
    try:
      self._database.execute("INSERT OR REPLACE INTO ranges VALUES (?, ?, ?)", (key, time.time(), data))
    except sqlite3.OperationalError as error:
      if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
        raise
      return False
    return True

  def _make_room(self) -> bool:
    """Removes ranges that were not read for `idle` seconds; returns whether there were any."""
    old = self._database.execute("DELETE FROM ranges WHERE used < ?", (time.time() - self._idle,))
    return old.rowcount > 0

  def _give_up(self, error: sqlite3.Error) -> None:
    if self._full_until != float("inf"):
      logging.warning("%s: the cache takes no more records: %s", self.directory, one_line(error))
    self._full_until = float("inf")


@functools.cache
def _opened(directory: str, size: int | None) -> RangeCache:
  return RangeCache(directory, _fitting(directory) if size is None else size)


def _fitting(directory: str) -> int:
  """The bytes of a cache for the corpora that will be read; never fewer than it has, which may be another process's."""
  folder = next(path for path in (pathlib.Path(directory), *pathlib.Path(directory).parents) if path.exists())
  disk, has = shutil.disk_usage(folder), sum(path.stat().st_size for path in folder.glob("ranges.sqlite*"))
  needed, room = sum(_expected.values()), has + disk.free - int(_MARGIN * disk.total)
  return max(needed if needed <= room else 0, _LEAST, has)
