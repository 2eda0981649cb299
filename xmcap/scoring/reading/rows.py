"""Rows of a file of captions, whatever holds them: JSONL, JSON, CSV, text, Parquet or an Excel workbook.

CSV (`.csv`, `.tsv`) and text (`.txt`) are known by their suffix, everything else by its content; so is text with a key
in each line.
"""

import contextlib
import dataclasses
import json
import os
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from xmcap import extras
from xmcap.errors import UsageError, one_line
from xmcap.scoring.reading import arrow_files, layouts
from xmcap.scoring.reading.inputs import MAX_UNPACKED, Input
from xmcap.terminal import shown

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".jsonl", ".json", *DELIMITERS, ".txt", ".parquet", ".xlsx")
_PACKED = (".gz", ".bz2")
_NAME = re.compile(r'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:')
_KEYED = re.compile(
  r"([^\s#{\[][^\s#]*)(?:(?:#[^\s#]+)*#\d+|(?i:(?<=\.jpg)|(?<=\.jpeg)|(?<=\.png)))(?:[\t ]+(.*))?"
)
_NAMED = re.compile(r"[^\s,|]+\.(?i:jpe?g|png)\s*[,|].*")
_LINES = 5  # that show what a text is
_IDS = ("image/key", "key", "image_id", "id", "custom_id", "doc_id", "index")
_FIELDS = (*_IDS, "language", "caption", "captions")


@dataclasses.dataclass
class Rows:
  """The rows of a file.

  Attributes:
    path, name: the file, and its name in messages.
    place: how messages name a row by its number, such as `line {}`.
    rows: (number, field -> value) of each.
    ordered: whether rows without a key are in the order of the references.
  """

  path: str | os.PathLike
  name: str
  place: str
  rows: Iterator[tuple[int | str, dict[str, Any]]]
  ordered: bool = False

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
  ending = split_name(source.path)[1]
  if ending in DELIMITERS:
    return Rows(source.path, source.name, "line {}", _of_csv(source, DELIMITERS[ending]), ordered=True)
  begin = list(filter(None, map(str.strip, source.head.decode("utf-8", "replace").splitlines()[:_LINES])))
  if begin and all(map(_KEYED.fullmatch, begin)):
    return Rows(source.path, source.name, "line {}", _of_keyed_text(source))
  if ending == ".txt" and begin and all(map(_NAMED.fullmatch, begin)):
    raise UsageError(
      f"{source.name}: each line begins with the name of a picture; add the first line 'image,caption'"
    )
  if ending == ".txt" and begin and layouts.is_header(begin[0]):
    return Rows(source.path, source.name, "line {}", _of_csv(source, ","))
  if ending == ".txt" and source.head.lstrip()[:1] not in (b"{", b"["):
    return Rows(source.path, source.name, "line {}", _of_text(source), ordered=True)
  if layouts.is_results(source.head):
    return Rows(source.path, source.name, "results[{}]", _of_list(source))
  if _is_mapping(source.head):
    return Rows(source.path, source.name, "'{}'", _of_mapping(source))
  return Rows(source.path, source.name, "line {}", source.rows())


def split_name(path: str | os.PathLike) -> tuple[str, str]:
  """Returns the name of a file without its suffix, and the suffix; that of its compression counts for neither."""
  stem, ending = os.path.splitext(os.path.basename(path))
  return os.path.splitext(stem) if ending in _PACKED else (stem, ending)


def _of_text(source: Input) -> Iterator[tuple[int, dict[str, str]]]:
  lines = source.text().split("\n")
  if not lines[-1]:
    lines.pop()
  for number, line in enumerate(lines, 1):
    yield number, {"caption": line.strip()}


