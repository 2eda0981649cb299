"""Reads rows of JSONL, CSV and TSV, of Flickr's lines, and of JSON: COCO's, Karpathy's, or a list of objects."""

import itertools
from collections.abc import Iterator
from typing import Any

from xmcap.corpora.building import line_check
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import by_line, kinds
from xmcap.corpora.folder.table import Placed, SourceFile
from xmcap.errors import UsageError
from xmcap.reading import columns, documents, layouts, matching, rows, tables
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

LINES = (".txt", ".token")
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", *LINES, ".xlsx", ".xlsm", ".zip", ".tar.gz", ".tgz")
"""Of the files that `read` reads, each also with a suffix of `rows.PACKED`."""


def read(file: SourceFile, problems: Problems) -> Iterator[Placed]:
  """Yields the fields of each row of a file; UsageError if it cannot be read or is malformed."""
  name = file.name
  with rows.opened(file.path) as source:
    ending = rows.split_name(source.inner)[1] if isinstance(source, Input) else ""
    if isinstance(source, Input) and ending in rows.DELIMITERS:
      yield from _of_table(source, rows.DELIMITERS[ending], name, problems)
    elif isinstance(source, Input) and ending in (".json", ".jsonl"):
      yield from _of_json(source, ending, name, problems)
    else:
      content = rows.of(source)
      yield from by_line.read(content, file) if content.ordered else _of_rows(content, name)


def _of_rows(content: rows.Rows | documents.Document, name: str) -> Iterator[Placed]:
  """Yields rows as `xmcap score` reads them, such as the lines of Flickr8k and Flickr30k."""
  for number, row in content.rows:
    key = row.pop(layouts.LINE_KEY, None)
    yield Placed(f"{name}, {content.place.format(number)}", row if key is None else {"image": key, **row})


def _of_json(source: Input, ending: str, name: str, problems: Problems) -> Iterator[Placed]:
  # A JSONL may have a single line, which looks like an object of captions.
  if source.head.lstrip()[:1] == b"[" or (ending == ".json" and documents.is_object(source.head)):
    yield from _of_document(source.document(), name, problems)
    return
  for _, where, line in line_check.filled(source.raw_lines(), name, problems):
    values = line_check.parse_object(line, where, problems)
    if values is not None:
      yield Placed(where, values)


def _of_document(document: Any, name: str, problems: Problems) -> Iterator[Placed]:
  images_member, captions_member, *_ = documents.tables(document) if isinstance(document, dict) else ("", "")
  if isinstance(document, list):
    part, objects = "", document
  elif captions_member in document and images_member in document:
    yield from _of_annotations(document, name, problems)
    return
  elif captions_member in document:  # RedCaps, and COCO's captions by the ids of its pictures
    part, objects = f", {captions_member}", document[captions_member]
  else:
    part, objects = ", images", document.get("images")
  if not isinstance(objects, list):
    yield from _of_rows(documents.of(document, name), name)
    return
  for place, values in enumerate(objects):
    where = f"{name}{part}[{place}]"
    if isinstance(values, dict):
      yield Placed(where, values)
    else:
      problems.add("missing_field", where, "not an object")


def _of_annotations(document: dict[str, Any], name: str, problems: Problems) -> Iterator[Placed]:
  """Yields annotations as COCO's and MSR-VTT's, with the name of the image instead of its id."""
  images_member, captions_member, id_field, key_field = documents.tables(document)
  images, annotations = document.get(images_member), document[captions_member]
  if not isinstance(images, list) or not isinstance(annotations, list):
    raise UsageError(f"{name}: '{images_member}' and '{captions_member}' must be lists, as in COCO's JSON")
  images_by_id = _Images()
  for place, image in enumerate(images):
    fields = image if isinstance(image, dict) else {}
    id = layouts.plain_id(fields.get(id_field))
    file_name = documents.file_name(fields) or (id if id_field == "video_id" else "")
    if id is not None and file_name:
      split = {"split": fields["split"]} if "split" in fields else {}
      images_by_id.add(id, {"file_name": file_name, **split})
    else:
      problems.add("missing_field", f"{name}, {images_member}[{place}]", f"no '{id_field}' or no 'file_name'")
  for place, annotation in enumerate(annotations):
    where = f"{name}, {captions_member}[{place}]"
    written = annotation.get(key_field) if isinstance(annotation, dict) else None
    id = layouts.plain_id(written)
    if id is None:
      problems.add("missing_field", where, f"no '{key_field}', or one that is no id: {shown(written, 40)}")
    elif (image_fields := images_by_id.get(id)) is None:
      first = images[0].get(id_field) if images and isinstance(images[0], dict) else None
      kind, other = type(written).__name__, type(first).__name__
      detail = f"{key_field} {shown(written, 40)} ({kind}) is not among the {images_member}"
      problems.add("unknown_id", where, f"{detail}, such as {shown(first, 40)} ({other})")
    else:
      rest = {key: value for key, value in annotation.items() if key not in ("id", key_field)}
      yield Placed(where, {**image_fields, **rest})


class _Images:
  """Fields of images by id; 5, 5.0, "5" and "0005" are the same id unless several images have ids so alike."""

  def __init__(self):
    self._exact: dict[str, dict[str, Any]] = {}
    self._bare: dict[str, dict[str, Any] | None] = {}

  def add(self, id: str, image: dict[str, Any]) -> None:
    if id not in self._exact:
      self._bare[matching.bare(id)] = None if matching.bare(id) in self._bare else image
    self._exact[id] = image

  def get(self, id: str) -> dict[str, Any] | None:
    return self._exact.get(id) or self._bare.get(matching.bare(id))


def _of_table(source: Input, delimiter: str, name: str, problems: Problems) -> Iterator[Placed]:
  def where(number: int) -> str:
    return f"{name}, line {number:,}"

  lines = tables.cells(
    source, delimiter, on_fault=lambda kind, number, fault: problems.add(kind, where(number), fault)
  )
  first, header = next(lines, (1, []))
  if rows.is_oscar(header):
    names, lines = ["image_id", "caption"], itertools.chain([(first, header)], lines)
  else:
    names = list(map(str.strip, header))
    _check_header(names, f"{source.name}, line {first}")
  for number, cells in lines:
    yield Placed(where(number), dict(zip(names, cells, strict=True)))


def _check_header(names: list[str], where: str) -> None:
  """Raises UsageError if the first line has no names of columns, or is a row."""
  if any(map(columns.is_base64, names)):
    raise UsageError(
      f"{where}: is a row with a picture in base64, not the names of columns: put a line of names above it, such as "
      "id, caption, image"
    )
  values = [name for name in names if kinds.kind_of(name) in (kinds.PICTURE_FILES, kinds.ADDRESSES)]
  if values:
    raise UsageError(
      f"{where}: is a row, not the names of columns ('{shown(values[0], 40)}'): put a line above it, such as "
      "file,caption"
    )
  if len(names) < 2 or len(set(names)) < len(names):
    raise UsageError(
      f"{where}: give the names of at least two columns, all different, separated by , ; | or tabs"
    )
