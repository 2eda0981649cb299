"""Reads and checks fields of users' files; an error is one line that names the place."""

import collections
import json
import os
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from xmcap.errors import UsageError
from xmcap.reading import joining, jsonl, tables
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

Row = TypeVar("Row")

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_TEXT = 10_000
_LARGEST = 1e12  # so that squares and sums stay finite

ALL = "all"
"""In place of an annotator: the row of everybody."""


def text(row: Mapping[str, Any], name: str, where: str, blank: bool = False) -> str:
  """Returns a string of a row; UsageError if it is missing, not a string, too long, or blank unless `blank`."""
  value = _member(row, name, where)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{name}' is {shown(json.dumps(value))}; it must be a string")
  if not blank and not value.strip():
    raise UsageError(f"{where}: '{name}' is empty; give it a value")
  if len(value) > _LONGEST_TEXT:
    raise UsageError(f"{where}: '{name}' has {len(value):,} characters; at most {_LONGEST_TEXT:,} are read")
  return value


def person(row: Mapping[str, Any], name: str, where: str, blank: bool = False) -> str:
  """Returns the name of a rater as the pages write it, so that one person is not two; UsageError as `text`."""
  return tidy(text(row, name, where, blank))


MAX_NAME = 100
"""Characters of the name of a rater or annotator that can be typed on a page."""


def tidy(name: str) -> str:
  """Returns a name in Unicode's form NFC with single spaces, as `tidy` of page.js."""
  return " ".join(unicodedata.normalize("NFC", name).split())


def alike(people: Iterable[str]) -> list[str]:
  """Returns a note on people whose names differ in nothing but case or width, if there are some."""
  spellings: dict[str, list[str]] = collections.defaultdict(list)
  for name in sorted(set(people)):
    spellings[folded(name)].append(name)
  groups = [" and ".join(map(shown, names)) for names in spellings.values() if len(names) > 1]
  return [f"counted as different people: {'; '.join(groups)}"] if groups else []


def folded(name: str) -> str:
  """Returns what names have in common that differ in case or width, as some file systems and spreadsheets see them."""
  return unicodedata.normalize("NFKC", name).casefold()


def texts(row: Mapping[str, Any], name: str, where: str) -> list[str]:
  """Returns a non-empty list of strings of a row; UsageError if it is anything else."""
  value = row.get(name)
  if not isinstance(value, list) or not value or not all(isinstance(string, str) for string in value):
    raise UsageError(f"{where}: '{name}' must be a list of one or more strings")
  return value


def number(row: Mapping[str, Any], name: str, where: str) -> float:
  """Returns a number of a JSON row; UsageError if it is missing, not a number, a boolean, not finite, or too large."""
  value = _member(row, name, where)
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise UsageError(f"{where}: '{name}' is {shown(json.dumps(value))}; it must be a number")
  if not abs(value) <= _LARGEST:
    raise UsageError(f"{where}: '{name}' is not a finite number up to {_LARGEST:g}; correct it")
  return float(value)


def written_number(row: Mapping[str, str], name: str, where: str) -> float:
  """Returns a number of a CSV row; raises as `number`."""
  value = _member(row, name, where)
  if not _NUMBER.fullmatch(value.strip()):
    raise UsageError(f"{where}: '{name}' is '{shown(value)}'; it must be a number such as -0.25")
  return number({name: float(value)}, name, where)


def rows(
  paths: joining.Paths, required: Sequence[str], as_csv: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
  """Yields (place, row) of files of ratings, one after the other: JSONL or, `as_csv`, CSV if the name ends in `.csv`.

  UsageError for a file without rows, whose message names the `required` fields, and as `read_csv`.
  """
  for path in joining.listed(paths):
    is_csv = as_csv and str(path).lower().endswith(".csv")
    is_empty = True
    for line, row in read_csv(path, required)[1] if is_csv else jsonl.read(path):
      is_empty = False
      yield f"{path}, line {line}", row
    if is_empty:
      raise UsageError(f"{path}: contains no ratings; each line must have {', '.join(required)}")


def grouped(rows: Iterable[Row], name: Callable[[Row], str]) -> dict[str, list[Row]]:
  """Returns the rows by their names, sorted by name."""
  groups: dict[str, list[Row]] = collections.defaultdict(list)
  for row in rows:
    groups[name(row)].append(row)
  return dict(sorted(groups.items()))


def once(seen: dict[Any, str], key: Hashable, where: str, event: str) -> None:
  """Records the place of a key; UsageError with both places if the key occurred before."""
  if key in seen:
    raise UsageError(f"{where}: {event} before ({seen[key]}); keep one")
  seen[key] = where


def read_csv(
  path: str | os.PathLike, required: Sequence[str]
) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
  """Reads a UTF-8 CSV file with a header line; skips empty lines. Cells are apart by commas, or else by semicolons.

  Returns the columns, `required` and others, and (number of its first line, {column: text}) for each row.
  Raises UsageError with file and line if the file is malformed.
  """
  with Input(path) as source:
    rows = tables.cells(source)
    _, header = next(rows, (1, []))
    columns = [column.strip() for column in header]
    numbers = collections.Counter(columns)
    for name in [*required, *columns]:
      if numbers[name] != 1:
        raise UsageError(
          f"{path}, line 1: {numbers[name]} columns are named '{shown(name)}'; the header needs exactly one each "
          f"of {', '.join(required)}"
        )
    return columns, [(number, dict(zip(columns, cells, strict=True))) for number, cells in rows]


def _member(row: Mapping[str, Any], name: str, where: str) -> Any:
  if name not in row:
    raise UsageError(f"{where}: no '{name}'; add it")
  return row[name]
