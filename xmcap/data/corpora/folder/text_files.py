"""Reads rows of JSONL, CSV and TSV, and of JSON: COCO's annotations, Karpathy's lists, or a list of objects."""

import csv
import pathlib
from collections.abc import Iterator
from typing import Any

from xmcap.data.corpora import line_check
from xmcap.data.corpora.folder import fields
from xmcap.data.corpora.folder.fields import Columns, Row
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError
from xmcap.scoring import layouts
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

TABLES = (".csv", ".tsv")
_MAX_HEADER = 1 << 16
_DELIMITERS = ",;\t"


def read(path: pathlib.Path, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
  """Yields the rows of a file, called `name` in messages; UsageError if it cannot be read or is malformed."""
  if path.suffix.lower() in TABLES:
    yield from _of_table(path, name, columns, problems)
    return
  with Input(path) as source:
    if layouts.is_annotations(source.head) or layouts.is_results(source.head):
      yield from _of_document(source.document(), name, columns, problems)
    else:
      yield from _of_lines(source, name, columns, problems)


def _of_lines(source: Input, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
  for _, where, line in line_check.filled(source.raw_lines(), name, problems):
    values = line_check.parse_object(line, where, problems)
    row = None if values is None else fields.parse(values, where, columns, problems)
    if row is not None:
      yield row


def _of_document(document: Any, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
  if isinstance(document, dict) and "annotations" in document:
    rows = _of_annotations(document, name, problems)
  else:
    part, member = ("", document) if isinstance(document, list) else (", images", document.get("images"))
    if not isinstance(member, list):
      raise UsageError(
        f"{name}: neither COCO annotations nor a list of objects: give JSONL, CSV or COCO's JSON"
      )
    rows = ((f"{name}{part}[{place}]", values) for place, values in enumerate(member))
  for where, values in rows:
    if not isinstance(values, dict):
      problems.add("missing_field", where, "not an object")
      continue
    row = fields.parse(values, where, columns, problems)
    if row is not None:
      yield row


def _of_annotations(document: dict[str, Any], name: str, problems: Problems) -> Iterator[tuple[str, Any]]:
  """Yields (place, fields) of COCO's annotations, with the file name of the picture instead of its id."""
  images, annotations = document.get("images"), document["annotations"]
  if not isinstance(images, list) or not isinstance(annotations, list):
    raise UsageError(f"{name}: 'images' and 'annotations' must be lists, as in COCO's JSON")
  names = {}
  for place, image in enumerate(images):
    if isinstance(image, dict) and isinstance(image.get("file_name"), str):
      names[image.get("id")] = image["file_name"]
    else:
      problems.add("missing_field", f"{name}, images[{place}]", "no 'file_name'")
  for place, annotation in enumerate(annotations):
    where = f"{name}, annotations[{place}]"
    if not isinstance(annotation, dict) or not isinstance(annotation.get("image_id"), int | str):
      problems.add("missing_field", where, "no 'image_id'")
    elif annotation["image_id"] not in names:
      problems.add(
        "unknown_id", where, f"image_id {shown(str(annotation['image_id']), 40)} is not among the images"
      )
    else:
      rest = {key: value for key, value in annotation.items() if key not in ("id", "image_id")}
      yield where, {"file_name": names[annotation["image_id"]], **rest}


def _of_table(path: pathlib.Path, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
  try:
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
      header = file.readline(_MAX_HEADER)
      if "\0" in header or header.startswith("\udcff\udcfe"):
        raise UsageError(f"{path}: not UTF-8: save the table as `CSV UTF-8`")
      delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=header.count)
      names = next(csv.reader([header], delimiter=delimiter), [])
      if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(f"{path}, line 1: give the names of at least two columns, all different")
      begin = 2
      reader = csv.reader(file, delimiter=delimiter, strict=True)
      for cells in reader:
        where = f"{name}, line {begin:,}"
        begin = reader.line_num + 2  # a quoted caption may span several lines
        row = _of_cells(names, cells, where, columns, problems) if any(map(str.strip, cells)) else None
        if row is not None:
          yield row
  except csv.Error as error:
    raise UsageError(f"{path}, line {begin:,}: {error}: fix the quotes") from None
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _of_cells(
  names: list[str], cells: list[str], where: str, columns: Columns, problems: Problems
) -> Row | None:
  if len(cells) != len(names):
    problems.add("missing_field", where, f"{len(cells)} columns, but the header has {len(names)}")
    return None
  values = dict(zip(names, cells, strict=True))
  try:
    "".join(cells).encode()
  except UnicodeEncodeError:
    problems.add("bad_utf8", where, "save the table as UTF-8")
    return None
  return fields.parse(values, where, columns, problems)
