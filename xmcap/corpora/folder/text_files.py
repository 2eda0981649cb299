"""Reads rows of JSONL, CSV and TSV, of Flickr's lines, and of JSON: COCO's, Karpathy's, or a list of objects."""

import csv
import pathlib
import re
from collections.abc import Iterator
from typing import Any, TextIO

from xmcap.corpora.building import line_check
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import kinds
from xmcap.corpora.folder.table import Placed
from xmcap.errors import UsageError
from xmcap.files import paths
from xmcap.reading import documents, layouts, matching, rows, tables
from xmcap.reading.inputs import MAX_LINE, Input
from xmcap.terminal import shown

TABLES = (".csv", ".tsv")
LINES = (".txt", ".token")
_MAX_HEADER = 1 << 16
_DELIMITERS = ",;\t|"
_UNDECODED = re.compile("[\udc80-\udcff]")  # how `surrogateescape` reads bytes that are not UTF-8


def read(path: pathlib.Path, name: str, problems: Problems) -> Iterator[Placed]:
  """Yields the fields of a file, called `name` in messages; UsageError if it cannot be read or is malformed."""
  if path.suffix.lower() in LINES:
    return _of_lines(path, name)
  return (_of_table if path.suffix.lower() in TABLES else _of_json)(path, name, problems)


def _of_lines(path: pathlib.Path, name: str) -> Iterator[Placed]:
  """Reads the texts of Flickr8k and Flickr30k, as `xmcap score` does: lines with a key, or a table."""
  with Input(path) as source:
    content = rows.of(source)
    if content.ordered:
      raise UsageError(
        f"{path}: captions without their pictures: write NAME.jpg, a tab and a caption on each line"
      )
    for number, row in content.rows:
      key = row.pop(layouts.LINE_KEY, None)
      yield Placed(f"{name}, line {number}", row if key is None else {"image": key, **row})


def _of_json(path: pathlib.Path, name: str, problems: Problems) -> Iterator[Placed]:
  with Input(path) as source:
    if documents.is_annotations(source.head) or source.head.lstrip()[:1] == b"[":
      yield from _of_document(source.document(), name, problems)
      return
    for _, where, line in line_check.filled(source.raw_lines(), name, problems):
      values = line_check.parse_object(line, where, problems)
      if values is not None:
        yield Placed(where, values)


def _of_document(document: Any, name: str, problems: Problems) -> Iterator[Placed]:
  if isinstance(document, dict) and "annotations" in document:
    yield from _of_annotations(document, name, problems)
    return
  part, objects = ("", document) if isinstance(document, list) else (", images", document.get("images"))
  if not isinstance(objects, list):
    raise UsageError(
      f"{name}: neither COCO annotations nor a list of objects: give JSONL, CSV or COCO's JSON"
    )
  for place, values in enumerate(objects):
    where = f"{name}{part}[{place}]"
    if isinstance(values, dict):
      yield Placed(where, values)
    else:
      problems.add("missing_field", where, "not an object")


def _of_annotations(document: dict[str, Any], name: str, problems: Problems) -> Iterator[Placed]:
  """Yields COCO's annotations, with the file name of the picture instead of its id."""
  images, annotations = document.get("images"), document["annotations"]
  if not isinstance(images, list) or not isinstance(annotations, list):
    raise UsageError(f"{name}: 'images' and 'annotations' must be lists, as in COCO's JSON")
  names = _Ids()
  for place, image in enumerate(images):
    about = image if isinstance(image, dict) else {}
    id = _id(about.get("id"))
    if id is not None and isinstance(about.get("file_name"), str):
      names.add(id, about["file_name"])
    else:
      problems.add("missing_field", f"{name}, images[{place}]", "no 'id' or no 'file_name'")
  for place, annotation in enumerate(annotations):
    where = f"{name}, annotations[{place}]"
    written = annotation.get("image_id") if isinstance(annotation, dict) else None
    id = _id(written)
    if id is None:
      problems.add("missing_field", where, f"no 'image_id', or one that is no id: {shown(written, 40)}")
    elif (file_name := names.get(id)) is None:
      first = images[0].get("id") if images and isinstance(images[0], dict) else None
      kind, other = type(written).__name__, type(first).__name__
      detail = f"image_id {shown(written, 40)} ({kind}) is not among the images, such as {shown(first, 40)} ({other})"
      problems.add("unknown_id", where, detail)
    else:
      rest = {key: value for key, value in annotation.items() if key not in ("id", "image_id")}
      yield Placed(where, {"file_name": file_name, **rest})


