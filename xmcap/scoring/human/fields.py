"""Values of files that people hand in, checked one by one; each error is one line that names the place."""

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_TEXT = 10_000
_LARGEST = 1e12  # squares and sums of such numbers are numbers still

MAX_TABLE = 64 << 20
"""Bytes of the largest CSV file that is read; 3,600 images in 36 languages and three raters take 30 million."""


def text(row: Mapping[str, Any], name: str, where: str, blank: bool = False) -> str:
  """Returns a text of a row.

  Raises:
    UsageError: it is missing, no string, too long, or blank where it must not be.
  """
  value = _get(row, name, where)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{name}' is {_kind(value)}; it must be a text")
  if not blank and not value.strip():
    raise UsageError(f"{where}: '{name}' is empty; give it a value")
  if len(value) > _LONGEST_TEXT:
    raise UsageError(f"{where}: '{name}' has {len(value):,} characters; at most {_LONGEST_TEXT:,} are read")
  return value


def number(row: Mapping[str, Any], name: str, where: str) -> float:
  """Returns a number of a row of JSON.

  Raises:
    UsageError: it is missing, no number, a boolean, or not finite.
  """
  value = _get(row, name, where)
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise UsageError(f"{where}: '{name}' is {_kind(value)}; it must be a number")
  try:
    value = float(value)
  except OverflowError:
    value = math.inf
  return _finite(value, name, where)


def written_number(row: Mapping[str, str], name: str, where: str) -> float:
  """Returns a number of a row of CSV; errors as for `number`."""
  value = _get(row, name, where)
  if not _NUMBER.fullmatch(value.strip()):
    raise UsageError(f"{where}: '{name}' is '{files.shown(value)}'; it must be a number such as -0.25")
  return _finite(float(value), name, where)


def read_csv(
  path: str | os.PathLike, required: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[int, dict[str, str]]]]:
  """Reads a CSV file with a header line.

  Args:
    path: the file; UTF-8, with or without a byte order mark.
    required: columns that there must be; others are kept too.

  Returns:
    The columns, and (number of the line that a row ends on, column -> text) of each row. Lines that are
    empty are passed over.

  Raises:
    UsageError: the file cannot be read, is not UTF-8 or no CSV, lacks a column, names one twice, or a row has
      another number of cells than the header; the message names file and line.
  """
  content = read_utf8(path)
  reader = csv.reader(io.StringIO(content, newline=""), strict=True)
  rows = _rows(reader, path)
  number, columns = next(rows, (1, []))
  columns = [column.strip() for column in columns]
  where = f"{path}, line {number}"
  missing = [name for name in required if name not in columns]
  if missing:
    raise UsageError(f"{where}: no column '{missing[0]}'; the header must name {', '.join(required)}")
  for column in columns:
    if columns.count(column) > 1:
      raise UsageError(f"{where}: two columns are called '{files.shown(column)}'; keep one")

  table = []
  for number, cells in rows:
    if len(cells) != len(columns):
      raise UsageError(
        f"{path}, line {number}: {len(cells)} cells where the header has {len(columns)}; mend the line"
      )
    table.append((number, dict(zip(columns, cells, strict=True))))
  return tuple(columns), table


def read_utf8(path: str | os.PathLike) -> str:
  """Returns the text of a file without its byte order mark.

  Raises:
    UsageError: the file cannot be read, or is not UTF-8; the message names the line.
  """
  try:
    with open(path, "rb") as file:
      raw = file.read(MAX_TABLE + 1)
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error
  if len(raw) > MAX_TABLE:
    raise UsageError(f"{path}: a CSV file of over {MAX_TABLE >> 20} MiB; give fewer rows")
  try:
    return raw.decode("utf-8").removeprefix("\ufeff")
  except UnicodeDecodeError as error:
    line = raw.count(b"\n", 0, error.start) + 1
    raise UsageError(
      f"{path}, line {line}: not UTF-8 (byte 0x{raw[error.start]:02x}); convert the file to UTF-8"
    ) from error


def _rows(reader: Any, path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
  while True:
    try:
      cells = next(reader)
    except StopIteration:
      return
    except csv.Error as error:
      raise UsageError(f"{path}, line {reader.line_num}: broken CSV ({error}); mend the line") from error
    if any(cell.strip() for cell in cells):
      yield reader.line_num, cells


def _get(row: Mapping[str, Any], name: str, where: str) -> Any:
  if name not in row:
    raise UsageError(f"{where}: no '{name}'; add it")
  return row[name]


def _finite(value: float, name: str, where: str) -> float:
  if not math.isfinite(value):
    raise UsageError(f"{where}: '{name}' is not a finite number; correct it")
  if abs(value) > _LARGEST:
    raise UsageError(f"{where}: '{name}' is {value:g}; at most {_LARGEST:g} is read")
  return value


def _kind(value: Any) -> str:
  if isinstance(value, bool):
    return "true or false"
  return {type(None): "null", str: "a text", int: "a number", float: "a number", list: "a list"}.get(
    type(value), "an object"
  )