def _of_keyed_text(source: Input) -> Iterator[tuple[int, dict[str, str]]]:
  """Reads lines that begin with a key: KEY#N, as Flickr8k's, Flickr30k's and COCO-CN's, or the name of a picture."""
  for number, line in source.lines():
    found = _KEYED.fullmatch(line)
    if found is None:
      raise UsageError(
        f"{source.name}, line {number}: no key as on the first lines: write KEY#0, a tab and the caption"
      )
    yield number, {layouts.LINE_KEY: found[1], "caption": found[2] or ""}


def _of_csv(source: Input, delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
  rows = source.csv(delimiter)
  _, headings = next(rows, (1, []))
  if len(set(headings)) < len(headings) or not headings:
    listed = shown(", ".join(headings))
    raise UsageError(f"{source.name}, line 1: the columns are '{listed}'; give each another name")
  for number, cells in rows:
    yield number, dict(zip(headings, cells, strict=True))


def _of_list(source: Input) -> Iterator[tuple[int, dict[str, Any]]]:
  for number, row in enumerate(source.document()):
    if not isinstance(row, dict):
      raise UsageError(f"{source.name}, results[{number}]: must be an object")
    yield number, row


def _of_mapping(source: Input) -> Iterator[tuple[str, dict[str, Any]]]:
  document = source.document()
  if not isinstance(document, dict) or not all(map(_is_caption, document.values())):
    raise UsageError(
      f"{source.name}: JSON of no known layout, with the members '{shown(', '.join(document))}'; give JSONL of "
      "image/key, language and caption, COCO's JSON, or {id: caption}"
    )
  for key, value in document.items():
    yield shown(key), {"id": key, "caption": value}


def _is_mapping(head: bytes) -> bool:
  """Whether the first bytes show one JSON object, id -> caption, rather than a line of JSONL."""
  found = _NAME.match(head.decode("utf-8", "replace"))
  if found is None or found[1] in _FIELDS or found[1].startswith("image/"):
    return False
  line, _, rest = head.strip().partition(b"\n")
  try:
    row = json.loads(line)
  except (ValueError, RecursionError):
    return b'"image/key"' not in head  # it goes on: below, or behind the first bytes
  if rest or not isinstance(row, dict) or not row.keys().isdisjoint(_FIELDS):
    return False
  return all(map(_is_caption, row.values()))


def _is_caption(value: object) -> bool:
  """Whether a value of an object of id and caption is captions, or a failed request in place of one."""
  return isinstance(value, str | list | None) or (isinstance(value, dict) and "error" in value)


def _columnar(path: str | os.PathLike) -> Rows | None:
  """Returns the rows of a Parquet file or of the first sheet of a workbook; None for other files."""
  if not os.path.isfile(path):
    return None
  try:
    with open(path, "rb") as file:
      magic = file.read(4)
      if magic == b"PAR1":
        return Rows(path, str(path), "row {}", _of_parquet(path))
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
  return Rows(path, str(path), "row {}", _of_workbook(path))


def _of_parquet(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
  # Captions alone: pictures are large.
  for number, (_, row) in enumerate(arrow_files.rows(path, but=("image",), most=MAX_UNPACKED)):
    yield number, row


def _of_workbook(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
  try:
    import python_calamine
  except ImportError:
    raise UsageError(
      f"{path}: workbooks need python-calamine: save the sheet as CSV UTF-8, or {extras.install('xlsx')}"
    ) from None
  try:
    sheet = (
      python_calamine.load_workbook(os.fspath(path)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    )
  except (python_calamine.CalamineError, OSError, ValueError) as error:
    raise UsageError(f"{path}: cannot be read ({one_line(error)}); save the sheet as CSV UTF-8") from None
  headings = [str(cell) for cell in sheet[0]] if sheet else []
  if len(set(headings)) < len(headings) or not headings:
    raise UsageError(f"{path}, row 1: the columns are '{shown(', '.join(headings))}'; give each another name")
  for number, cells in enumerate(sheet[1:], 2):
    if any(cell != "" for cell in cells):
      yield number, dict(zip(headings, cells, strict=True))
