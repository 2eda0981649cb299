"""Reads rows of tables: Parquet, Hugging Face's Arrow, and texts; images in their cells go into one tar file."""

import base64
import functools
import json
import pathlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import fields, split_choice, text_files
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.recognition import recognise
from xmcap.corpora.folder.table import FILE_LANGUAGE, ColumnNames, Placed, SourceFile, TableRoles
from xmcap.errors import DamagedError
from xmcap.reading import arrow_files
from xmcap.reading import columns as column_names
from xmcap.reading.packed import Packed

SUFFIXES = (".parquet", ".arrow")
_TURN = ({"from", "value"}, {"role", "content"})  # of a conversation
_OF_SPLIT = re.compile(r"([A-Za-z_]+)-\d{5}-of-\d{5}")


def read(
  files: Sequence[SourceFile], columns: ColumnNames, source: str, problems: Problems, packed: Packed
) -> tuple[TableRoles, Iterator[RecordFields]]:
  """Returns the table and the rows of files; adds their embedded images to `packed`, as the row's `image`.

  If the names of the files say the language, the images of a key are one. Of several files, a damaged one costs its own
  rows, and is a problem.

  UsageError if pyarrow is missing, the only file is damaged, its images take far more room than the file, or the images
  of a key in several languages differ.
  """
  table, placed = recognise(_placed(files, problems), columns, source)
  return table, _packed(placed, table, problems, packed, table.language == FILE_LANGUAGE)


def _placed(files: Sequence[SourceFile], problems: Problems) -> Iterator[Placed]:
  for place, file in enumerate(files):
    is_text = file.path.suffix.lower() not in SUFFIXES
    folder, split = posixpath.dirname(file.name), _split_of(file.path, file.name)
    if is_text:  # the names of several texts may name splits
      split = file.name if len(files) > 1 else ""
    try:
      for number, row in enumerate(text_files.read(file, problems) if is_text else _rows(file)):
        row.fields.update(file.fields)
        yield Placed(row.where, row.fields, (place, number, folder, split))
    except DamagedError as error:
      if len(files) == 1:
        raise
      problems.add("truncated", file.name, f"the rest of the file is lost: {error}")


def _rows(file: SourceFile) -> Iterator[Placed]:
  for number, (metadata, values) in enumerate(arrow_files.rows(file.path)):
    yield Placed(f"{file.name}, row {number:,}", _with_labels(metadata, values))


def _packed(
  placed: Iterator[Placed], table: TableRoles, problems: Problems, packed: Packed, is_shared: bool
) -> Iterator[RecordFields]:
  for where, values, (place, number, folder, split) in placed:
    cell = values.get(table.image)
    data, named = _picture(cell)
    name = f"{place:05d}-{number:09d}" if data else ""
    key = values.get(table.key) if table.key else None
    own = str(key) if isinstance(key, int | str) and key != "" else named
    if data and is_shared and own:
      name = packed.once(own, name, data, where)
    elif data:
      name = packed.add(name, data, where)
    # Relative to its own file of captions, which comes before others.
    beside = named if "://" in named else named and posixpath.join(folder, named)
    # Several images are left as they are, to be refused with their number.
    values[table.image] = name if data else cell if isinstance(cell, list) and len(cell) > 1 else beside
    row = fields.parse(values, where, table, problems)
    if row is not None:
      row.key = own if data else ""
      row.file = split
      row.names += [named] if named else []
      yield row


def _with_labels(metadata: Mapping[bytes, bytes], row: dict[str, Any]) -> dict[str, Any]:
  """Returns a row with the names of classes, and with conversations as lists of turns.

  `datasets` stores a ClassLabel as a number, and its names in the schema; before version 4 it also stored a list of
  objects as an object of lists.
  """
  for column, feature in _labels(metadata.get(b"huggingface", b"")).items():
    row[column] = _named_classes(row.get(column), feature)
  for column, value in row.items():
    if isinstance(value, dict) and any(value.keys() >= pair for pair in _TURN):
      row[column] = _as_list(value)
  return row


@functools.lru_cache(maxsize=1)
def _labels(about: bytes) -> dict[str, Any]:
  """Returns column -> feature of the columns with classes; {} for a file that `datasets` did not write."""
  try:
    features = json.loads(about)["info"]["features"]
    return {column: feature for column, feature in features.items() if "ClassLabel" in json.dumps(feature)}
  except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
    return {}


def _named_classes(value: Any, feature: Any) -> Any:
  """Replaces the numbers of classes in a value, at any depth, by their names; None for an unknown number."""
  if isinstance(feature, list) and len(feature) == 1:  # a short form of Sequence
    feature = {"feature": feature[0]}
  if not isinstance(feature, dict):
    return value
  if feature.get("_type") == "ClassLabel":
    names = feature.get("names")
    if not isinstance(names, list) or isinstance(value, str):
      return value
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
  inner = feature.get("feature")
  if isinstance(value, list):
    return [_named_classes(item, inner or feature) for item in value]
  if isinstance(value, dict):
    of_name = inner if isinstance(inner, dict) and "_type" not in inner else feature
    return {name: _named_classes(item, of_name.get(name)) for name, item in value.items()}
  return value


def _as_list(value: dict[str, Any]) -> Any:
  """Returns an object of lists of one length as a list of objects; another value unchanged."""
  lengths = {len(items) if isinstance(items, list) else -1 for items in value.values()}
  if len(lengths) != 1 or -1 in lengths:
    return value
  return [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]


def _split_of(path: pathlib.Path, known_as: str) -> str:
  """Returns the split that a file's name or folder says, as Hugging Face names them; "" if none.

  Such are `data/train-00000-of-00002.parquet`, `train/data-00000-of-00001.arrow`, `default/train/0000.parquet` and
  `train.parquet`.
  """
  if (match := _OF_SPLIT.match(path.name)) and match[1] not in languages.LANGUAGES:
    return path.parent.name if match[1] == "data" else match[1]
  *folders, name = known_as.split("/")
  parts = (*folders, re.split("[-_.]", name)[0])
  return next((part for part in parts if split_choice.is_name(part.lower())), "")


def _picture(value: Any) -> tuple[bytes, str]:
  """Returns the bytes in a cell, and the name of the image; both may be empty."""
  if isinstance(value, list) and len(value) == 1:
    (value,) = value
  data, named = value, value
  if isinstance(value, dict):
    data, named = value.get("bytes"), value.get("path")
  if isinstance(data, str) and column_names.is_base64(data):
    try:
      data, named = base64.b64decode("".join(data.rpartition(",")[2].split()), validate=True), ""
    except ValueError:
      data, named = b"?", ""  # no picture, and so a counted problem
  return data if isinstance(data, bytes) else b"", fields.one(named)
