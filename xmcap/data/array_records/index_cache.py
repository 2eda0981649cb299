"""The indexes of files in a bucket, as files of this host that its processes map.

An index is read from the bucket once a host, verified, compared with its file, and kept in the folder of `RecordCache`.
Other processes and later runs read only the four bytes of its checksum from the bucket: while these are those of the
kept file, it is the same index. Without a cache, or if the disk takes no more, a process has the index in memory.
"""

import contextlib
import dataclasses
import functools
import mmap
import os
import pathlib
import threading

from absl import logging

from xmcap.data.array_records.range_index import SUFFIX, RangeIndex, version_of
from xmcap.errors import XmcapError
from xmcap.files import files, range_cache
from xmcap.files.object_store import Read, ShortObjectError

_MAPPED = 256  # files mapped at a time: each takes a file descriptor
_writing = threading.Lock()


@dataclasses.dataclass(frozen=True)
class CachedIndex:
  """The index of a file: kept at a path, or in memory; `version` differs between indexes."""

  version: bytes
  path: str = ""
  in_memory: RangeIndex | None = None

  def open(self) -> RangeIndex:
    """Returns the index; OSError or ValueError if the kept file was removed or replaced."""
    return self.in_memory or _mapped(self.path, self.version)


class Opening:
  """The index of a file of records in a bucket, being read.

  Attributes:
    read: the read of the whole index, unless `kept` returns one.
  """

  def __init__(self, file: str):
    address = file + SUFFIX
    folder = range_cache.RecordCache().folder()
    self._path = folder and folder / "indexes" / f"{range_cache.key(address).hex()}{SUFFIX}"
    self._kept = _version_of(self._path) if self._path else None
    self.read = Read(address, *self._kept[1]) if self._kept else Read(address)

  def kept(self) -> CachedIndex | None:
    """Returns the index that this host has kept, if it is still that of the bucket. Raises as `Read.result`."""
    if self._kept is None:
      return None
    version, _ = self._kept
    with contextlib.suppress(ShortObjectError):
      if version.endswith(self.read.result()):
        return CachedIndex(version, str(self._path))
    self.read = Read(self.read.address)
    return None

  def keep(self, index: RangeIndex) -> CachedIndex:
    """Keeps an index that was read and compared with its file."""
    data = index.to_bytes()
    if self._path is not None:
      try:
        with _writing:  # the threads of a process share the name of the incomplete file
          files.write_bytes(self._path, data)
        return CachedIndex(version_of(data), str(self._path))
      except XmcapError as error:
        logging.log_first_n(logging.WARNING, "indexes are held in memory: %s", 1, error)
    return CachedIndex(version_of(data), in_memory=index)


def forget(index: CachedIndex) -> None:
  """Removes a kept index whose records turned out to be others, so that the next run reads it anew."""
  with contextlib.suppress(OSError):
    os.unlink(index.path)


def _version_of(path: pathlib.Path) -> tuple[bytes, tuple[int, int]] | None:
  """Returns the version of a kept index, and the range of its checksum; None if there is no such file."""
  try:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
      return version_of(data), (len(data) - 4, len(data))
  except (OSError, ValueError):
    return None


@functools.lru_cache(maxsize=_MAPPED)
def _mapped(path: str, version: bytes) -> RangeIndex:
  """Maps a kept index, whose checksum was verified before it was written."""
  with open(path, "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
  if version_of(data) != version:
    raise ValueError("another index took its place")
  return RangeIndex.from_bytes(data, is_verified=True)
