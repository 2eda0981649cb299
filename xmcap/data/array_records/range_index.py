"""The index of a file of records: where they are, so that any of them can be read by a range of bytes.

ArrayRecord's own reader opens only local files. In the files of `xmcap data build` each record is stored as it is, in a
chunk of its own. A file is cut into blocks of 64 KiB, and a header of 24 bytes begins each, also within a record
(https://github.com/google/riegeli, doc/riegeli_records_file_format.md). Without these headers, the rest is the content.

The index of the file NAME is NAME.index, little-endian:

  8 bytes, int64, int64, uint32   what it is, size of the file, number of records, CRC32C of `RangeIndex.end`
  int64, uint32, uint32           for each record: offset in the content, length, CRC32C
  uint32                          CRC32C of all that
"""

import dataclasses
import mmap
import os
import pathlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Self

import array_record.python.array_record_module as array_record_module
import google_crc32c
import numpy as np

from xmcap import processes as processes_lib
from xmcap.data.array_records.local import READER_OPTIONS
from xmcap.errors import XmcapError, one_line
from xmcap.files import addresses, files, object_store
from xmcap.progress import Progress, Say

SUFFIX = ".index"
"""What the name of an index has behind that of its file."""

_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_CHUNK_HEADER = 40
# The last block begins with the postscript, which says where the footer is: it differs between files of other sizes.
_END = 128
_KIND = b"xmcapix1"
_HEAD = struct.Struct("<8sqqI")
_SUM = struct.Struct("<I")
_ROW = np.dtype([("offset", "<i8"), ("length", "<u4"), ("crc32c", "<u4")])
_DAMAGED = (RuntimeError, IndexError, ValueError, OSError)


@dataclasses.dataclass(frozen=True, eq=False)
class RangeIndex:
  """Where the records of a file are.

  Attributes:
    size: bytes of the file.
    end_crc32c: CRC32C of its bytes in the range `end`.
    rows: for each record its `offset` in the content, `length` and `crc32c`.
  """

  size: int
  end_crc32c: int
  rows: np.ndarray

  @classmethod
  def of_file(cls, path: str | os.PathLike) -> Self:
    """Returns the index of a local file, all of which ArrayRecord's reader reads and verifies.

    Raises:
      RuntimeError, IndexError: the file is damaged.
      ValueError: it has compressed records, or chunks of several.
    """
    reader = array_record_module.ArrayRecordReader(os.fspath(path), READER_OPTIONS)
    with open(path, "rb") as file:
      rows = np.fromiter(_rows(reader, file), _ROW, reader.num_records())
      size = file.seek(0, os.SEEK_END)
      end = _read(file, *cls(size, 0, rows).end)
    reader.close()
    return cls(size, google_crc32c.value(end), rows)

  @classmethod
  def from_bytes(cls, data: bytes | mmap.mmap, *, is_verified: bool = False) -> Self:
    """Returns the index in a file; ValueError if it is damaged. One that was verified before is not read as a whole."""
    if not is_verified and version_of(data)[-_SUM.size :] != _sum(data[: -_SUM.size]):
      raise ValueError("its checksum does not match")
    kind, size, records, end_crc32c = _HEAD.unpack_from(data)
    if kind != _KIND or len(data) != _HEAD.size + records * _ROW.itemsize + _SUM.size:
      raise ValueError("it is no index of records")
    rows = np.frombuffer(data, _ROW, records, _HEAD.size)
    if is_verified:
      return cls(size, end_crc32c, rows)
    offsets, lengths = rows["offset"], rows["length"].astype(np.int64)
    if size < _BLOCK or (offsets < 0).any() or (offsets > size - lengths).any():
      raise ValueError("it names bytes outside its file")
    return cls(size, end_crc32c, rows)

  def to_bytes(self) -> bytes:
    """Returns the contents of the file for `from_bytes`."""
    data = _HEAD.pack(_KIND, self.size, len(self.rows), self.end_crc32c) + self.rows.tobytes()
    return data + _sum(data)

  @property
  def end(self) -> tuple[int, int]:
    """A range near the end of the file, which tells it from a file of another size."""
    return self.size - _BLOCK, self.size - _BLOCK + _END

  def check_end(self, data: bytes) -> None:
    """Raises ValueError if these bytes of the range `end` are not those of the indexed file."""
    if google_crc32c.value(data) != self.end_crc32c:
      raise ValueError("the end of the file is another")

  def range_of(self, position: int) -> tuple[int, int]:
    """Returns the range of bytes that has a record; IndexError if there is no such record."""
    offset, length, _ = self.rows[position].item()
    return _range(offset, length)

  def record(self, position: int, data: bytes) -> bytes:
    """Returns a record from the bytes of its range; ValueError if they are not those of the indexed file."""
    content = _content(data, self.range_of(position)[0])
    if google_crc32c.value(content) != self.rows[position]["crc32c"]:
      raise ValueError("its checksum is not that of the index")
    return content


