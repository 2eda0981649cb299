"""The record: one image with all its captions, in every language, stored once.

Records are `tf.train.Example` protocol buffers in ArrayRecord files beside TFDS's metadata, so
`tfds.builder_from_directory(DIR)` reads them like any other dataset, and `RecordSource` reads any of
them by its index without TensorFlow. A folder of records holds

  DIR/DATASET-SPLIT.array_record-00000-of-00015   the records
  DIR/dataset_info.json, DIR/features.json        TFDS's metadata, written by `record_writer.write_metadata`
  DIR/tags.txt                                    the names of the classes seen in pictures, one a line
"""

import dataclasses
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow_datasets as tfds
from google.protobuf import json_format

from xmcap import languages
from xmcap.data.array_records.local import RecordFiles, first_line
from xmcap.data.example import Example
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import addresses, files
from xmcap.terminal import shown

SOURCES = ("human", "mt")
"""Where a caption comes from: written by a person, or machine translated."""

FEATURES = tfds.features.FeaturesDict(
  {
    "image/key": tfds.features.Text(),
    "image/locale": tfds.features.Text(),
    "image": tfds.features.Image(shape=(None, None, 3)),
    "captions": tfds.features.Sequence(
      {
        "language": tfds.features.Text(),
        "text": tfds.features.Text(),
        "text_tokenized": tfds.features.Text(),
        "source": tfds.features.Text(),
      }
    ),
    "tags": tfds.features.Sequence(tfds.features.Text()),
  }
)
"""What TFDS is told about a record. The image's bytes are stored as released."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_METADATA = "dataset_info.json"
_MAX_METADATA = 64 << 20  # bytes; a shard takes some 10

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class Caption:
  """One caption: a language's code, the text, its tokens joined by spaces (or ""), and its source."""

  language: str
  text: str
  text_tokenized: str = ""
  source: str = "human"


@dataclasses.dataclass(slots=True)
class Record:
  """One image with all its captions.

  Attributes:
    key: name of the image, unique in its split; letters, digits, and `_.-` inside.
    image: the bytes as released, JPEG or PNG.
    captions: in the order of the release; a language may have none, one or many.
    tags: names of the classes seen in the picture, in reading order; empty where unknown.
    locale: the locale that the picture was taken for (XM3600), or "".
  """

  key: str
  image: bytes
  captions: list[Caption]
  tags: list[str] = dataclasses.field(default_factory=list)
  locale: str = ""


def check(record: Record) -> None:
  """Raises XmcapError, naming the record's key and field, if the record is not a valid one."""
  if not _KEY.fullmatch(record.key):
    raise XmcapError(
      f"record key '{shown(record.key)}' is not a safe name: use up to 128 letters, digits, and '_.-' inside"
    )
  if not record.image.startswith(_IMAGE_STARTS):
    raise XmcapError(f"record {record.key}: image is neither JPEG nor PNG ({len(record.image)} bytes)")
  for number, caption in enumerate(record.captions):
    where = f"record {record.key}, caption {number} ({shown(caption.language)})"
    if caption.language not in languages.LANGUAGES:
      raise XmcapError(f"{where}: unknown language; the codes are {' '.join(languages.LANGUAGES)}")
    if not caption.text.strip():
      raise XmcapError(f"{where}: the text is empty; leave out captions that do not exist")
    if caption.source not in SOURCES:
      raise XmcapError(f"{where}: source '{shown(caption.source)}' is none of {', '.join(SOURCES)}")
  for tag in record.tags:
    if not tag.strip() or "\n" in tag:
      raise XmcapError(f"record {record.key}: tag '{shown(tag)}' is empty or holds a line break")


def serialize(record: Record) -> bytes:
  """A record as a tf.train.Example, laid out as TFDS lays out FEATURES; equal records, equal bytes."""
  example = Example()
  feature = example.features.feature
  captions = record.captions
  feature["image/key"].bytes_list.value.append(record.key.encode())
  feature["image/locale"].bytes_list.value.append(record.locale.encode())
  feature["image"].bytes_list.value.append(record.image)
  feature["captions/language"].bytes_list.value.extend([c.language.encode() for c in captions])
  feature["captions/text"].bytes_list.value.extend([c.text.encode() for c in captions])
  feature["captions/text_tokenized"].bytes_list.value.extend([c.text_tokenized.encode() for c in captions])
  feature["captions/source"].bytes_list.value.extend([c.source.encode() for c in captions])
  feature["tags"].bytes_list.value.extend([tag.encode() for tag in record.tags])
  return example.SerializeToString(deterministic=True)


