"""Reads rows of Parquet files and of Hugging Face `datasets` folders (Arrow); their pictures go into one tar file."""

import io
import json
import pathlib
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap import extras
from xmcap.data.corpora.folder import fields, split_choice
from xmcap.data.corpora.folder.fields import Row
from xmcap.data.corpora.folder.recognition import recognise
from xmcap.data.corpora.folder.table import Columns, Placed, Table
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError, one_line

SUFFIXES = (".parquet", ".arrow")
_BATCH = 64  # rows, including pictures, in memory at a time
_TURN = ({"from", "value"}, {"role", "content"})  # of a conversation
_OF_SPLIT = re.compile(r"([A-Za-z_]+)-\d{5}-of-\d{5}")


def read(
  paths: Mapping[pathlib.Path, str],
  columns: Columns,
  source: str,
  problems: Problems,
  packed: tarfile.TarFile,
) -> tuple[Table, Iterator[Row]]:
  """Returns the table and the rows of files; adds their embedded pictures to `packed`, as the row's `picture`.

  `paths` maps each file to its path relative to the common folder, for messages and for pictures beside the file.
  UsageError if pyarrow is missing, or a file is damaged.
  """
  table, placed = recognise(_placed(paths), columns, source, keyed=True)
  return table, _packed(placed, table, problems, packed)


def _placed(paths: Mapping[pathlib.Path, str]) -> Iterator[Placed]:
  for place, (path, known_as) in enumerate(paths.items()):
    origin = posixpath.dirname(known_as), _split_of(path, known_as)
    try:
      for number, values in enumerate(_rows(path)):
        yield Placed(f"{known_as}, row {number:,}", values, (f"{place:05d}-{number:09d}", *origin))
    except UsageError:
      raise
    except (OSError, ValueError, MemoryError) as error:  # pyarrow's errors are OSErrors or ValueErrors too
      raise UsageError(f"{path}: cannot be read ({one_line(error)}): make it again") from None


def _packed(
  placed: Iterator[Placed], table: Table, problems: Problems, packed: tarfile.TarFile
) -> Iterator[Row]:
  for where, values, (name, folder, split) in placed:
    cell = values.get(table.picture)
    data, named = _picture(cell)
    if data:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      packed.addfile(entry, io.BytesIO(data))
    beside = named and posixpath.join(folder, named)
    # Several pictures are left as they are, to be refused with their number.
    picture = name if data else cell if isinstance(cell, list) and len(cell) > 1 else beside
    row = fields.parse({**values, table.picture: picture}, where, table, problems)
    if row is not None:
      held = values.get(table.key) if table.key else None
      own = str(held) if isinstance(held, int | str) and held != "" else named
      row.key = own if data else ""
      row.split = row.split or split
      yield row


def _rows(path: pathlib.Path) -> Iterator[dict[str, Any]]:
  try:
    import pyarrow as pa
    import pyarrow.parquet as pq
  except ImportError:
    raise UsageError(f"{path}: Parquet and Arrow need pyarrow: {extras.install('parquet')}") from None
  if path.suffix.lower() == ".parquet":
    with pq.ParquetFile(path) as file:
      for batch in file.iter_batches(_BATCH):
        yield from _with_labels(batch)
    return
  with pa.memory_map(str(path)) as source:
    try:
      batches = iter(pa.ipc.open_stream(source))
    except pa.ArrowInvalid:  # Arrow's other format
      file = pa.ipc.open_file(source)
      batches = map(file.get_batch, range(file.num_record_batches))
    for batch in batches:
      for start in range(0, batch.num_rows, _BATCH):
        yield from _with_labels(batch.slice(start, _BATCH))


def _with_labels(batch: Any) -> Iterator[dict[str, Any]]:
  """Yields the rows of a batch with the names of classes, and with conversations as lists of turns.

  `datasets` stores a ClassLabel as a number, and its names in the schema; before version 4 it also stored a list of
  objects as an object of lists.
  """
  try:
    features = json.loads(batch.schema.metadata[b"huggingface"])["info"]["features"]
    labels = {column: about for column, about in features.items() if "ClassLabel" in json.dumps(about)}
  except (TypeError, KeyError, ValueError, AttributeError):  # not written by `datasets`
    labels = {}
  for row in batch.to_pylist():
    for column, feature in labels.items():
      row[column] = _named_classes(row.get(column), feature)
    for column, value in row.items():
      if isinstance(value, dict) and any(value.keys() >= pair for pair in _TURN):
        row[column] = _as_list(value)
    yield row


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
  if match := _OF_SPLIT.match(path.name):
    return path.parent.name if match[1] == "data" else match[1]
  *folders, name = known_as.split("/")
  parts = (*folders, re.split("[-_.]", name)[0])
  return next((part for part in parts if split_choice.is_name(part.lower())), "")


def _picture(value: Any) -> tuple[bytes, str]:
  """Returns the bytes in a cell, and the name of the picture; both may be empty."""
  if isinstance(value, list) and len(value) == 1:
    (value,) = value
  data, named = value, value
  if isinstance(value, dict):
    data, named = value.get("bytes"), value.get("path")
  return data if isinstance(data, bytes) else b"", fields.one(named)