class _Ids:
  """File names by id; 5, 5.0, "5" and "0005" are the same id unless several images have ids so alike."""

  def __init__(self):
    self._exact: dict[str, str] = {}
    self._bare: dict[str, str | None] = {}

  def add(self, id: str, name: str) -> None:
    if id not in self._exact:
      self._bare[matching.bare(id)] = None if matching.bare(id) in self._bare else name
    self._exact[id] = name

  def get(self, id: str) -> str | None:
    return self._exact.get(id) or self._bare.get(matching.bare(id))


def _id(written: object) -> str | None:
  """Returns an id as a string, as `xmcap score` reads it: 5 and 5.0 are `5`; None if it is no id."""
  if isinstance(written, float) and written.is_integer():
    written = int(written)
  is_id = isinstance(written, int | str) and not isinstance(written, bool)
  return str(written) if is_id else None


def _of_table(path: pathlib.Path, name: str, problems: Problems) -> Iterator[Placed]:
  begin = 1
  try:
    paths.check_file(path)
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
      header = file.readline(_MAX_HEADER)
      if "\0" in header or header.startswith("\udcff\udcfe"):
        raise UsageError(f"{path}: not UTF-8: save the table as `CSV UTF-8`")
      delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=header.count)
      # Quotation marks are characters in the tables of CC3M, WIT (.tsv) and Flickr30k (`|`).
      style = csv.QUOTE_NONE if delimiter == "|" or path.suffix.lower() == ".tsv" else csv.QUOTE_MINIMAL
      names = [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter, quoting=style), [])]
      _check_header(names, f"{path}, line 1")
      begin = 2
      reader = csv.reader(
        _lines(file, path), delimiter=delimiter, quoting=style, skipinitialspace=delimiter == "|", strict=True
      )
      for cells in reader:
        where = f"{name}, line {begin:,}"
        if reader.line_num + 1 > begin and tables.swallowed(cells, delimiter):
          raise UsageError(
            f"{path}, line {begin:,}: a quotation mark opens here and swallows the lines up to "
            f"{reader.line_num + 1:,}: close it, or double it if it is part of the text"
          )
        begin = reader.line_num + 2  # a quoted caption may span several lines
        if not any(map(str.strip, cells)):
          continue
        if len(cells) != len(names):
          problems.add("missing_field", where, f"{len(cells)} columns, but the header has {len(names)}")
        elif any(map(_UNDECODED.search, cells)):
          problems.add("bad_utf8", where, "save the table as UTF-8")
        else:
          yield Placed(where, dict(zip(names, cells, strict=True)))
  except csv.Error as error:
    mark = "a quotation mark opens here and is not closed: close it, or double it if it is part of the text"
    reason = mark if "unexpected end" in str(error) else f"{error}: fix the quotes"
    raise UsageError(f"{path}, line {begin:,}: {reason}") from None
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _lines(file: TextIO, path: pathlib.Path) -> Iterator[str]:
  """Yields lines, none of which is read whole if it is too long."""
  while line := file.readline(MAX_LINE + 1):
    if len(line) > MAX_LINE:
      raise UsageError(f"{path}: a line of over {MAX_LINE >> 20} MiB: mend or remove it")
    yield line


def _check_header(names: list[str], where: str) -> None:
  """Raises UsageError if the first line has no names of columns, or is a row."""
  if len(names) < 2 or len(set(names)) < len(names):
    raise UsageError(
      f"{where}: give the names of at least two columns, all different, separated by , ; | or tabs"
    )
  values = [name for name in names if kinds.kind_of(name) in (kinds.PICTURE_FILES, "addresses")]
  if values:
    raise UsageError(
      f"{where}: is a row, not the names of columns ('{shown(values[0], 40)}'): put a line above it, such as "
      "file,caption"
    )
