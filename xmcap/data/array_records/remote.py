"""Random access to the ArrayRecord files of a split in a bucket, by the ranges of their indexes.

Up to 64 requested records are read concurrently to hide the store's latency, those that lie side by side in a file by
one request. The ranges of records are kept in the host's cache (`RecordCache`). Each record, from the store or the
cache, is verified with its checksum in the index.
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
# Bytes between two records that are read for nothing: fewer than a store sends in a request's latency.
GAP = 256 << 10
_LONGEST = 4 << 20  # bytes of a request


class RemoteRecordFiles:
  """Files in a bucket, given by their addresses; has the interface of `local.RecordFiles`.

  The indexes of the files that were read are those of the host's cache; see index_cache.py. `records` and `size`, in
  bytes, are those of the corpus.
  """

  def __init__(self, files: Sequence[str], directory: str, records: int, size: int):
    self._files = list(files)
    self._directory = directory
    self._sizes = records, size
    range_cache.expect(directory, records, size)
    self._opened: dict[int, index_cache.CachedIndex] = {}
    self._lock = threading.Lock()

  def __reduce__(self):
    return RemoteRecordFiles, (self._files, self._directory, *self._sizes)

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
    begun: collections.deque[tuple[int, _Record]] = collections.deque()
    places = list(zip(files, positions, strict=True))
    waiting = itertools.chain.from_iterable(
      self._records(places[start : start + _AHEAD], cache) for start in range(0, len(places), _AHEAD)
    )
    try:
      begun.extend(itertools.islice(waiting, _AHEAD))
      yield  # to `iterate`
      while begun:
        file, reading = begun[0]
        try:
          record = parse(self._record(file, reading))
        except ValueError as error:
          raise local.damaged(self._files[file], error, self._directory) from None
        begun.popleft()
        begun.extend(itertools.islice(waiting, 1))
        yield record
    finally:
      for _, left in begun:
        left.cancel()

  def _index(self, file: int) -> RangeIndex:
    cached = self._opened[file]
    try:
      return cached.open()
    except (OSError, ValueError):  # the cache was cleared, or a newer run has another index
      self._open({file}, again=True)
      if self._opened[file].version != cached.version:
        raise self._stale(file, "the index is another than at the start") from None
      return self._opened[file].open()

  def _records(
    self, places: Sequence[tuple[int, int]], cache: range_cache.RangeCache | None
  ) -> Iterator[tuple[int, "_Record"]]:
    """Yields records that are looked up in the cache, or whose reads begin when they are yielded."""
    records = {place: self._place(*place, cache) for place in set(places)}
    joined: list[_Joined] = []
    for place in sorted(place for place, record in records.items() if record.cached is None):
      if not (joined and joined[-1].takes(records[place])):
        joined.append(_Joined(*records[place].where))
      joined[-1].add(records[place])
    for place in places:
      records[place].begin()
      yield place[0], records[place]

  def _place(self, file: int, position: int, cache: range_cache.RangeCache | None) -> "_Record":
    index = self._index(file)
    if position >= len(index.rows):
      raise self._stale(file, f"it has {len(index.rows):,} records")
    return _Record(self._files[file], index, self._opened[file].version, position, cache)

  def _record(self, file: int, reading: "_Record") -> bytes:
    try:
      return reading.result()
    except FileNotFoundError:
      raise self._missing(file) from None
    except (ValueError, ShortObjectError):
      index_cache.forget(self._opened[file])
      raise XmcapError(
        f"{self._files[file]}: record {reading.position:,} is damaged, or another than when the file was indexed: "
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


class _Joined:
  """One request for records of a file that lie side by side."""

  def __init__(self, file: str, start: int, stop: int):
    self.file, self.start, self.stop = file, start, stop
    self._read: Read | None = None
    self._data: bytes | None = None

  def takes(self, record: "_Record") -> bool:
    """Whether the next record of a file is near enough."""
    file, start, stop = record.where
    return file == self.file and start - self.stop <= GAP and stop - self.start <= _LONGEST

  def add(self, record: "_Record") -> None:
    self.stop, record.joined = record.where[2], self

  def begin(self) -> None:
    """Begins the read, unless it has begun."""
    if self._read is None:
      self._read = Read(self.file, self.start, self.stop)

  def bytes(self, start: int, stop: int) -> bytes:
    """Returns a range of the file."""
    if self._data is None:
      assert self._read is not None
      self._data = self._read.result()
    return self._data[start - self.start : stop - self.start]

  def cancel(self) -> None:
    if self._read is not None:
      self._read.cancel()


class _Record:
  """A record of a file, from the cache or being read.

  Attributes:
    where: the file and the range of bytes.
    cached: the bytes from the cache; None: they are read.
    joined: the request that reads them.
  """

  def __init__(
    self, file: str, index: RangeIndex, version: bytes, position: int, cache: range_cache.RangeCache | None
  ):
    self.position = position
    self._index = index
    self.where = file, *index.range_of(position)
    self._cache = cache
    self._key = range_cache.key(file, version.hex(), position)
    self.cached = cache.get(self._key) if cache else None
    self.joined: _Joined | None = None

  def begin(self) -> None:
    """Begins the read, unless another record of the request has."""
    if self.joined is not None:
      self.joined.begin()

  def result(self) -> bytes:
    """Returns the record, and caches its bytes; ValueError if they are not those of the index, also when read again."""
    if self.cached is not None:
      with contextlib.suppress(ValueError):
        return self._index.record(self.position, self.cached)
    if self.joined is None:
      return _checked(Read(*self.where), self._accepted)
    with contextlib.suppress(ValueError, ShortObjectError):
      return self._accepted(self.joined.bytes(*self.where[1:]))
    return self._accepted(Read(*self.where).result())

  def cancel(self) -> None:
    """Cancels the read."""
    if self.joined is not None:
      self.joined.cancel()

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
