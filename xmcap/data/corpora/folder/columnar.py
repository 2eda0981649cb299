"""Reads rows of Parquet files and of Hugging Face `datasets` folders (Arrow); their pictures go into one tar file."""

import dataclasses
import io
import json
import pathlib
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.data.corpora.folder import fields
from xmcap.data.corpora.folder.fields import Columns, Row
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError, one_line

SUFFIXES = (".parquet", ".arrow")
_BATCH = 64  # rows, including pictures, in memory at a time
_OF_SPLIT = re.compile(r"([A-Za-z_]+)-\d{5}-of-\d{5}")


def read(
  paths: Mapping[pathlib.Path, str], columns: Columns, problems: Problems, packed: tarfile.TarFile
) -> Iterator[Row]:
  """Yields the rows of files, and adds their embedded pictures to `packed`, under the name in the row's `picture`.

  `paths` maps each file to its path relative to the common folder, for messages and for pictures beside the file.
  UsageError if pyarrow is missing, or a file is damaged.
  """
  for place, (path, known_as) in enumerate(paths.items()):
    split = _split_of(path)
    try:
      for number, values in enumerate(_rows(path)):
        where = f"{known_as}, row {number:,}"
        image = fields.named(values, columns.image, (), where) or _image_of(values)
        data, named = _picture(values.get(image))
        name = f"{place:05d}-{number:09d}"
        if data:
          entry = tarfile.TarInfo(name)
          entry.size = len(data)
          packed.addfile(entry, io.BytesIO(data))
        asked = dataclasses.replace(columns, image=image)
        beside = named and posixpath.join(posixpath.dirname(known_as), named)
        row = fields.parse({**values, image: name if data else beside}, where, asked, problems)
        if row is not None:
          row.key = _key_of(values, named) if data else ""
          row.split = row.split or split
          yield row
    except UsageError:
      raise
    except (OSError, ValueError, MemoryError) as error:  # pyarrow's errors are OSErrors or ValueErrors too
      raise UsageError(f"{path}: cannot be read ({one_line(error)}): make it again") from None


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


def _image_of(values: dict[str, Any]) -> str:
  """Returns the first column with embedded pictures, else the usual column of picture names."""
  for name, value in values.items():
    if isinstance(value, bytes) or (isinstance(value, dict) and value.keys() == {"bytes", "path"}):
      return name
  return fields.named(values, "", fields.IMAGES, "") or "image"


def _picture(value: Any) -> tuple[bytes, str]:
  """Returns the bytes in a cell, and the name of the picture; both may be empty."""
  data, named = value, value
  if isinstance(value, dict):
    data, named = value.get("bytes"), value.get("path")
  return data if isinstance(data, bytes) else b"", fields.one(named)


def _key_of(values: dict[str, Any], named: str) -> str:
  found = next((values[name] for name in ("key", "__key__", "image_id", "id") if name in values), None)
  return str(found) if isinstance(found, int | str) and found != "" else named