def as_example(record: Record) -> dict[str, Any]:
  """A record as the nested dictionary that TFDS encodes by FEATURES."""
  captions = [dataclasses.asdict(caption) for caption in record.captions]
  return {
    "image/key": record.key,
    "image/locale": record.locale,
    "image": record.image,
    "captions": captions,
    "tags": record.tags,
  }


def parse(serialized: bytes) -> Record:
  """The inverse of `serialize`; ValueError where the bytes hold no record."""
  try:
    feature = Example.FromString(serialized).features.feature

    def texts(name: str) -> list[str]:
      return list(map(bytes.decode, feature[name].bytes_list.value))

    return Record(
      key=feature["image/key"].bytes_list.value[0].decode(),
      image=feature["image"].bytes_list.value[0],
      captions=list(
        map(
          Caption,
          texts("captions/language"),
          texts("captions/text"),
          texts("captions/text_tokenized"),
          texts("captions/source"),
        )
      ),
      tags=texts("tags"),
      locale=feature["image/locale"].bytes_list.value[0].decode(),
    )
  except Exception as error:
    raise ValueError(f"not a record: {error}") from error


@dataclasses.dataclass(slots=True)
class Columns:
  """What the stream needs of a record, its captions column by column and not decoded: there may be hundreds.

  Attributes:
    key, image: as in `Record`.
    layout: equal for records with equal `languages`, to know them by without a look at each.
    languages: the code of each caption.
    texts: the text of each caption, UTF-8.
  """

  key: str
  image: bytes
  layout: bytes
  languages: Sequence[bytes]
  texts: Sequence[bytes]


def parse_columns(serialized: bytes) -> Columns:
  """`parse`, several times faster where few captions of many are wanted; ValueError where the bytes hold no record."""
  try:
    feature = Example.FromString(serialized).features.feature
    languages_feature = feature["captions/language"]
    languages_of = languages_feature.bytes_list.value
    texts = feature["captions/text"].bytes_list.value
    if len(languages_of) != len(texts):
      raise ValueError(f"{len(languages_of)} languages for {len(texts)} captions")
    key, image = (feature[name].bytes_list.value[0] for name in ("image/key", "image"))
    layout = languages_feature.SerializeToString(deterministic=True)
    return Columns(key.decode(), image, layout, languages_of, texts)
  except Exception as error:
    raise ValueError(f"not a record: {error}") from error


def read_tags(directory: addresses.Address) -> list[str]:
  """Reads `tags.txt`; UsageError if the corpus has none, XmcapError if a class is named twice."""
  path = addresses.join(directory, "tags.txt")
  try:
    tags = addresses.read_text(path).splitlines()
  except FileNotFoundError:
    raise UsageError(f"{path} is absent: the corpus has no tags to learn; build it or name another") from None
  except (OSError, UnicodeDecodeError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}") from None
  seen: set[str] = set()
  for number, tag in enumerate(tags, start=1):
    if not tag.strip() or tag in seen:
      raise XmcapError(f"{path}, line {number}: class '{shown(tag)}' is empty or named twice")
    seen.add(tag)
  return tags


@dataclasses.dataclass(frozen=True)
class Stretch:
  """Records of a whole split that follow one another: `count` of them, from the `first` on."""

  split: str
  first: int
  count: int


