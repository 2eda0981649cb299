"""TFDS's metadata of a folder of records, read and written without TFDS, which imports TensorFlow.

  dataset_info.json   name, splits, records of each file; JSON of the message DatasetInfo in TFDS's dataset_info.proto
  features.json       the columns of a record, in which TFDS finds its classes; nothing here reads it

Both files have the bytes that tensorflow-datasets 4.9.10 writes. Parts of splits have the meaning of
https://www.tensorflow.org/datasets/splits.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import json_format

from xmcap.data.array_records.messages import define
from xmcap.errors import XmcapError, one_line
from xmcap.files import addresses

NAME = "dataset_info.json"
"""The file that marks a folder as a corpus."""

FEATURES = "features.json"

_LARGEST = 64 << 20  # bytes of metadata; a file of records takes some 10
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"

# Without statistics, checksums and whatever else is of no use here. JSON has no field numbers.
_INFO = """
name: "xmcap/dataset_info.proto" package: "xmcap.tfds" syntax: "proto3"
message_type {
  name: "Location"
  field { name: "urls" number: 1 type: TYPE_STRING label: LABEL_REPEATED }
}
message_type {
  name: "SplitInfo"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "num_bytes" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "shard_lengths" number: 3 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "filepath_template" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL }
}
message_type {
  name: "DatasetInfo"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "description" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "version" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "file_format" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "location" number: 5 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".xmcap.tfds.Location" }
  field { name: "splits" number: 6 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".xmcap.tfds.SplitInfo" }
}
"""
_DatasetInfo: Any = define(_INFO)["xmcap.tfds.DatasetInfo"]


@dataclasses.dataclass(frozen=True)
class TfdsSplit:
  """A split: the names of its files, in order, the number of records of each, and the bytes of all records."""

  files: tuple[str, ...]
  shard_lengths: tuple[int, ...]
  num_bytes: int

  @property
  def records(self) -> int:
    return sum(self.shard_lengths)


class ShardPart(NamedTuple):
  """`count` records of the file `shard` of a split, from its record `skip` on."""

  split: str
  shard: int
  skip: int
  count: int


@dataclasses.dataclass(frozen=True)
class Metadata:
  """The metadata of a folder: the name of the corpus, and its splits in the order of the file."""

  name: str
  splits: Mapping[str, TfdsSplit]

  def parts(self, text: str) -> list[ShardPart]:
    """Returns the parts of files that make up a split, or a sum of parts of splits such as `train[:10%]+test[5:]`.

    ValueError if TFDS would not accept it; percentages are rounded as there, to the closest record.
    """
    asked = [text] if text in self.splits else re.split(r"\s*\+\s*", text)
    return [part for one in asked for part in self._parts(one)]

  def _parts(self, text: str) -> Iterator[ShardPart]:
    if text in self.splits:
      name, selector = text, None
    else:
      form = re.fullmatch(r"([\w-]+)(?:\[([\d\w%:.-]+)\])?", text)
      if form is None:
        raise ValueError(
          f"'{text}' is not a part of a split: write it as train, train[:1000] or train[10%:20%]"
        )
      name, selector = form.groups()
    if name not in self.splits:
      raise ValueError(f"there is no split '{name}'")
    split = self.splits[name]
    first, stop = (0, split.records) if selector is None else _range(selector, split)
    begin = 0
    for shard, length in enumerate(split.shard_lengths):
      skip, end = max(first - begin, 0), min(stop - begin, length)
      if skip < end:
        yield ShardPart(name, shard, skip, end - skip)
      begin += length


def _range(selector: str, split: TfdsSplit) -> tuple[int, int]:
  """Returns the range of records of a selector: `A:B` in records, percent (10%) or files (3shard), or one file."""
  bounds = [re.fullmatch(r"(?:(-?[\d_.]+)(%|shard)?)?", bound) for bound in selector.split(":")]
  values = [bound and bound[1] for bound in bounds]
  units = {bound[2] for bound in bounds if bound and bound[2]}
  if len(bounds) > 2 or None in bounds or not any(values) or len(units) > 1:
    raise ValueError(f"[{selector}] is not a range: write it as [:1000] or [10%:20%]")
  unit = units.pop() if units else ""
  if len(bounds) == 1:
    if unit != "shard":
      raise ValueError(f"[{selector}] is one number: write a range, such as [:{selector}]")
    values.append(str(int(values[0] or 0) + 1))
  first, stop = (None if value is None else (float if unit == "%" else int)(value) for value in values)
  total = split.records
  if unit == "%":
    if max(abs(first or 0), abs(stop or 0)) > 100:
      raise ValueError(f"[{selector}] is beyond 100%")
    first, stop = (None if value is None else round(value * total / 100.0) for value in (first, stop))
  elif unit == "shard":
    lengths = split.shard_lengths
    first = None if first is None else sum(lengths[: int(first)])
    if stop is not None:
      stop = sum(lengths[: int(stop) if stop > 0 else len(lengths) + int(stop)])
  first, stop = int(first or 0), total if stop is None else int(stop)
  if abs(first) > total or abs(stop) > total:
    raise ValueError(f"[{selector}] is beyond its {total:,} records")
  first, stop = first + total * (first < 0), stop + total * (stop < 0)
  if first > stop:  # TFDS reads something else
    raise ValueError(f"[{selector}] ends before it begins")
  return first, stop


def read(directory: addresses.Address) -> Metadata | None:
  """Reads the metadata of a folder or a bucket's; None if it has none, XmcapError if it is damaged.

  Unknown fields are ignored, and names of files are those of the template in the file, without its folder.
  """
  address = addresses.join(directory, NAME)
  if not addresses.is_file(address):
    return None
  try:
    data = addresses.read_bytes(address, _LARGEST + 1)
    if len(data) > _LARGEST:
      raise ValueError(f"over {_LARGEST >> 20} MB")
    info = json_format.Parse(data, _DatasetInfo(), ignore_unknown_fields=True)
    splits: dict[str, TfdsSplit] = {}
    for split in info.splits:
      if split.name in splits or not any(letter.isalnum() for letter in split.name):
        raise ValueError(f"the split '{split.name}' occurs twice, or is no name")
      lengths = tuple(split.shard_lengths)
      if any(length < 0 for length in lengths):
        raise ValueError(f"a file of split '{split.name}' has fewer than 0 records")
      names = _names(
        split.filepath_template or _TEMPLATE, info.name, split.name, info.file_format, len(lengths)
      )
      splits[split.name] = TfdsSplit(names, lengths, split.num_bytes)
    listed = [name for split in splits.values() for name in split.files]
    if len(set(listed)) < len(listed):
      raise ValueError("its templates give two files one name")
    return Metadata(info.name, splits)
  except XmcapError:
    raise
  except (OSError, ValueError, RecursionError, json_format.Error) as error:
    raise XmcapError(f"cannot read {address}: {one_line(error)}") from None


def file_name(dataset: str, split: str, shard: int, shards: int, file_format: str = "array_record") -> str:
  """The name of a file of records."""
  return _name(_TEMPLATE, dataset, split, file_format, shard, shards)


def _names(template: str, dataset: str, split: str, file_format: str, shards: int) -> tuple[str, ...]:
  """Returns the names of all files of a split, sorted, as TFDS sorts them."""
  made = (
    _name(template, dataset, split, file_format or "tfrecord", shard, shards) for shard in range(shards)
  )
  return tuple(sorted(os.path.basename(name) for name in made))


def _name(template: str, dataset: str, split: str, file_format: str, shard: int, shards: int) -> str:
  digits = max(5, len(str(shards)))
  index, of = f"{shard:0{digits}d}", f"{shards:0{digits}d}"
  fields = {
    "DATASET": dataset,
    "SPLIT": split,
    "FILEFORMAT": file_format,
    "SHARD_INDEX": index,
    "NUM_SHARDS": of,
    "SHARD_X_OF_Y": f"{index}-of-{of}",
  }
  # Not str.format, which can be told to make a string of any length.
  parts = re.split(r"\{([^{}]*)\}", template)
  if unknown := [name for name in parts[1::2] if not fields.get(name)]:
    raise ValueError(f"Could not format template {template}: {{{unknown[0]}}} is unknown")
  return "".join(fields[part] if place % 2 else part for place, part in enumerate(parts))


def info_json(
  splits: Sequence[tuple[str, Sequence[int], int]],
  *,
  dataset: str,
  version: str,
  description: str,
  homepage: str,
) -> bytes:
  """Returns `dataset_info.json`; each split is (name, records of each file, bytes of all records)."""
  info = _DatasetInfo()
  info.name, info.version, info.description = dataset, version, description
  info.file_format = "array_record"
  info.location.urls.append(homepage)
  for name, lengths, num_bytes in splits:
    info.splits.add(name=name, shard_lengths=lengths, num_bytes=num_bytes, filepath_template=_TEMPLATE)
  return json_format.MessageToJson(info, sort_keys=True).encode()


def features_json() -> bytes:
  """Returns `features.json` of a record; `tfds_builders.features` is the same in TFDS's classes."""
  text = _feature("text_feature.Text", "text", {})

  def columns(*names: str) -> dict[str, Any]:
    return _feature("features_dict.FeaturesDict", "featuresDict", {"features": dict.fromkeys(names, text)})

  def sequence(feature: Mapping[str, Any]) -> dict[str, Any]:
    return _feature("sequence_feature.Sequence", "sequence", {"feature": feature, "length": "-1"})

  image = {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}}
  record = columns("image/key", "image/locale")
  record["featuresDict"]["features"] |= {
    "image": _feature("image_feature.Image", "image", image),
    "captions": sequence(columns("language", "text", "text_tokenized", "source")),
    "tags": sequence(text),
    "tags_by_language": sequence(columns("language", "tag")),
  }
  return json.dumps(record, indent=4, sort_keys=True).encode()


def _feature(class_name: str, field: str, content: Mapping[str, Any]) -> dict[str, Any]:
  return {"pythonClassName": f"tensorflow_datasets.core.features.{class_name}", field: content}
