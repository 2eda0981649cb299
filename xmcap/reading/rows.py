"""Rows of a file of captions, whatever holds them: JSONL, JSON, CSV, text, Parquet or an Excel workbook.

CSV (`.csv`, `.tsv`) and text (`.txt`, or a language as in `train.de`) are known by their suffix, everything else by its
content; so is text with a key in each line.
"""

import contextlib
import dataclasses
import itertools
import os
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.files import strict_json
from xmcap.reading import arrow_files, columns, documents, layouts, tables, workbooks
from xmcap.reading.inputs import MAX_UNPACKED, Input
from xmcap.terminal import shown

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".jsonl", ".json", *DELIMITERS, ".txt", ".parquet", ".xlsx")
PACKED = (".gz", ".bz2", ".xz")
_ARROW = (b"ARRO", b"\xff\xff\xff\xff")  # Arrow's file and stream
_KEYED = re.compile(
  r"([^\s#{\[][^\s#]*)(?:(?:#[^\s#]+)*#\d+|(?i:(?<=\.jpg)|(?<=\.jpeg)|(?<=\.png)))(?:[\t ]+(.*))?"
)
_NAMED = re.compile(r"[^\s,|]+\.(?i:jpe?g|png)\s*[,|].*")
_LINES = 5  # that show what a text is


@dataclasses.dataclass
class Rows:
  """The rows of a file.

  Attributes:
    path, name: the file, and its name in messages.
    place: how messages name a row by its number, such as `line {}`.
    rows: (number, field -> value) of each.
    ordered: whether rows without a key are in the order of the references.
    notes: what was recognised and is not evident; complete when all rows are read.
    images, splits: of a file that lists its images, as in `documents.Document`.
  """

  path: str | os.PathLike
  name: str
  place: str
  rows: Iterator[tuple[int | str, dict[str, Any]]]
  ordered: bool = False
  notes: list[str] = dataclasses.field(default_factory=list)
  images: dict[str, str] | None = None
  splits: dict[str, str] = dataclasses.field(default_factory=dict)

  def where(self, number: int | str) -> str:
    """Returns the place of a row for a message."""
    return f"{self.name}, {self.place.format(number)}"


@contextlib.contextmanager
def opened(path: str | os.PathLike | Input) -> Iterator["Input | Rows"]:
  """Opens a file of captions: a Parquet file or a workbook as its rows, others as `Input`; closes it in the end."""
  if isinstance(path, Input):
    source = path
  elif (columnar := _columnar(path)) is not None:
    yield columnar
    return
  else:
    source = Input(path)
  with source:
    yield source


def of(source: Input | Rows) -> Rows:
  """Returns the rows of an opened file; UsageError, here or while they are read, as `Input`."""
  if isinstance(source, Rows):
    return source
  notes: list[str] = []
  ending = split_name(source.inner)[1]
  if ending in DELIMITERS:
    return Rows(source.path, source.name, "line {}", _of_csv(source, DELIMITERS[ending], notes), True, notes)
  begin = list(filter(None, map(str.strip, source.head.decode("utf-8", "replace").splitlines()[:_LINES])))
  if begin and all(map(_KEYED.fullmatch, begin)):
    return Rows(source.path, source.name, "line {}", _of_keyed_text(source))
  is_json = source.head.lstrip()[:1] in (b"{", b"[")
  if ending == ".txt" or (language_suffix(source.inner) and not is_json):
    if begin and all(map(_NAMED.fullmatch, begin)):
      raise UsageError(
        f"{source.name}: each line begins with the name of a picture; add the first line 'image,caption'"
      )
    if begin and columns.is_header(begin[0]):
      return Rows(source.path, source.name, "line {}", _of_csv(source, ",", notes), notes=notes)
    if not is_json:
      return Rows(source.path, source.name, "line {}", _of_text(source, notes), True, notes)
  if source.head.strip() and not is_json:
    raise UsageError(f"{source.name}: text, not JSON: name it .txt (a caption per line), .csv or .tsv")
  if source.head.lstrip()[:1] == b"[" or documents.is_object(source.head):
    return Rows(source.path, source.name, **vars(documents.of(source.document(), source.name)))
  return Rows(source.path, source.name, "line {}", source.rows())


def split_name(path: str | os.PathLike) -> tuple[str, str]:
  """Returns the name of a file without its suffix, and the suffix in small letters; without that of a compression."""
  stem, ending = os.path.splitext(os.path.basename(path))
  if ending.lower() in PACKED:
    stem, ending = os.path.splitext(stem)
  return stem, ending.lower()


def language_suffix(path: str | os.PathLike) -> str:
  """Returns the language that is the suffix of a name, as in Multi30k's `train.de` and WMT's; "" if it is none."""
  suffix = split_name(path)[1]
  language = languages.canonical(suffix[1:]) if suffix not in ("", *SUFFIXES) else None
  return (
    language if language and (language in languages.LANGUAGES or languages.variety_base(language)) else ""
  )


