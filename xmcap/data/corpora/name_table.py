"""A table from names to numbers on disk, for millions of names and little memory.

A name is its 128-bit hash; rows are sorted by it, and lie in buckets by its first bits. To find one, one bucket of
about a hundred rows is read. Rows are made by `RowWriter`s, in any order and any number of files, and `build` sorts
them a piece at a time.
"""

import hashlib
import io
import os
import pathlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xmcap.data import files

ROW = np.dtype(
  [("high", "<u8"), ("low", "<u8"), ("number", "<u4"), ("space", "u1"), ("more", "u1"), ("pad", "<u2")]
)
"""A row: the hash, the number it stands for, the kind of name, and how many other numbers had it (at most 255)."""

MAX_NUMBER = 2**32 - 1
_TAIL = struct.Struct("<IBBH")
_IN_BUCKET = 128
_MAX_BITS = 16
_PIECE = 1 << 19  # rows in memory at a time: 12 MB, and as much again to sort them


def digest(space: int, name: str) -> bytes:
  """The hash of a name: 16 bytes; the same name in another space has another."""
  return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, salt=bytes([space])).digest()


class RowWriter:
  """Writes rows to a file, one after another; a context manager."""

  def __init__(self, path: str | os.PathLike):
    self._file = files.output(path)

  def __enter__(self) -> "RowWriter":
    return self

  def __exit__(self, *exception) -> None:
    self._file.close()

  def add(self, space: int, name: str, number: int) -> None:
    """Adds a name of a space (0 to 255)."""
    self.add_digest(space, digest(space, name), number)

  def add_digest(self, space: int, hashed: bytes, number: int) -> None:
    """As `add`, of a name that is hashed already."""
    self._file.write(hashed + _TAIL.pack(number, space, 0, 0))


class Part(NamedTuple):
  """A file of rows, and what is added to their numbers."""

  path: pathlib.Path
  shift: int


def build(
  parts: Sequence[Part], out: pathlib.Path, first: Callable[[int, np.ndarray], int] | None = None
) -> None:
  """Makes the table `out` (and `out` + ".starts") of rows.

  Args:
    parts: files of rows.
    out: the table's file; its folder must be there.
    first: called for a name with several numbers, with its space and the numbers in rising order; returns the one
      that the name stands for. None: the smallest.
  """
  total = sum(part.path.stat().st_size // ROW.itemsize for part in parts)
  bits = min(_MAX_BITS, (total // _IN_BUCKET).bit_length())
  counts = np.zeros(1 << bits, np.int64)
  for rows in _pieces(parts):
    counts += np.bincount(_bucket(rows["high"], bits), minlength=1 << bits)
  starts = np.concatenate([[0], np.cumsum(counts)])
  scattered = out.with_name(f".{out.name}.scattered")
  try:
    _scatter(parts, scattered, starts, bits)
    kept = _sort(scattered, out, starts, first)
  finally:
    scattered.unlink(missing_ok=True)
  files.write_array(_starts_path(out), np.concatenate([[0], np.cumsum(kept)]))


def _starts_path(table: pathlib.Path) -> pathlib.Path:
  return table.with_name(table.name + ".starts")


def _bucket(high: np.ndarray, bits: int) -> np.ndarray:
  return (high >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(high), np.int64)


def _pieces(parts: Sequence[Part]) -> Iterator[np.ndarray]:
  for part in parts:
    with open(part.path, "rb") as file:
      while len(rows := np.fromfile(file, ROW, _PIECE)):
        rows["number"] += np.uint32(part.shift)
        yield rows


def _scatter(parts: Sequence[Part], path: pathlib.Path, starts: np.ndarray, bits: int) -> None:
  """Writes rows into their buckets, in the order they come in."""
  free = starts[:-1].copy()
  with files.output(path) as file:
    for rows in _pieces(parts):
      buckets = _bucket(rows["high"], bits)
      order = np.argsort(buckets, kind="stable")
      rows = rows[order]
      found, begins = np.unique(buckets[order], return_index=True)
      ends = np.append(begins[1:], len(rows))
      for bucket, begin, end in zip(found.tolist(), begins.tolist(), ends.tolist(), strict=True):
        file.seek(int(free[bucket]) * ROW.itemsize)
        file.write(rows[begin:end].tobytes())
        free[bucket] += end - begin


def _sort(
  scattered: pathlib.Path,
  out: pathlib.Path,
  starts: np.ndarray,
  first: Callable[[int, np.ndarray], int] | None,
) -> np.ndarray:
  """Writes sorted rows, one a name; returns int64 [buckets], how many are in each."""
  kept = np.zeros(len(starts) - 1, np.int64)
  with open(scattered, "rb") as file, files.output(out) as sorted_file:
    begin = 0
    while begin < len(kept):
      # As many buckets as fit, and one at least.
      end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + _PIECE, side="right")) - 1)
      rows = np.fromfile(file, ROW, int(starts[end] - starts[begin]))
      rows = rows[np.lexsort((rows["number"], rows["low"], rows["high"]))]
      new = np.ones(len(rows), bool)
      new[1:] = (rows["high"][1:] != rows["high"][:-1]) | (rows["low"][1:] != rows["low"][:-1])
      places = np.flatnonzero(new)
      sizes = np.diff(np.append(places, len(rows)))
      for group in np.flatnonzero(sizes > 1).tolist():
        place, size = int(places[group]), int(sizes[group])
        if first is not None:
          rows["number"][place] = first(
            int(rows["space"][place]), rows["number"][place : place + size].astype(np.int64)
          )
        rows["more"][place] = min(size - 1, 255)
      sorted_file.write(rows[places].tobytes())
      bits = (len(kept) - 1).bit_length()
      kept += np.bincount(_bucket(rows["high"][places], bits), minlength=len(kept))
      begin = end
  return kept


class Table:
  """A table that `build` made, to look names up in; pickles as its path."""

  def __init__(self, path: pathlib.Path):
    self._path = path
    self._starts = np.load(_starts_path(path), allow_pickle=False)
    self._bits = (len(self._starts) - 2).bit_length()
    self._file = io.FileIO(path)

  def __reduce__(self):
    return Table, (self._path,)

  def find(self, space: int, name: str) -> tuple[int, int] | None:
    """The number of a name, and how many others had the name; None if it is not in the table."""
    return self.find_digest(digest(space, name))

  def find_digest(self, hashed: bytes) -> tuple[int, int] | None:
    """As `find`, of a name that is hashed already."""
    bucket = int.from_bytes(hashed[:8], "little") >> (64 - self._bits)
    begin, end = self._starts[bucket : bucket + 2].tolist()
    rows = os.pread(self._file.fileno(), (end - begin) * ROW.itemsize, begin * ROW.itemsize)
    place = rows.find(hashed)
    while place >= 0 and place % ROW.itemsize:
      place = rows.find(hashed, place + 1)
    if place < 0:
      return None
    number, _, more, _ = _TAIL.unpack_from(rows, place + 16)
    return number, more
