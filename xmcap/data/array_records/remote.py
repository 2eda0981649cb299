"""Random access to the ArrayRecord files of a split in a bucket, by the ranges of their indexes.

Up to 64 requested records are read concurrently to hide the store's latency. Ranges are kept in the host's cache
(`RecordCache`). Each record, from the store or the cache, is verified with its checksum in the index.
"""

import collections
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from xmcap.data.array_records import index_cache, local
from xmcap.data.array_records.range_index import SUFFIX, RangeIndex
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import range_cache
from xmcap.files.object_store import Read, ShortObjectError

T = TypeVar("T")

_AHEAD = 64


class RemoteRecordFiles:
  """Files in a bucket, given by their addresses; has the interface of `local.RecordFiles`.

  The indexes of the files that were read are those of the host's cache; see index_cache.py.
  """

  def __init__(self, files: Sequence[str], directory: str):
    self._files = list(files)
    self._directory = directory
    self._opened: dict[int, index_cache.CachedIndex] = {}
    self._lock = threading.Lock()

  def __reduce__(self):
    return RemoteRecordFiles, (self._files, self._directory)

  def iterate(
    self, files: Sequence[int], positions: Sequence[int], parse: Callable[[bytes], T]
  ) -> Iterator[T]:
    """Yields the records at (file number, position), in order; XmcapError if one cannot be read.

    The first reads begin with the call.
    """
    records = self._iterate(files, positions, parse)
    next(records)
    return records

  def _iterate(
    self, files: Sequence[int], positions: Sequence[int], parse: Callable[[bytes], T]
  ) -> Iterator[Any]:
    cache = range_cache.RecordCache().open()
    self._open(set(files))
    begun: collections.deque[tuple[int, _Range]] = collections.deque()
    waiting = (
      (file, self._range(file, position, cache)) for file, position in zip(files, positions, strict=True)
    )
    try:
      begun.extend(itertools.islice(waiting, _AHEAD))
      yield  # to `iterate`
      while begun:
        file, stretch = begun[0]
        try:
          record = parse(self._record(file, stretch))
        except ValueError as error:
          raise local.damaged(self._files[file], error, self._directory) from None
        begun.popleft()
        begun.extend(itertools.islice(waiting, 1))
        yield record
    finally:
      for _, left in begun:
        left.cancel()

  def _range(self, file: int, position: int, cache: range_cache.RangeCache | None) -> "_Range":
    index = self._index(file)
    if position >= len(index.rows):
      raise self._stale(file, f"it has {len(index.rows):,} records")
    return _Range(self._files[file], index, self._opened[file].version, position, cache)

  def _index(self, file: int) -> RangeIndex:
    cached = self._opened[file]
    try:
      return cached.open()
    except (OSError, ValueError):  # the cache was cleared, or a newer run has another index
      self._open({file}, again=True)
      if self._opened[file].version != cached.version:
        raise self._stale(file, "the index is another than at the start") from None
      return self._opened[file].open()

  def _record(self, file: int, stretch: "_Range") -> bytes:
    try:
      return stretch.record()
    except FileNotFoundError:
      raise self._missing(file) from None
    except (ValueError, ShortObjectError):
      index_cache.forget(self._opened[file])
      raise XmcapError(
        f"{self._files[file]}: record {stretch.position:,} is damaged, or another than when the file was indexed: "
        f"copy the file and its index again, or build {self._directory} again"
      ) from None

  def _open(self, files: set[int], again: bool = False) -> None:
    """Opens the indexes of files that are not open yet; compares the ends of files whose index is new to this host."""
    with self._lock:
      absent = sorted(files if again else files - self._opened.keys())
      openings = {file: index_cache.Opening(self._files[file]) for file in absent}
      opened, new = {}, {}
      for file, opening in openings.items():
        try:
          if kept := opening.kept():
            opened[file] = kept
            continue
          index = _checked(opening.read, RangeIndex.from_bytes)
        except FileNotFoundError:
          raise without_index(self._files[file], self._directory) from None
        except ValueError as error:
          raise self._stale(file, one_line(error)) from None
        new[file] = index, Read(self._files[file], *index.end)
      for file, (index, end) in new.items():
        try:
          _checked(end, index.check_end)
        except FileNotFoundError:
          raise self._missing(file) from None
        except (ValueError, ShortObjectError):
          raise self._stale(file, "the file is another") from None
        opened[file] = openings[file].keep(index)
      self._opened |= opened

  def _missing(self, file: int) -> XmcapError:
    return XmcapError(f"{self._files[file]} is missing: build {self._directory} again")

  def _stale(self, file: int, reason: str) -> XmcapError:
    return XmcapError(
      f"{self._files[file]}{SUFFIX} does not fit its file ({reason}): copy both again, or remove it and make it again "
      f"with `xmcap data index {self._directory}`"
    )


def without_index(file: str, directory: str) -> UsageError:
  """Returns the error for a file without an index."""
  return UsageError(
    f"{file}{SUFFIX} is missing, by which records are read from a bucket: make it with `xmcap data index {directory}`, "
    "or with `xmcap data index` where the corpus was built, and copy it"
  )


class _Range:
  """A record of a file, from the cache or being read."""

  def __init__(
    self, file: str, index: RangeIndex, version: bytes, position: int, cache: range_cache.RangeCache | None
  ):
    self.position = position
    self._index = index
    self._where = file, *index.range_of(position)
    self._cache = cache
    self._key = range_cache.key(file, version.hex(), position)
    self._held = cache.get(self._key) if cache else None
    self._read = Read(*self._where) if self._held is None else None

  def record(self) -> bytes:
    """Returns the record, and caches its bytes; ValueError if they are not those of the index."""
    if self._held is not None:
      with contextlib.suppress(ValueError):
        return self._index.record(self.position, self._held)
    return _checked(self._read or Read(*self._where), self._accepted)

  def cancel(self) -> None:
    """Cancels the read."""
    if self._read is not None:
      self._read.cancel()

  def _accepted(self, data: bytes) -> bytes:
    record = self._index.record(self.position, data)
    if self._cache is not None:
      self._cache.put(self._key, data)
    return record


def _checked(read: Read, check: Callable[[bytes], T]) -> T:
  """Returns `check(bytes)`; bytes that it rejects (ValueError) are read again once: transit may have damaged them."""
  with contextlib.suppress(ValueError):
    return check(read.result())
  return check(read.result())
