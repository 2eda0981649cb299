"""Reads rows of Parquet and Arrow files, whose sizes and offsets are checked before a value is looked at.

Arrow trusts the offsets of a file, and a few kilobytes of it can hold gigabytes of one repeated value. So each batch is
validated, and becomes Python objects only a few rows at a time: as many as fit if each were as large as the batch.
"""

import os
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from xmcap import extras
from xmcap.errors import DamagedError, UsageError, one_line
from xmcap.terminal import shown

MAX_ROW = 144 << 20
"""Largest row in bytes: an image and texts."""
MAX_TEXT = 16 << 20
"""Largest text in bytes."""
MAX_BATCH = 512 << 20
"""Largest compressed batch of an Arrow file, and all its dictionaries, in bytes when decompressed."""

_AT_ONCE = 256 << 20  # bytes that become Python objects at once
_ROWS = 1024
_RATIO = 100  # of a row group's size to that of its file, beyond `_AT_ONCE`
# What pyarrow raises besides its own errors, and Python while it reads sizes.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, MemoryError, SystemError, struct.error)
_FILE_MAGIC = b"ARROW1\0\0"  # before a stream, in Arrow's file format


def rows(
  path: str | os.PathLike, but: Collection[str] = (), most: int | None = None
) -> Iterator[tuple[Mapping[bytes, bytes], dict[str, Any]]]:
  """Yields the metadata of the schema, and column -> value, of each row of a Parquet or Arrow file.

  Args:
    path: a Parquet file, or an Arrow file of either format, which is known by its content.
    but: names of columns to leave out, unless they are of texts.
    most: the most bytes of all rows; None: any number.

  Raises:
    UsageError: pyarrow is missing, the file is damaged, or a row is larger than the limits.
  """
  try:
    import pyarrow as pa
  except ImportError:
    raise UsageError(
      f"{path}: Parquet and Arrow need pyarrow: save it as JSONL, or {extras.install('parquet')}"
    ) from None
  number, size = 0, 0
  try:
    for batch in _of_parquet(path, but) if _starts_with(path, b"PAR1") else _of_arrow(path, but):
      metadata = batch.schema.metadata or {}
      for few in _small(batch):
        size += few.nbytes
        if most is not None and size > most:
          raise _TooLargeError(
            f"over {most >> 20:,} MB up to here: leave other columns out, or split the file"
          )
        for row in few.to_pylist():
          yield metadata, row
          number += 1
  except UsageError:
    raise
  except _TooLargeError as error:
    raise UsageError(f"{path}, row {number:,}: {error}") from None
  except (*_DAMAGE, pa.ArrowException) as error:
    kind = UsageError if getattr(error, "errno", None) else DamagedError
    raise kind(f"{path}: cannot be read ({one_line(error)}): make it again") from None


class _TooLargeError(Exception):
  """A row or a batch beyond the limits."""


def _starts_with(path: str | os.PathLike, magic: bytes) -> bool:
  with open(path, "rb") as file:
    return file.read(len(magic)) == magic


def _of_parquet(path: str | os.PathLike, but: Collection[str]) -> Iterator[Any]:
  import pyarrow.parquet as pq

  with pq.ParquetFile(path) as file:
    names = _chosen(file.schema_arrow, but)
    packed = os.path.getsize(path)
    for place in range(file.num_row_groups):
      # Not its columns: pyarrow 26.0.1 ends the process at a damaged one.
      group = file.metadata.row_group(place)
      size = group.total_byte_size
      if size > _RATIO * packed + _AT_ONCE:
        raise _TooLargeError(f"its row group would be {size >> 20:,} MB: write smaller row groups")
      _check_rows(group.num_rows, size)
      # A column may hold one value in each of its rows, so a row may be as large as the group.
      yield from file.iter_batches(_fitting(size), row_groups=[place], columns=names)


