"""Sizes in the footer of a Parquet file, read without pyarrow, whose accessor of a column can end the process.

pyarrow 26.0.1's `RowGroupMetaData.column` does not catch what C++ throws at a damaged column. The footer is a struct
in Thrift's compact protocol (parquet.thrift; thrift-compact-protocol.md).
"""

import os
from typing import Any, NamedTuple

_MOST = 64 << 20  # bytes of a footer
_DEPTH = 16  # structs and lists in each other; the format has 6
_MAGIC = b"PAR1"


class RowGroup(NamedTuple):
  """The number of rows, and column -> (compressed, decompressed) bytes of all that is in it."""

  rows: int
  columns: dict[str, tuple[int, int]]


def row_groups(path: str | os.PathLike) -> list[RowGroup]:
  """Returns the row groups as the footer describes them; ValueError, LookupError or TypeError if it is damaged."""
  with open(path, "rb") as file:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > min(end - 8, _MOST):
      raise ValueError(f"no footer, or one of over {_MOST >> 20} MB")
    file.seek(end - 8 - length)
    footer = _Compact(file.read(length)).value(_STRUCT)
  groups = []
  for group in footer[4]:
    columns: dict[str, tuple[int, int]] = {}
    for chunk in group[1]:
      about = chunk[3]
      name = about[3][0].decode()
      packed, size = columns.get(name, (0, 0))
      columns[name] = packed + _size(about[7]), size + _size(about[6])
    groups.append(RowGroup(_size(group[3]), columns))
  return groups


def _size(value: Any) -> int:
  if not isinstance(value, int) or value < 0:
    raise ValueError(f"a size of {value}")
  return value


_STRUCT = 12


class _Compact:
  """Values in the compact protocol: a struct as {number of the field: value}."""

  def __init__(self, data: bytes):
    self._data, self._place, self._depth = data, 0, 0

  def value(self, kind: int) -> Any:
    match kind:
      case 1 | 2:
        return kind == 1
      case 3:
        return self._byte()
      case 4 | 5 | 6:
        number = self._varint()
        return number >> 1 ^ -(number & 1)
      case 7:
        return self._bytes(8)
      case 8:
        return self._bytes(self._varint())
      case 13:
        return self._bytes(16)
    self._depth += 1
    if self._depth > _DEPTH:
      raise ValueError("a footer that is nested too deeply")
    nested = self._list() if kind in (9, 10) else self._struct() if kind == _STRUCT else self._map(kind)
    self._depth -= 1
    return nested

  def _struct(self) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    number = 0
    while head := self._byte():
      step, kind = head >> 4, head & 15
      number = number + step if step else self.value(4)
      fields[number] = self.value(kind)
    return fields

  def _list(self) -> list[Any]:
    head = self._byte()
    count, kind = head >> 4, head & 15
    # A boolean within a list takes a byte, unlike a field's, which is its type.
    return [
      self.value(3 if kind in (1, 2) else kind)
      for _ in range(self._count(count if count < 15 else self._varint()))
    ]

  def _map(self, kind: int) -> dict[Any, Any]:
    if kind != 11:
      raise ValueError(f"type {kind} in a footer")
    count = self._count(self._varint())
    kinds = self._byte() if count else 0
    return {str(self.value(kinds >> 4)): self.value(kinds & 15) for _ in range(count)}

  def _count(self, count: int) -> int:
    if count > len(self._data) - self._place:  # each takes a byte or more
      raise ValueError("a footer that is cut off")
    return count

  def _varint(self) -> int:
    number = 0
    for shift in range(0, 70, 7):
      byte = self._byte()
      number |= (byte & 0x7F) << shift
      if not byte & 0x80:
        return number
    raise ValueError("a number of more than 64 bits")

  def _byte(self) -> int:
    self._place += 1
    return self._data[self._place - 1]

  def _bytes(self, count: int) -> bytes:
    self._place += self._count(count)
    return self._data[self._place - count : self._place]
