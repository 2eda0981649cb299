"""Random access to the ArrayRecord files of a split in a bucket, by byte ranges.

Up to 64 requested records are read concurrently to hide the store's latency. Ranges are kept in the host's cache
(`RecordCache`). All bytes, from the store or the cache, are verified with the hashes in the file.
"""

import collections
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from google.protobuf import message

from xmcap.data.array_records import layout, local
from xmcap.errors import XmcapError
from xmcap.storage import range_cache
from xmcap.storage.object_store import Read, ShortObjectError

T = TypeVar("T")

_AHEAD = 64


class RemoteRecordFiles:
  """Files in a bucket, given by their addresses; has the interface of `local.RecordFiles`."""

  def __init__(self, files: Sequence[str], directory: str):
    self._files = list(files)
    self._directory = directory
    self._opened: dict[int, tuple[str, np.ndarray]] = {}  # file -> its version, `layout.chunk_offsets`
    self._lock = threading.Lock()

  def __reduce__(self):
    return RemoteRecordFiles, (self._files, self._directory)

  def iterate(
    self, files: Sequence[int], positions: Sequence[int], parse: Callable[[bytes], T]
  ) -> Iterator[T]:
    """Yields the records at (file number, position), in order, reading ahead; XmcapError if one cannot be read."""
    cache = range_cache.RecordCache().open()
    self._open(set(files), cache)
    begun: collections.deque[tuple[int, _Range]] = collections.deque()
    waiting = (
      (file, self._range(file, position, cache)) for file, position in zip(files, positions, strict=True)
    )
    try:
      begun.extend(itertools.islice(waiting, _AHEAD))
      while begun:
        file, found = begun[0]
        with self._naming(file):
          record = found.decoded(lambda data, start: parse(layout.record(data, start)))
        begun.popleft()
        begun.extend(itertools.islice(waiting, 1))
        yield record
    finally:
      for _, left in begun:
        left.cancel()

  def _range(self, file: int, position: int, cache: range_cache.RangeCache | None) -> "_Range":
    version, offsets = self._opened[file]
    with self._naming(file):
      if position + 1 >= len(offsets):
        raise ValueError(f"it has {len(offsets) - 1} records, not {position + 1}")
      start, stop = offsets[position : position + 2].tolist()
    return _Range(self._files[file], version, start, stop, cache)

  def _open(self, files: set[int], cache: range_cache.RangeCache | None) -> None:
    """Reads the footers of files that are not open yet, concurrently."""
    with self._lock:
      absent = sorted(files - self._opened.keys())
      tails = {file: Read(self._files[file], -layout.BLOCK) for file in absent}
      footers = {}
      for file, tail in tails.items():
        with self._naming(file):
          content = tail.result()
          start = layout.footer_offset(content.data)
          footers[file] = _Range(self._files[file], content.version, start, None, cache)
      for file, footer in footers.items():
        with self._naming(file):
          self._opened[file] = footer.version, footer.decoded(layout.chunk_offsets)

  @contextlib.contextmanager
  def _naming(self, file: int) -> Iterator[None]:
    """Makes errors name the file."""
    try:
      yield
    except FileNotFoundError:
      raise XmcapError(f"{self._files[file]} is missing: build {self._directory} again") from None
    except (ValueError, IndexError, message.DecodeError, ShortObjectError) as error:
      raise local.damaged(self._files[file], error, self._directory) from None


class _Range:
  """A range of a file of a known version, from the cache or being read; a `stop` of None is the end of the file."""

  def __init__(
    self, address: str, version: str, start: int, stop: int | None, cache: range_cache.RangeCache | None
  ):
    self.version = version
    self._where = address, start, stop
    self._cache = cache if version else None
    self._key = range_cache.key(address, version, start, stop)
    self._held = self._cache.get(self._key) if self._cache else None
    self._read = Read(*self._where) if self._held is None else None

  def decoded(self, decode: Callable[[bytes, int], T]) -> T:
    """Returns `decode(bytes, offset)`, and caches the bytes after it has accepted them.

    Bytes that it rejects (ValueError, IndexError) are read again once, as they may have been damaged in transit.
    """
    with contextlib.suppress(ValueError, IndexError):
      if self._held is not None:
        return decode(self._held, self._where[1])
    with contextlib.suppress(ValueError, IndexError):
      return self._accepted(self._read or Read(*self._where), decode)
    return self._accepted(Read(*self._where), decode)

  def cancel(self) -> None:
    """Cancels the read."""
    if self._read is not None:
      self._read.cancel()

  def _accepted(self, read: Read, decode: Callable[[bytes, int], T]) -> T:
    content = read.result()
    if content.version and content.version != self.version:
      raise XmcapError(f"{self._where[0]} changed while it was being read: start again")
    found = decode(content.data, self._where[1])
    if self._cache is not None:
      self._cache.put(self._key, content.data)
    return found