def _of_text(source: Input, notes: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
  """Reads a caption per line, or several apart by tabs, as sacreBLEU's references."""
  text = source.text()
  lines = text.split("\n" if "\n" in text else "\r")
  if not lines[-1]:
    lines.pop()
  parted = [line.split("\t") for line in lines] if lines and all("\t" in line for line in lines) else []
  if parted and all(cells[0].isascii() and " " not in cells[0].strip() for cells in parted):
    raise UsageError(
      f"{source.name}: each line begins with a key: name it .tsv, with a first line 'image_id', a tab, 'caption'"
    )
  if parted:
    notes.append("several captions a line, apart by tabs")
  for number, line in enumerate(lines, 1):
    several = [cell.strip() for cell in parted[number - 1] if cell.strip()] if parted else []
    yield number, {"caption": several or line.strip()}


def _of_keyed_text(source: Input) -> Iterator[tuple[int, dict[str, str]]]:
  """Reads lines that begin with a key: KEY#N, as Flickr8k's, Flickr30k's and COCO-CN's, or the name of an image."""
  for number, line in source.lines():
    match = _KEYED.fullmatch(line)
    if match is None:
      raise UsageError(
        f"{source.name}, line {number}: no key as on the first lines: write KEY#0, a tab and the caption"
      )
    yield number, {layouts.LINE_KEY: match[1], "caption": match[2] or ""}


def _of_csv(source: Input, delimiter: str, notes: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
  rows = tables.cells(source, delimiter, notes)
  first, headings = next(rows, (1, []))
  if is_oscar(headings):
    notes.append("Oscar's lines: a key, a tab and a list of captions")
    for number, (key, captions) in itertools.chain([(first, headings)], rows):
      yield number, {"image_id": key, "caption": _of_oscar(captions, f"{source.name}, line {number}")}
    return
  headings = _headings(headings, f"{source.name}, line 1")
  for number, cells in rows:
    yield number, _row(headings, cells, f"{source.name}, line {number}")


def is_oscar(first: list[str]) -> bool:
  """Whether the first row of a table is of Oscar's, which have no header: a key and a list of captions as JSON."""
  return len(first) == 2 and first[1].startswith("[{")


def _of_oscar(cell: str, where: str) -> list[Any]:
  """Returns the captions of `[{"caption": ..., "conf": ...}]` (run_captioning.py of microsoft/Oscar)."""
  captions = strict_json.parse(cell.encode(), where)
  if not isinstance(captions, list) or not all(isinstance(caption, dict) for caption in captions):
    raise UsageError(f"{where}: the second cell must be a list of objects with 'caption'")
  return [caption.get("caption") for caption in captions]


def _headings(headings: list[str], where: str) -> list[str]:
  names = [heading.strip() for heading in headings]
  if len(set(names)) < len(names) or not names:
    raise UsageError(f"{where}: the columns are '{shown(', '.join(names))}'; give each another name")
  return names


def _row(headings: list[str], cells: list[Any], where: str) -> dict[str, Any]:
  return {heading: layouts.listed(cell, where) for heading, cell in zip(headings, cells, strict=True)}


def _columnar(path: str | os.PathLike) -> Rows | None:
  """Returns the rows of a Parquet or Arrow file or of the first sheet of a workbook; None for other files."""
  if not os.path.isfile(path):
    return None
  try:
    with open(path, "rb") as file:
      magic = file.read(4)
      if magic in (b"PAR1", *_ARROW):
        return Rows(path, str(path), "row {}", _of_columnar(path))
      if magic != b"PK\x03\x04" or not zipfile.is_zipfile(file):
        return None
      with zipfile.ZipFile(file) as archive:
        members = {member.filename: member.file_size for member in archive.infolist()}
  except (OSError, zipfile.BadZipFile):
    return None  # `Input` says why it cannot be read
  if "xl/workbook.xml" not in members:
    return None
  if sum(members.values()) > MAX_UNPACKED:
    raise UsageError(f"{path}: over {MAX_UNPACKED >> 20} MiB when decompressed; save the sheet as CSV UTF-8")
  notes: list[str] = []
  return Rows(path, str(path), "row {}", _of_workbook(path, notes), notes=notes)


def _of_columnar(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
  # Without images, which are large.
  for number, (_, row) in enumerate(arrow_files.rows(path, but=("image",), most=MAX_UNPACKED)):
    yield number, row


def _of_workbook(path: str | os.PathLike, notes: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
  sheet = workbooks.rows(path, notes)
  first, header = next(sheet, (1, []))
  headings = _headings(list(map(str, header)), f"{path}, row {first}")
  for number, cells in sheet:
    yield number, _row(headings, cells, f"{path}, row {number}")
