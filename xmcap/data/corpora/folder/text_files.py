"""Reads rows of JSONL, CSV and TSV, and of JSON: COCO's annotations, Karpathy's lists, or a list of objects."""

import csv
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from xmcap.data.corpora import line_check
from xmcap.data.corpora.folder import fields
from xmcap.data.corpora.folder.fields import Columns, Row
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError
from xmcap.scoring.reading import layouts
from xmcap.scoring.reading.inputs import Input
from xmcap.terminal import shown

TABLES = (".csv", ".tsv")
_MAX_HEADER = 1 << 16
_DELIMITERS = ",;\t"
_UNDECODED = re.compile("[\udc80-\udcff]")  # how `surrogateescape` reads bytes that are not UTF-8

_Placed = tuple[str, dict[str, Any]]
"""The place of a line, row or object, for messages, and its fields."""


def read(path: pathlib.Path, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
  """Yields the rows of a file, called `name` in messages; UsageError if it cannot be read or is malformed."""
  if path.suffix.lower() in TABLES:
    found = _of_table(path, name, problems)
  else:
    found = _of_json(path, name, problems)
  for where, values in found:
    row = fields.parse(values, where, columns, problems)
    if row is not None:
      yield row


def _of_json(path: pathlib.Path, name: str, problems: Problems) -> Iterator[_Placed]:
  with Input(path) as source:
    if layouts.is_annotations(source.head) or layouts.is_results(source.head):
      yield from _of_document(source.document(), name, problems)
      return
    for _, where, line in line_check.filled(source.raw_lines(), name, problems):
      values = line_check.parse_object(line, where, problems)
      if values is not None:
        yield where, values


def _of_document(document: Any, name: str, problems: Problems) -> Iterator[_Placed]:
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
      yield where, values
    else:
      problems.add("missing_field", where, "not an object")


def _of_annotations(document: dict[str, Any], name: str, problems: Problems) -> Iterator[_Placed]:
  """Yields COCO's annotations, with the file name of the picture instead of its id."""
  images, annotations = document.get("images"), document["annotations"]
  if not isinstance(images, list) or not isinstance(annotations, list):
    raise UsageError(f"{name}: 'images' and 'annotations' must be lists, as in COCO's JSON")
  names = {}
  for place, image in enumerate(images):
    about = image if isinstance(image, dict) else {}
    if isinstance(about.get("id"), int | str) and isinstance(about.get("file_name"), str):
      names[about["id"]] = about["file_name"]
    else:
      problems.add("missing_field", f"{name}, images[{place}]", "no 'id' or no 'file_name'")
  for place, annotation in enumerate(annotations):
    where = f"{name}, annotations[{place}]"
    id = annotation.get("image_id") if isinstance(annotation, dict) else None
    if not isinstance(id, int | str):
      problems.add("missing_field", where, "no 'image_id'")
    elif id not in names:
      problems.add("unknown_id", where, f"image_id {shown(id, 40)} is not among the images")
    else:
      rest = {key: value for key, value in annotation.items() if key not in ("id", "image_id")}
      yield where, {"file_name": names[id], **rest}


def _of_table(path: pathlib.Path, name: str, problems: Problems) -> Iterator[_Placed]:
  begin = 1
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
        if not any(map(str.strip, cells)):
          continue
        if len(cells) != len(names):
          problems.add("missing_field", where, f"{len(cells)} columns, but the header has {len(names)}")
        elif any(map(_UNDECODED.search, cells)):
          problems.add("bad_utf8", where, "save the table as UTF-8")
        else:
          yield where, dict(zip(names, cells, strict=True))
  except csv.Error as error:
    raise UsageError(f"{path}, line {begin:,}: {error}: fix the quotes") from None
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
