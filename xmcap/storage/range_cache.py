"""A cache of byte ranges on the local disk: bounded, shared by the threads and processes of a host.

The folder holds segments, files of one size. A process writes ranges one after the other into a segment of its own
and reads all of them. The first part of a segment is a table with a row a range: key, place, length, checksum. A row
is written after its range, and a range is handed out only if its checksum is right: so a process that was killed
leaves nothing that could be taken for something else.

When the limit is reached, segments that nobody has read for an hour make room. If there are none, nothing is added:
training goes through all pictures before it meets one again, and then a cache that keeps what it has finds more than
one that always takes in the newest.
"""

import dataclasses
import fcntl
import functools
import hashlib
import os
import pathlib
import struct
import threading
import time
import uuid
import zlib

import gin
from absl import logging

from xmcap.errors import UsageError, XmcapError

_ROW = struct.Struct("<16sQII")  # key, place, length, checksum
_LARGEST_SEGMENT = 64 << 20
_SEGMENTS = 16  # of a small cache
_TABLE = 32  # a segment's share of it that holds the table
_SCAN = 2048  # rows read at a time
_SUFFIX = ".segment"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RecordCache:
  """The cache of records that are read from a bucket.

  Attributes:
    directory: its folder; by default `xmcap/records` in XDG_CACHE_HOME or `~/.cache`. All processes of a host give
      the same one.
    bytes: its size on the disk at most; 0: none is kept.
  """

  directory: str = ""
  bytes: int = 8 << 30

  def __post_init__(self):
    if self.bytes < 0:
      raise UsageError(f"RecordCache.bytes={self.bytes}: give a size of at least 0")

  def open(self) -> "RangeCache | None":
    """The cache, one a process; XmcapError if its folder cannot be made."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = self.directory or os.path.join(home, "xmcap", "records")
    return _opened(os.path.abspath(directory), self.bytes) if self.bytes else None


@functools.cache
def _opened(directory: str, size: int) -> "RangeCache":
  return RangeCache(directory, size)


def key(*parts: object) -> bytes:
  """The key of a range: 16 bytes made of what names it, such as address, version and place."""
  return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=16).digest()


class RangeCache:
  """A cache in a folder, safe in threads and processes; see `RecordCache`.

  Args:
    directory: its folder; made if absent.
    size: bytes on disk at most.
    idle: seconds without a read after which a segment may make room.
    look_every: seconds between looks at what other processes have written.
  """

  def __init__(self, directory: str | os.PathLike, size: int, idle: float = 3600.0, look_every: float = 30.0):
    self.directory = pathlib.Path(directory)
    self.size = size
    self._idle, self._look_every = idle, look_every
    self._segment_size = min(size // _SEGMENTS, _LARGEST_SEGMENT)
    self._table_size = _table_size(self._segment_size)
    self._lock = threading.Lock()
    self._entries: dict[bytes, tuple[str, int, int, int]] = {}
    self._scanned: dict[str, int] = {}  # segment -> rows that are known
    self._used: dict[str, float] = {}  # segment -> when this process last said that it reads it
    self._writer: tuple[str, int] | None = None  # the segment that this process writes, and its file
    self._rows = self._place = 0
    self._looked = self._full_until = float("-inf")
    try:
      self.directory.mkdir(parents=True, exist_ok=True)
      with self._locked_folder():
        self._make_room(0, idle=0)
    except OSError as error:
      raise XmcapError(
        f"{directory}: the cache of records cannot be written ({error.strerror}): "
        "set RecordCache.directory, or RecordCache.bytes=0 for none"
      ) from None

  def get(self, key: bytes) -> bytes | None:
    """The range of a key; None where there is none, or where it is damaged."""
    with self._lock:
      self._look()
      entry = self._entries.get(key)
    if entry is None:
      return None
    segment, place, length, checksum = entry
    try:
      file = os.open(self.directory / segment, os.O_RDONLY)
      try:
        data = os.pread(file, length, place)
        self._say_used(segment, file)
      finally:
        os.close(file)
    except OSError:
      data = b""
    if len(data) == length and _checksum(key, data) == checksum:
      return data
    with self._lock:
      self._entries.pop(key, None)
    return None

  def put(self, key: bytes, data: bytes) -> None:
    """Adds a range, unless the cache is full or the disk refuses."""
    with self._lock:
      if key in self._entries or len(data) > self._segment_size - self._table_size:
        return
      try:
        if not self._has_room(len(data)) and not self._begin_segment():
          return
        assert self._writer is not None  # there is room in it
        segment, file = self._writer
        checksum = _checksum(key, data)
        _write(file, data, self._place)
        _write(file, _ROW.pack(key, self._place, len(data), checksum), self._rows * _ROW.size)
      except OSError as error:
        logging.warning("%s: the cache takes no more records: %s", self.directory, error.strerror)
        self._full_until = float("inf")
        return
      self._entries[key] = (segment, self._place, len(data), checksum)
      self._place += len(data)
      self._rows += 1
      self._scanned[segment] = self._rows

  def disk_bytes(self) -> int:
    """What all segments take on the disk."""
    return sum(state.st_size for _, state in self._segments())

  def _has_room(self, length: int) -> bool:
    if self._writer is None or not os.fstat(self._writer[1]).st_nlink:
      return False
    return (self._rows + 1) * _ROW.size <= self._table_size and self._place + length <= self._segment_size

  def _begin_segment(self) -> bool:
    """Goes on in a new segment; False if the cache is full."""
    if time.monotonic() < self._full_until or not self._table_size:
      return False
    if self._writer is not None:
      os.close(self._writer[1])
      self._writer = None
    with self._locked_folder():
      if not self._make_room(self._segment_size, self._idle):
        self._full_until = time.monotonic() + self._look_every
        return False
      path = self.directory / f"{uuid.uuid4().hex}{_SUFFIX}"
      file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
      try:
        os.posix_fallocate(file, 0, self._segment_size)
      except OSError:
        os.close(file)
        path.unlink()
        raise
      self._writer = path.name, file
    self._rows, self._place = 0, self._table_size
    return True

  def _make_room(self, wanted: int, idle: float) -> bool:
    """Removes segments, those that were not read for longest first, until there is room for so many bytes."""
    held = sorted(self._segments(), key=lambda pair: pair[1].st_mtime)
    total = sum(state.st_size for _, state in held)
    for path, state in held:
      if total + wanted <= self.size:
        break
      if time.time() - state.st_mtime >= idle:
        path.unlink(missing_ok=True)
        total -= state.st_size
    return total + wanted <= self.size

  def _segments(self) -> list[tuple[pathlib.Path, os.stat_result]]:
    found = []
    for path in self.directory.glob(f"*{_SUFFIX}"):
      try:
        found.append((path, path.stat()))
      except FileNotFoundError:
        continue  # another process has made room
    return found

  def _look(self) -> None:
    """Takes in what other processes have written since the last look."""
    if time.monotonic() < self._looked + self._look_every:
      return
    self._looked = time.monotonic()
    own = self._writer[0] if self._writer else None
    present = {path.name for path, _ in self._segments()}
    for gone in set(self._scanned) - present:
      del self._scanned[gone]
      self._entries = {key: entry for key, entry in self._entries.items() if entry[0] != gone}
    for segment in present - {own}:
      self._scan(segment)

  def _scan(self, segment: str) -> None:
    """Reads the rows of a segment that are not known yet."""
    try:
      file = os.open(self.directory / segment, os.O_RDONLY)
    except FileNotFoundError:
      return
    try:
      size = os.fstat(file).st_size
      table = _table_size(size)
      row = self._scanned.get(segment, 0)
      while row * _ROW.size < table:
        rows = os.pread(file, min(_SCAN * _ROW.size, table - row * _ROW.size), row * _ROW.size)
        for key, place, length, checksum in _ROW.iter_unpack(rows[: len(rows) // _ROW.size * _ROW.size]):
          if not length or place + length > size:
            self._scanned[segment] = row
            return
          self._entries.setdefault(key, (segment, place, length, checksum))
          row += 1
        if not rows:
          break
      self._scanned[segment] = row
    finally:
      os.close(file)

  def _say_used(self, segment: str, file: int) -> None:
    now = time.monotonic()
    if now - self._used.get(segment, float("-inf")) > self._idle / 8:
      self._used[segment] = now
      os.utime(file)

  def _locked_folder(self) -> "_FolderLock":
    return _FolderLock(self.directory / "lock")


def _table_size(segment_size: int) -> int:
  return segment_size // _TABLE // _ROW.size * _ROW.size


class _FolderLock:
  """Held by one process of the host at a time."""

  def __init__(self, path: pathlib.Path):
    self._path = path

  def __enter__(self) -> None:
    self._file = open(self._path, "wb")
    fcntl.flock(self._file, fcntl.LOCK_EX)

  def __exit__(self, *error) -> None:
    self._file.close()


def _write(file: int, data: bytes, place: int) -> None:
  view = memoryview(data)
  while view:
    written = os.pwrite(file, view, place)
    view, place = view[written:], place + written


def _checksum(key: bytes, data: bytes) -> int:
  return zlib.crc32(data, zlib.crc32(key))
