"""CSV and TSV in which a spreadsheet shows texts and computes none of them.

Excel and LibreOffice compute a cell that begins with `=`, `+`, `-` or `@`, in quotation marks too (OWASP, "CSV
Injection"). An apostrophe before it makes it a text; neither program hides it in a file of text. A cell that is cut at
another separator than the file's, as where decimals have commas, begins a second time, so it gets one there as well. A
file with such cells begins with a byte order mark, by which `texts` knows that one apostrophe of each is no text.
"""

import contextvars
import re
from collections.abc import Iterable, Sequence

MARK = "\ufeff"
"""Byte order mark, without which Excel does not read UTF-8."""

raw: contextvars.ContextVar[bool] = contextvars.ContextVar("raw", default=False)
"""Whether texts are written as they are, without apostrophes and mark."""

_SIGNS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")  # the last four are wide forms
_SKIPPED = "\t\r\n\0"  # what some programs drop at the beginning of a cell
# Without one of these a text is as it is. Most are, and one search is a fifth of the time of finding all beginnings.
_SPECIAL = re.compile(f"[{re.escape(''.join(_SIGNS))}{_SKIPPED}]")
# The beginning of a cell, also of one that is cut, with what may stand before a sign. Each run is matched once.
_BEGIN = re.compile("(?:\\A|[,;\t\r\n])[\\s'\",;\0]*")
_CUT = re.compile("[,;\t\r\n]")
_MARKED_CUT = re.compile("([,;\t\r\n])'")
_QUOTED = re.compile('[",;|\t\r\n]')


def cell(value: object) -> str:
  """Returns a cell of CSV: a text that a spreadsheet shows, a number in full precision, or nothing for None."""
  if not isinstance(value, str):
    # Not `repr`, which NumPy's numbers override.
    return "" if value is None else float.__repr__(value) if isinstance(value, float) else str(value)
  text = shown(value)
  return '"{}"'.format(text.replace('"', '""')) if _QUOTED.search(text) or _is_edged(text) else text


def shown(text: str) -> str:
  """Returns a text with the apostrophes that it needs, or as it is if texts are written `raw`."""
  return text if raw.get() or not _SPECIAL.search(text) else _BEGIN.sub(_protected, text)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
  """Returns CSV with a header."""
  rows = [headings, *rows]
  lines = "".join(f"{','.join(map(cell, row))}\n" for row in rows)
  return _marked(lines, (value for row in rows for value in row if isinstance(value, str)))


def tab_table(rows: Iterable[Sequence[str]]) -> str:
  """Returns TSV without a header; a cell is on one line, and its quotation marks are characters."""
  rows = [[" ".join(value.split()) for value in row] for row in rows]
  lines = "".join("\t".join(map(shown, row)) + "\n" for row in rows)
  return _marked(lines, (value for row in rows for value in row))


def header(headings: Sequence[str]) -> str:
  """Returns the first line of a CSV whose rows are written one by one, with the mark."""
  line = f"{','.join(map(cell, headings))}\n"
  return line if raw.get() else f"{MARK}{line}"


def texts(cells: Iterable[str]) -> list[str]:
  """Returns the texts of cells that were read from a file with the mark."""
  return [_BEGIN.sub(_bare, text) if "'" in text else text for text in cells]


def _is_edged(text: str) -> bool:
  """Whether white space begins or ends a text, or an apostrophe begins it."""
  return text[:1].isspace() or text[-1:].isspace() or text.startswith("'")


def _marked(lines: str, values: Iterable[str]) -> str:
  return f"{MARK}{lines}" if any(shown(value) != value for value in values) else lines


def _protected(begin: re.Match[str]) -> str:
  lead = begin[0]
  if _before_sign(begin):
    lead = _CUT.sub(r"\g<0>'", lead)
  elif not _is_skipped(begin):
    return lead
  return lead if begin.start() else f"'{lead}"


def _bare(begin: re.Match[str]) -> str:
  lead = begin[0]
  is_before_sign = _before_sign(begin)
  if not begin.start() and (is_before_sign or _is_skipped(begin)):
    lead = lead.removeprefix("'")
  return _MARKED_CUT.sub(r"\1", lead) if is_before_sign else lead


def _before_sign(begin: re.Match[str]) -> bool:
  return begin.string[begin.end() : begin.end() + 1] in _SIGNS


def _is_skipped(begin: re.Match[str]) -> bool:
  return not begin.start() and begin[0].lstrip("'\"")[:1] in {*_SKIPPED}