def _of_arrow(path: str | os.PathLike, but: Collection[str]) -> Iterator[Any]:
  import pyarrow as pa

  with pa.memory_map(os.fspath(path)) as source:
    # The file format is a stream behind a magic number; its footer, which may point anywhere, is not used.
    start = len(_FILE_MAGIC) if source.read(len(_FILE_MAGIC)) == _FILE_MAGIC else 0
    source.seek(start)
    _check_messages(pa.ipc.MessageReader.open_stream(source))
    source.seek(start)
    with pa.ipc.open_stream(source) as stream:
      names = _chosen(stream.schema, but)
      for batch in stream:
        batch.validate(full=True)
        _check_rows(batch.num_rows, batch.nbytes)
        yield batch.select(names)


def _chosen(schema: Any, but: Collection[str]) -> list[str]:
  import pyarrow as pa

  names = schema.names
  if len(set(names)) < len(names) or not names:
    raise ValueError(f"{len(names)} columns, of which {len(set(names))} have a name of their own")
  return [name for name in names if name not in but or pa.types.is_string(schema.field(name).type)]


def _check_rows(count: int, size: int) -> None:
  if count > 8 * size:
    raise ValueError(f"{count:,} rows in {size:,} bytes")


def _fitting(size: int) -> int:
  """Returns how many rows fit in memory if each has `size` bytes."""
  return min(_ROWS, max(1, _AT_ONCE // max(size, 1)))


def _small(batch: Any) -> Iterator[Any]:
  """Splits a batch into parts that may become Python objects, after a look at the size of its cells."""
  import pyarrow as pa
  import pyarrow.compute as pc

  step = _fitting(batch.nbytes)
  for start in range(0, batch.num_rows, step):
    part = batch.slice(start, step)
    columns = [
      column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in part.columns
    ]
    part = pa.RecordBatch.from_arrays(columns, names=part.schema.names)
    if part.nbytes > MAX_TEXT:
      for name, column in zip(part.schema.names, columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
          lengths = pc.call_function("binary_length", [column])
          longest = pc.call_function("max", [lengths]).as_py() or 0
          if longest > MAX_TEXT:
            raise _TooLargeError(
              f"column '{shown(name)}' has a text of {longest >> 20:,} MB; at most {MAX_TEXT >> 20}"
            )
      if part.num_rows == 1 and part.nbytes > MAX_ROW:
        raise _TooLargeError(f"has {part.nbytes >> 20:,} MB; at most {MAX_ROW >> 20}")
    yield part


def _check_messages(messages: Any) -> None:
  """Refuses compressed batches that would not fit, by what their buffers say before they are decompressed."""
  dictionaries = 0
  while True:
    try:
      message = messages.read_next_message()
    except StopIteration:
      return
    if message.body is None or message.type not in ("record batch", "dictionary"):
      continue
    size = _unpacked(message.metadata.to_pybytes(), memoryview(message.body), message.type == "dictionary")
    dictionaries += size if message.type == "dictionary" else 0
    if max(size, dictionaries) > MAX_BATCH:
      raise _TooLargeError(
        f"a compressed batch would be {max(size, dictionaries) >> 20:,} MB; at most {MAX_BATCH >> 20}"
      )


def _unpacked(metadata: bytes, body: memoryview, is_dictionary: bool) -> int:
  """Returns the bytes of a compressed batch when decompressed; 0 for one that is not compressed.

  The metadata is a table of FlatBuffers (Arrow's Message.fbs); each compressed buffer begins with its size.
  """

  def number(form: str, place: int) -> int:
    return struct.unpack_from(f"<{form}", metadata, place)[0]

  def field(table: int, slot: int) -> int:
    """Returns the place of a table's field; 0 if it has the default value."""
    vtable = table - number("i", table)
    within = 4 + 2 * slot
    offset = number("H", vtable + within) if within < number("H", vtable) else 0
    return table + offset if offset else 0

  def follow(place: int) -> int:
    return place + number("I", place)

  batch = follow(field(follow(0), 2))  # Message.header
  if is_dictionary:
    batch = follow(field(batch, 1))  # DictionaryBatch.data
  if not field(batch, 3):  # RecordBatch.compression
    return 0
  buffers = follow(field(batch, 2))
  total = 0
  for place in range(number("I", buffers)):
    offset, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * place)
    if length >= 8:
      size = struct.unpack_from("<q", body, offset)[0]
      total += max(size, length)  # -1: not compressed
  return total
