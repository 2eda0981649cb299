"""Delimited text: CSV, TSV, and Flickr30k's `|`. No row is lost in the cell of another."""

import csv
import io
import itertools
import re
from collections.abc import Iterator

from xmcap.errors import UsageError
from xmcap.reading.inputs import MAX_LINE, Input
from xmcap.terminal import shown

csv.field_size_limit(
  MAX_LINE
)  # of the whole process; the module's own refuses a cell of over 131,072 characters

_EXCEL = re.compile(r'"?sep=(.)"?')  # its first line, which names the delimiter
_WITHOUT_BAR = re.compile(r"(\d) +(\S.*)")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")


def cells(
  source: Input, delimiter: str = ",", notes: list[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
  """Yields (last line number, cells) for each row of a table, header first; skips empty lines.

  A header with semicolons, bars or tabs and no comma separates by them, as do Excel in a language that writes decimals
  with commas, and Flickr30k. Quotation marks are characters between bars; between tabs unless all are as in CSV.

  Args:
    source: the file.
    delimiter: a comma or a tab.
    notes: takes what was recognised and is not evident.

  Raises:
    UsageError: as `Input.text`, broken CSV, a cell that has other rows in it, or a row that does not match the header.
  """
  text = source.text()
  notes = [] if notes is None else notes
  first = text.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
  named = _EXCEL.fullmatch(first)
  if named:
    delimiter = named[1]
  elif delimiter == "," and "," not in first:
    delimiter = next((mark for mark in ";|\t" if mark in first), ",")
  literal = delimiter == "|"
  if delimiter == "\t" and '"' in text and not _is_quoted(text, source.name):
    literal = True
    notes.append("quotation marks are part of the captions, as not all of them are those of CSV")
  columns: list[str] = []
  for number, row in itertools.islice(_rows(text, delimiter, literal, source.name), 1 if named else 0, None):
    columns = columns or row
    if (
      len(row) == 2 and len(columns) == 3 and delimiter == "|" and (comment := _WITHOUT_BAR.fullmatch(row[1]))
    ):
      row = [row[0], comment[1], comment[2]]
      notes.append(
        f"line {number} lacks its second '|', as in Kaggle's Flickr30k; read as number and caption"
      )
    if len(row) != len(columns):
      raise UsageError(
        f"{source.name}, line {number}: {len(row)} cells under {len(columns)} headings; mend or remove it"
      )
    yield number, row


def _rows(text: str, delimiter: str, literal: bool, name: str) -> Iterator[tuple[int, list[str]]]:
  """Yields (last line number, cells) of each row; `literal` takes quotation marks for characters."""
  style = csv.QUOTE_NONE if literal else csv.QUOTE_MINIMAL
  lines = io.StringIO(text, newline="")
  reader = csv.reader(
    lines, delimiter=delimiter, quoting=style, skipinitialspace=delimiter == "|", strict=True
  )
  begin = 1
  try:
    for row in reader:
      if reader.line_num > begin and (line := swallowed(row, delimiter)):
        raise UsageError(
          f"{name}, line {begin}: a quotation mark opens here and swallows rows, such as '{shown(line, 40)}'; close "
          "it, or double it if it is part of the text"
        )
      begin = reader.line_num + 1
      if row:
        yield reader.line_num, row
  except csv.Error as error:
    raise UsageError(f"{name}, line {reader.line_num}: broken CSV ({error}); mend it") from error


def _is_quoted(text: str, name: str) -> bool:
  """Whether the quotation marks between tabs can be those of CSV."""
  try:
    return len({len(row) for _, row in _rows(text, "\t", False, name)}) == 1
  except UsageError:
    return False


def swallowed(row: list[str], delimiter: str) -> str:
  """Returns a line in a cell of several that looks like a row: as many cells, one of them as in `row`; "" if none."""
  shapes = list(map(_shape, row))
  for line in itertools.chain.from_iterable(cell.splitlines() for cell in row if "\n" in cell):
    parts = line.split(delimiter)
    if len(parts) == len(row) and any(
      own and own == _shape(part) for own, part in zip(shapes, parts, strict=True)
    ):
      return line
  return ""


def _shape(cell: str) -> str:
  """Returns a cell with 0 for each word that has a digit and `a` for others: `0.a` for `12ab.jpg`."""
  return _WORD.sub(lambda word: "0" if _DIGIT.search(word[0]) else "a", cell.strip())
