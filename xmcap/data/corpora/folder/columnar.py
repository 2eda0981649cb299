"""Reads rows of Parquet files and of Hugging Face `datasets` folders (Arrow); their pictures go into one tar file."""

import io
import json
import pathlib
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.data.corpora.folder import fields
from xmcap.data.corpora.folder.fields import Row
from xmcap.data.corpora.folder.table import Columns, Placed, Table, recognise
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError, one_line

SUFFIXES = (".parquet", ".arrow")
_BATCH = 64  # rows, including pictures, in memory at a time
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
    origin = posixpath.dirname(known_as), _split_of(path)
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
    data, named = _picture(values.get(table.picture))
    if data:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      packed.addfile(entry, io.BytesIO(data))
    beside = named and posixpath.join(folder, named)
    row = fields.parse({**values, table.picture: name if data else beside}, where, table, problems)
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
    raise UsageError(f"{path}: Parquet and Arrow need pyarrow: pip install pyarrow") from None
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
  """Yields the rows of a batch; replaces class numbers of `datasets` (ClassLabel) by their names."""
  try:
    features = json.loads(batch.schema.metadata[b"huggingface"])["info"]["features"]
    classes = {column: about for column, about in features.items() if about.get("_type") == "ClassLabel"}
    labels = {column: list(about["names"]) for column, about in classes.items()}
  except (TypeError, KeyError, ValueError, AttributeError):  # not written by `datasets`
    labels = {}
  for row in batch.to_pylist():
    for column, names in labels.items():
      number = row.get(column)
      row[column] = names[number] if isinstance(number, int) and 0 <= number < len(names) else None
    yield row


def _split_of(path: pathlib.Path) -> str:
  """Returns `train` for `data/train-00000-of-00002.parquet` and for `train/data-00000-of-00001.arrow`."""
  match = _OF_SPLIT.match(path.name)
  if match is None:
    return ""
  return path.parent.name if match[1] == "data" else match[1]


def _picture(value: Any) -> tuple[bytes, str]:
  """Returns the bytes in a cell, and the name of the picture; both may be empty."""
  data, named = value, value
  if isinstance(value, dict):
    data, named = value.get("bytes"), value.get("path")
  return data if isinstance(data, bytes) else b"", fields.one(named)