class RecordSource:
  """The records of a split, any of them by its index; cheap to make, safe in threads, picklable.

  Args:
    directory: folder that holds TFDS's metadata and the ArrayRecord files: a path or an address (`gs://...`).
    split: a split, or a part of one in TFDS's notation, such as `train[:1000]`.

  Attributes:
    directory, split: the arguments.
    stretches: where in whole splits its records are.
    sizes: of each of these splits, `shard_lengths` (records of each file) and `bytes`, to know its records by.

  Raises:
    UsageError: the folder is no corpus, or has no such split, or the split is empty.
    XmcapError: a file of the split is absent or damaged (when it is opened or read).
  """

  def __init__(self, directory: addresses.Address, split: str = "train"):
    self.directory = os.fspath(directory)
    self.split = split
    info = _info(self.directory)
    if info is None:
      raise UsageError(
        f"{directory} is no corpus (dataset_info.json is absent): `xmcap data build` makes one"
      )
    if split.split("[")[0].strip() not in info.splits:
      known = ", ".join(sorted(info.splits)) or "none"
      raise UsageError(f"{directory} has no split '{split}'; its splits: {known}")
    try:
      instructions = info.splits[split].file_instructions
    except (ValueError, AssertionError) as error:
      raise UsageError(f"split '{split}' of {directory}: {first_line(error)}") from None
    self.stretches, self.sizes = _whole_splits(info.splits, instructions)
    self._skips = np.array([part.skip for part in instructions], np.int64)
    self._ends = np.cumsum(
      [part.take if part.take >= 0 else part.examples_in_shard - part.skip for part in instructions],
      dtype=np.int64,
    )
    if not instructions or not self._ends[-1]:
      raise UsageError(f"split '{split}' of {directory} is empty")
    names = [os.path.basename(part.filename) for part in instructions]
    present = set(addresses.names(directory))
    absent = [name for name in names if name not in present]
    files = [addresses.join(directory, name) for name in names]
    if absent:
      raise XmcapError(
        f"{addresses.join(directory, absent[0])} is absent ({len(absent)} of {len(names)} files): "
        f"build {directory} again"
      )
    self._files = _record_files(files, self.directory)

  def __len__(self) -> int:
    return int(self._ends[-1])

  def __getitem__(self, index: int) -> Record:
    """The record at an index in [0, len); IndexError outside it."""
    return self.read([index])[0]

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), 256):
      yield from self.iterate(range(start, min(start + 256, len(self))))

  def iterate(self, indices: Sequence[int], parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """The records at `indices`, in their order, each read when it is asked for; those of a bucket are read ahead.

    Args:
      indices: each in [0, len); IndexError outside it.
      parse: makes what is returned out of a record's bytes: `parse` or `parse_columns`.
    """
    indices = np.asarray(indices, np.int64).reshape(-1)
    if indices.size and (indices.min() < 0 or indices.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    shards = np.searchsorted(self._ends, indices, side="right")
    starts = self._ends[shards] - np.diff(self._ends, prepend=0)[shards]
    positions = indices - starts + self._skips[shards]
    yield from self._files.iterate(shards.tolist(), positions.tolist(), parse)

  def read(self, indices: Sequence[int], parse: Callable[[bytes], T] = parse) -> list[T]:
    """The records that `iterate` gives, all at once."""
    return list(self.iterate(indices, parse))


def _record_files(files: Sequence[str], directory: str) -> Any:
  if not addresses.is_remote(directory):
    return RecordFiles(files, directory)
  from xmcap.data.array_records.remote import RemoteRecordFiles  # loads what compiles, which takes seconds

  return RemoteRecordFiles(files, directory)


def _whole_splits(
  known: Mapping[str, Any], instructions: Sequence[Any]
) -> tuple[list[Stretch], dict[str, dict[str, Any]]]:
  """`stretches` and `sizes` of a `RecordSource`, from TFDS's splits and file instructions."""
  firsts = {
    os.path.basename(path): (name, sum(info.shard_lengths[:number]))
    for name, info in known.items()
    for number, path in enumerate(info.filepaths)
  }
  stretches = []
  for part in instructions:
    name, first = firsts[os.path.basename(part.filename)]
    count = part.take if part.take >= 0 else part.examples_in_shard - part.skip
    stretches.append(Stretch(name, first + part.skip, count))
  sizes = {
    name: {"shard_lengths": list(known[name].shard_lengths), "bytes": int(known[name].num_bytes)}
    for name in {stretch.split for stretch in stretches}
  }
  return stretches, sizes


def splits(directory: addresses.Address) -> list[str]:
  """The names of the record splits in a folder, in alphabetical order; [] where there are none."""
  info = _info(os.fspath(directory))
  return [] if info is None else sorted(info.splits)


def _info(directory: str) -> tfds.core.DatasetInfo | None:
  """TFDS's metadata of a folder; None if it has none.

  TFDS reads a copy, for it knows few kinds of addresses, and with our own features beside it: it would import the
  modules that a `features.json` names.
  """
  address = addresses.join(directory, _METADATA)
  if not addresses.is_file(address):
    return None
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    try:
      text = addresses.read_bytes(address)
      if len(text) > _MAX_METADATA:
        raise ValueError(f"over {_MAX_METADATA >> 20} MB")
      files.write_bytes(pathlib.Path(folder, _METADATA), text)
      FEATURES.save_config(folder)
      info = tfds.builder_from_directory(folder).info
      for split in info.splits.values():
        _ = split.filepaths  # made of a template in the metadata
      return info
    except (
      ValueError,
      KeyError,
      TypeError,
      AttributeError,
      OSError,
      RecursionError,
      json_format.ParseError,
    ) as error:
      raise XmcapError(f"cannot read {address}: {first_line(error)}") from None
