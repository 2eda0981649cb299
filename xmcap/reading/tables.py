"""Delimited text: CSV, TSV, and Flickr30k's `|`. No row is lost in the cell of another."""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from xmcap import spreadsheet
from xmcap.errors import UsageError
from xmcap.reading import layouts
from xmcap.reading.inputs import MAX_LINE, Input
from xmcap.terminal import shown

csv.field_size_limit(
  MAX_LINE
)  # of the whole process; the module's own refuses a cell of over 131,072 characters

_EXCEL = re.compile(r'"?sep=(.)"?')  # its first line, which names the delimiter
_APOSTROPHES = "apostrophes before what begins as a formula are no text, as in other tables for spreadsheets"
_WITHOUT_BAR = re.compile(r"(\d) +(\S.*)")
_UNDECODED = re.compile("[\udc80-\udcff]")  # how `table_lines` reads bytes that are not UTF-8
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")


def cells(
  source: Input,
  delimiter: str = ",",
  notes: list[str] | None = None,
  on_fault: Callable[[str, int, str], object] | None = None,
) -> Iterator[tuple[int, list[str]]]:
  """Yields (line number, cells) for each row of a table, header first; skips empty lines.

  Quotation marks are characters between bars; between tabs unless all are as in CSV.

  Args:
    source: the file; a table of which faults are counted may have any size, but is no pipe.
    delimiter: a comma or a tab.
    notes: takes what was recognised and is not evident.
    on_fault: takes kind, line number and message of a row that is left out; None: such a row raises.

  Raises:
    UsageError: as `Input`, broken CSV, a cell that has other rows in it, or a row that does not match the header.
  """
  notes = [] if notes is None else notes
  first = re.split(rb"[\r\n]", source.head.lstrip(b"\r\n"), maxsplit=1)[0].decode("utf-8", "replace")
  text = None if on_fault else source.text()
  if "\0" in first:
    raise UsageError(f"{source.name}: not UTF-8: save the table as `CSV UTF-8`")
  delimiter, is_named = separator(first, delimiter)
  literal = delimiter == "|"
  if delimiter == "\t" and not _is_quoted(source, text):
    literal = True
    notes.append("quotation marks are part of the captions, as not all of them are those of CSV")
  report = on_fault or (
    lambda kind, number, fault: layouts.refuse(kind, f"{source.name}, line {number}", fault)
  )
  columns: list[str] = []
  all_rows = rows(_lines(source, text), delimiter, literal, source.name)
  for number, row in itertools.islice(all_rows, is_named, None):
    columns = columns or row
    if (whole := with_bar(row, len(columns), delimiter)) is not row:
      row = whole
      notes.append(
        f"line {number} lacks its second '|', as in Kaggle's Flickr30k; read as number and caption"
      )
    texts = spreadsheet.texts(row) if source.has_mark else row
    if texts != row and _APOSTROPHES not in notes:
      notes.append(_APOSTROPHES)
    if on_fault and not any(map(str.strip, row)):
      continue
    if len(row) != len(columns):
      report("missing_field", number, f"{len(row)} cells under {len(columns)} headings; mend or remove it")
    elif on_fault and any(map(_UNDECODED.search, row)):
      report("bad_utf8", number, "save the table as UTF-8")
    else:
      yield number, texts


def separator(first: str, delimiter: str) -> tuple[str, bool]:
  """Returns what separates the cells of a table by its first line, and whether that line names it, as Excel's `sep=;`.

  A header with more semicolons, bars or tabs than commas separates by them, as do Excel in a language that writes
  decimals with commas, and Flickr30k.
  """
  if named := _EXCEL.fullmatch(first.rstrip("\r\n")):
    return named[1], True
  return max(",;|\t", key=first.count) if delimiter == "," else delimiter, False


def with_bar(row: list[str], width: int, delimiter: str) -> list[str]:
  """Returns a row of Flickr30k that lacks its second `|` as number and caption; any other row unchanged."""
  if (
    len(row) == 2 and width == 3 and delimiter == "|" and (comment := _WITHOUT_BAR.fullmatch(row[1].rstrip()))
  ):
    return [row[0], comment[1], comment[2]]
  return row


def rows(lines: Iterable[str], delimiter: str, literal: bool, name: str) -> Iterator[tuple[int, list[str]]]:
  """Yields (number of the first line, cells) of each row that is not empty.

  Args:
    lines: with their ends.
    delimiter: what separates cells.
    literal: whether quotation marks are characters.
    name: of the file, in messages.

  Raises:
    UsageError: broken CSV, or a cell that has other rows in it.
  """
  style = csv.QUOTE_NONE if literal else csv.QUOTE_MINIMAL
  reader = csv.reader(
    lines, delimiter=delimiter, quoting=style, skipinitialspace=delimiter == "|", strict=True
  )
  begin = 1
  try:
    for row in reader:
      if reader.line_num > begin and (line := _swallowed(row, delimiter)):
        raise UsageError(
          f"{name}, line {begin}: a quotation mark opens here and swallows rows, such as '{shown(line, 40)}'; close "
          "it, or double it if it is part of the text"
        )
      if row:
        yield begin, row
      begin = reader.line_num + 1
  except csv.Error as error:
    raise UsageError(
      f"{name}, line {begin}: broken CSV ({error}); close or double the quotation mark"
    ) from error


def _lines(source: Input, text: str | None) -> Iterator[str]:
  return source.table_lines() if text is None else io.StringIO(text, newline="")


def _is_quoted(source: Input, text: str | None) -> bool:
  """Whether the quotation marks between tabs can be those of CSV, so that they enclose cells."""
  widths: set[int] = set()
  with Input(source.path) if text is None else contextlib.nullcontext(source) as again:
    try:
      for _, row in rows(_lines(again, text), "\t", False, source.name):
        widths.add(len(row))
        if len(widths) > 1:
          return False
    except UsageError:
      return False
  return True


def _swallowed(row: list[str], delimiter: str) -> str:
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