def version_of(data: bytes | mmap.mmap) -> bytes:
  """Returns head and checksum of an index, which tell it from others; ValueError if it is too short."""
  if len(data) < _HEAD.size + _SUM.size:
    raise ValueError("its checksum does not match")
  return data[: _HEAD.size] + data[-_SUM.size :]


class NoRangesError(XmcapError):
  """The records of a file cannot be read by ranges."""


def write(address: addresses.Address) -> None:
  """Writes the index of a file beside it; in a bucket through a copy here.

  NoRangesError if the file is not laid out as one of `xmcap data build`; XmcapError if it is damaged.
  """
  path = os.fspath(address) + SUFFIX
  try:
    with addresses.local_copy(address) as copy:
      index = RangeIndex.of_file(copy)
  except _DAMAGED as error:
    kind = NoRangesError if isinstance(error, ValueError) else XmcapError
    raise kind(
      f"{address} cannot be indexed ({one_line(error)}): build the corpus again with `xmcap data build`"
    ) from None
  if addresses.is_remote(path):
    object_store.write(path, index.to_bytes())
  else:
    files.write_bytes(pathlib.Path(path), index.to_bytes())


def write_absent(paths: Sequence[str], *, processes: int | None = None, say: Say | None = None) -> int:
  """Calls `write` for the files that have no index, several at a time (None: one per core); returns their number."""
  names_in = {folder: set(addresses.names(folder)) for folder in set(map(addresses.parent, paths))}
  absent = [path for path in paths if os.path.basename(path) + SUFFIX not in names_in[addresses.parent(path)]]
  progress = Progress(say or (lambda line: None), "files of records indexed", len(absent))
  with processes_lib.pool(min(processes or processes_lib.available_cores(), len(absent))) as pool:
    for done, _ in enumerate(pool.map(write, absent), 1):
      progress(done)
  return len(absent)


def is_wrong(path: str) -> bool:
  """Whether a local file has an index that is not its own. Reads all records; False if those are damaged."""
  try:
    with open(path + SUFFIX, "rb") as file:
      return file.read() != RangeIndex.of_file(path).to_bytes()
  except _DAMAGED:
    return False


def _rows(reader: Any, file: BinaryIO) -> Iterator[tuple[int, int, int]]:
  """Yields the rows of the records of a file, comparing them with the bytes in their ranges."""
  offset = _CHUNK_HEADER  # the file begins with a chunk without data
  for _ in range(reader.num_records()):
    record = reader.read()
    # A chunk has its header, 0 for no compression, the size of the sizes in one byte, the size of the record as a
    # varint, and the record.
    offset += _CHUNK_HEADER + 2 + max(1, -(-len(record).bit_length() // 7))
    start, stop = _range(offset, len(record))
    if _content(_read(file, start, stop), start) != record:
      raise ValueError("its records are compressed, or share chunks")
    yield offset, len(record), google_crc32c.value(record)
    offset += len(record)


def _range(offset: int, length: int) -> tuple[int, int]:
  """Returns the range of the file that has `length` bytes of the content."""
  start, last = (
    place + _BLOCK_HEADER * (place // (_BLOCK - _BLOCK_HEADER) + 1) for place in (offset, offset + length - 1)
  )
  return start, max(start, last + 1)


def _content(data: bytes, start: int) -> bytes:
  """Returns the content of a range of a file that begins at `start`."""
  first = -start % _BLOCK
  pieces = (data[place + _BLOCK_HEADER : place + _BLOCK] for place in range(first, len(data), _BLOCK))
  return b"".join((data[:first], *pieces))


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
  file.seek(start)
  return file.read(stop - start)


def _sum(data: bytes) -> bytes:
  return _SUM.pack(google_crc32c.value(data))
