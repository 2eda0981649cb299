"""Arrays in files beside the records, of which a process reads the blocks that it needs.

A file here is mapped. One in a bucket is mapped as a file with holes in the folder of `RecordCache`, shared by the
processes of a host; blocks that are absent are read by ranges, neighbouring ones together. Each process compares a
block with its checksum before it uses it, so a hole, or a block that a process left unfinished, is read again.
"""

import contextlib
import errno
import io
import itertools
import os
from collections.abc import Iterator, Sequence

import google_crc32c
import numpy as np

from xmcap.files import addresses, files, object_store, range_cache

_HEADER = 128  # bytes of the header of an .npy file of one axis
_MOST_READ = 2 << 20  # bytes of a request
_GAP = 1 << 18  # bytes that are read for nothing rather than by another request
_AHEAD = 64  # requests at a time


class BlockArray:
  """An array of one axis in an .npy file, by blocks.

  Args:
    address: the file.
    dtype: of its elements.
    ends: int64 [B + 1], where each block begins, and the end of the last.
    sums: uint32 [B], CRC32C of the bytes of each block.
    version: differs between files of the same address.

  Attributes:
    array: its elements; only those of the blocks in `need` are valid.

  Raises:
    ValueError: the file is damaged, or not of this size. FileNotFoundError: there is none.
  """

  def __init__(self, address: str, dtype: np.dtype, ends: np.ndarray, sums: np.ndarray, version: str):
    self._address, self._ends, self._sums = address, ends, sums
    self._ready = np.zeros(len(sums), bool)
    self._is_remote = addresses.is_remote(address)
    self._file: io.FileIO | None = None
    if self._is_remote:
      self.array = self._empty(dtype, version)
    else:
      self.array = np.load(address, mmap_mode="r", allow_pickle=False)
    if self.array.shape != (ends[-1],) or self.array.dtype != dtype:
      raise ValueError("a file is too short or too long")

  def _empty(self, dtype: np.dtype, version: str) -> np.ndarray:
    """Returns the array of a file in a bucket, with the blocks that the processes of this host have read."""
    folder, count = range_cache.RecordCache().folder(), int(self._ends[-1])
    if folder is None or not count:
      return np.zeros(count, dtype)  # takes no memory where nothing is written
    path = folder / "lengths" / range_cache.key(self._address, version).hex()
    files.make_folder(path.parent)
    with files.write_errors_name(path):
      self._file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
      self._file.truncate(count * dtype.itemsize)
    self._path = path
    return np.memmap(self._file, dtype, "r", shape=(count,))

  def need(self, blocks: np.ndarray) -> None:
    """Makes blocks, ascending int64 [N], valid; ValueError if one is damaged."""
    unread = blocks[~self._ready[blocks]].tolist()
    absent = [block for block in unread if not self._is_whole(block)]
    if absent and not self._is_remote:
      raise ValueError(f"block {absent[0]} of {os.path.basename(self._address)} does not match its checksum")
    ranges = iter(self._joined(absent))
    begun = [(part, self._read(part)) for part in itertools.islice(ranges, _AHEAD)]
    while begun:
      part, read = begun.pop(0)
      begun += [(following, self._read(following)) for following in itertools.islice(ranges, 1)]
      with contextlib.suppress(ValueError):
        self._fill(part, read.result())
        continue
      self._fill(part, read.result())  # transit may have damaged it
    self._ready[blocks] = True

  def _joined(self, blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields (first, last + 1) of ranges of blocks that are read together."""
    first, stop = None, 0
    size = self.array.itemsize
    for block in blocks:
      if first is not None:
        gap, whole = self._ends[block] - self._ends[stop], self._ends[block + 1] - self._ends[first]
        if gap * size <= _GAP and whole * size <= _MOST_READ:
          stop = block + 1
          continue
        yield first, stop
      first, stop = block, block + 1
    if first is not None:
      yield first, stop

  def _read(self, part: tuple[int, int]) -> object_store.Read:
    start, stop = (_HEADER + int(self._ends[block]) * self.array.itemsize for block in part)
    return object_store.Read(self._address, start, stop)

  def _fill(self, part: tuple[int, int], data: bytes) -> None:
    """Puts the bytes of a range of blocks where they belong; ValueError if they are damaged."""
    values = np.frombuffer(data, self.array.dtype)
    start = self._ends[part[0]]
    for block in range(*part):
      piece = values[self._ends[block] - start : self._ends[block + 1] - start]
      if google_crc32c.value(piece.tobytes()) != self._sums[block]:
        raise ValueError(f"block {block} of {os.path.basename(self._address)} does not match its checksum")
    if self._file is None:
      self.array[start : start + len(values)] = values
      return
    # Not through the map: on a full disk that would end the process.
    with files.write_errors_name(self._path):
      written = os.pwrite(self._file.fileno(), data, int(start) * self.array.itemsize)
      if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  def _is_whole(self, block: int) -> bool:
    return (
      google_crc32c.value(self.array[self._ends[block] : self._ends[block + 1]].tobytes())
      == self._sums[block]
    )


def sums_of(array: np.ndarray, ends: np.ndarray) -> np.ndarray:
  """Returns uint32 [B]: CRC32C of the bytes of each block of an array."""
  pairs = itertools.pairwise(ends.tolist())
  return np.array([google_crc32c.value(array[start:stop].tobytes()) for start, stop in pairs], np.uint32)
