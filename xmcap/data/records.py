"""The record: one image with all its captions, in every language, stored once.

Records are `tf.train.Example` messages in ArrayRecord files beside TFDS's metadata. `tfds.builder_from_directory(DIR)`
reads them as any other dataset, and `RecordSource` reads any of them by its index, without TensorFlow:

  DIR/DATASET-SPLIT.array_record-00000-of-00015   the records
  DIR/dataset_info.json, DIR/features.json        TFDS's metadata, written by `record_writer.write_metadata`
  DIR/tags.txt                                    the names of the classes seen in pictures, one a line
"""

import copy
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xmcap import languages
from xmcap.data.array_records.local import RecordFiles, first_line
from xmcap.data.messages import Example
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import addresses, files
from xmcap.terminal import shown

SOURCES = ("human", "mt", "translated")
"""Origins of a caption: written by a person, translated by a machine, or translated by a person."""

LANGUAGES = "languages.txt"
"""Beside the records of own pictures: the codes of their languages, one a line."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_METADATA = "dataset_info.json"
_MAX_METADATA = 64 << 20  # bytes; a shard takes some 10
_READ_BATCH = 64

T = TypeVar("T")


@functools.cache
def features() -> Any:
  """The record as TFDS knows it, a `tfds.features.FeaturesDict`. The bytes of the image are stored as released."""
  from tensorflow_datasets import features as of  # takes TensorFlow with it, for seconds

  caption = {field: of.Text() for field in ("language", "text", "text_tokenized", "source")}
  return of.FeaturesDict(
    {
      "image/key": of.Text(),
      "image/locale": of.Text(),
      "image": of.Image(shape=(None, None, 3)),
      "captions": of.Sequence(caption),
      "tags": of.Sequence(of.Text()),
      "tags_by_language": of.Sequence({"language": of.Text(), "tag": of.Text()}),
    }
  )


@dataclasses.dataclass(slots=True)
class Caption:
  """One caption; `text_tokenized` is its tokens joined by spaces, or ""."""

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
    locale: of the picture (XM3600), or "".
    tags_by_language: language code -> tags that people gave the picture, as they gave them.
  """

  key: str
  image: bytes
  captions: list[Caption]
  tags: list[str] = dataclasses.field(default_factory=list)
  locale: str = ""
  tags_by_language: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def check(record: Record) -> None:
  """Raises XmcapError, naming the record's key and field, if the record is not valid."""
  if not _KEY.fullmatch(record.key):
    raise XmcapError(
      f"record key '{shown(record.key)}' is not a safe name: use up to 128 letters, digits, and '_.-' inside"
    )
  if not record.image.startswith(_IMAGE_STARTS):
    raise XmcapError(f"record {record.key}: image is neither JPEG nor PNG ({len(record.image)} bytes)")
  for number, caption in enumerate(record.captions):
    where = f"record {record.key}, caption {number} ({shown(caption.language)})"
    if not languages.is_known(caption.language):
      raise XmcapError(
        f"{where}: unknown language; the codes are {' '.join(languages.LANGUAGES)}, and BCP-47 tags of others"
      )
    if not caption.text.strip():
      raise XmcapError(f"{where}: the text is empty; leave out captions that do not exist")
    if caption.source not in SOURCES:
      raise XmcapError(f"{where}: source '{shown(caption.source)}' is none of {', '.join(SOURCES)}")
  for language in record.tags_by_language:
    if not languages.is_known(language):
      raise XmcapError(f"record {record.key}: tags in the unknown language '{shown(language)}'")
  for tag in itertools.chain(record.tags, *record.tags_by_language.values()):
    if not tag.strip() or "\n" in tag:
      raise XmcapError(f"record {record.key}: tag '{shown(tag)}' is empty or holds a line break")


def serialize(record: Record) -> bytes:
  """A record as a tf.train.Example, laid out as TFDS lays out `features()`; equal records give equal bytes."""
  example = Example()
  captions = record.captions
  columns = {
    "image/key": [record.key],
    "image/locale": [record.locale],
    "captions/language": [caption.language for caption in captions],
    "captions/text": [caption.text for caption in captions],
    "captions/text_tokenized": [caption.text_tokenized for caption in captions],
    "captions/source": [caption.source for caption in captions],
    "tags": record.tags,
    "tags_by_language/language": [language for language, _ in _tag_pairs(record)],
    "tags_by_language/tag": [tag for _, tag in _tag_pairs(record)],
  }
  feature = example.features.feature
  for name, texts in columns.items():
    feature[name].bytes_list.value.extend([text.encode() for text in texts])
  feature["image"].bytes_list.value.append(record.image)
  return example.SerializeToString(deterministic=True)


def as_example(record: Record) -> dict[str, Any]:
  """A record as the nested dictionary that TFDS encodes by `features()`."""
  return {
    "image/key": record.key,
    "image/locale": record.locale,
    "image": record.image,
    "captions": [dataclasses.asdict(caption) for caption in record.captions],
    "tags": record.tags,
    "tags_by_language": [{"language": language, "tag": tag} for language, tag in _tag_pairs(record)],
  }


def _tag_pairs(record: Record) -> list[tuple[str, str]]:
  return [(language, tag) for language, tags in record.tags_by_language.items() for tag in tags]


def parse(serialized: bytes) -> Record:
  """The inverse of `serialize`, for records without columns that came later too.

  Raises:
    ValueError: the bytes hold no record.
  """
  try:
    feature = Example.FromString(serialized).features.feature

    def texts(name: str) -> list[str]:
      return [value.decode() for value in feature[name].bytes_list.value]

    columns = [texts(f"captions/{name}") for name in ("language", "text", "text_tokenized", "source")]
    tags_by_language: dict[str, list[str]] = {}
    of_tags = texts("tags_by_language/language"), texts("tags_by_language/tag")
    for language, tag in zip(*of_tags, strict=True):
      tags_by_language.setdefault(language, []).append(tag)
    return Record(
      key=texts("image/key")[0],
      image=feature["image"].bytes_list.value[0],
      captions=[Caption(*fields) for fields in zip(*columns, strict=True)],
      tags=texts("tags"),
      locale=texts("image/locale")[0],
      tags_by_language=tags_by_language,
    )
  except Exception as error:
    raise ValueError(f"not a record: {error}") from error


@dataclasses.dataclass(slots=True)
class Columns:
  """The part of a record that the stream needs; the hundreds of captions are not decoded.

  `languages` and `texts` are UTF-8, one of each a caption; `layout` is equal for equal `languages`, and quick to
  compare.
  """

  key: str
  image: bytes
  layout: bytes
  languages: Sequence[bytes]
  texts: Sequence[bytes]


def parse_columns(serialized: bytes) -> Columns:
  """`parse`, several times faster where few of many captions are wanted; ValueError where the bytes hold no record."""
  try:
    feature = Example.FromString(serialized).features.feature
    codes = feature["captions/language"]
    texts = feature["captions/text"].bytes_list.value
    if len(codes.bytes_list.value) != len(texts):
      raise ValueError(f"{len(codes.bytes_list.value)} languages for {len(texts)} captions")
    key, image = (feature[name].bytes_list.value[0] for name in ("image/key", "image"))
    layout = codes.SerializeToString(deterministic=True)
    return Columns(key.decode(), image, layout, codes.bytes_list.value, texts)
  except Exception as error:
    raise ValueError(f"not a record: {error}") from error


def read_tags(directory: addresses.Address) -> list[str]:
  """Reads `tags.txt`; UsageError if the corpus has none, XmcapError if a class is named twice."""
  path, tags = _listed(directory, "tags.txt", "the corpus has no tags to learn; build it or name another")
  seen: set[str] = set()
  for number, tag in enumerate(tags, start=1):
    if not tag.strip() or tag in seen:
      raise XmcapError(f"{path}, line {number}: class '{shown(tag)}' is empty or named twice")
    seen.add(tag)
  return tags


def read_languages(directory: addresses.Address) -> tuple[str, ...]:
  """Reads `languages.txt`; UsageError if the folder has none, XmcapError if a line is no language."""
  path, codes = _listed(directory, LANGUAGES, "build the corpus with `xmcap data build folder`")
  if not codes or not all(map(languages.is_known, codes)):
    raise XmcapError(f"{path}: not the codes of languages, one a line: build the corpus again")
  return tuple(languages.ordered(codes))


def _listed(directory: addresses.Address, name: str, hint: str) -> tuple[str, list[str]]:
  """The address and the lines of a file beside the records; UsageError with the hint where there is none."""
  path = addresses.join(directory, name)
  try:
    return path, addresses.read_text(path).splitlines()
  except FileNotFoundError:
    raise UsageError(f"{path} is absent: {hint}") from None
  except (OSError, UnicodeDecodeError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}") from None


class Stretch(NamedTuple):
  """Successive records of a whole split: `count` of them, from the `first` on."""

  split: str
  first: int
  count: int


class RecordSource:
  """The records of a split, any of them by its index; cheap to make, safe in threads, picklable.

  Args:
    directory: folder with TFDS's metadata and the ArrayRecord files: a path or an address (`gs://...`).
    split: a split, or a part of one in TFDS's notation, such as `train[:1000]`.

  Attributes:
    dataset: the name that the metadata give the corpus.
    stretches: the records of the source in the whole splits that they are from.
    sizes: for each of these splits `shard_lengths` (records of each file) and `bytes`, by which its records are known.
    chosen: of a subset, int64 [N], which of the records of the stretches it has; None: all.

  Raises:
    UsageError: the folder is no corpus, or has no such split, or the split is empty.
    XmcapError: a file of the split is absent or damaged (when it is opened or read).
  """

  def __init__(self, directory: addresses.Address, split: str = "train"):
    self.directory = os.fspath(directory)
    self.split = split
    self.chosen: np.ndarray | None = None
    info = _info(self.directory)
    if info is None:
      raise UsageError(
        f"{directory} is no corpus (dataset_info.json is absent): `xmcap data build` makes one"
      )
    self.dataset = info.name
    if split.split("[")[0].strip() not in info.splits:
      known = ", ".join(sorted(info.splits)) or "none"
      raise UsageError(f"{directory} has no split '{split}'; its splits: {known}")
    try:
      parts = info.splits[split].file_instructions
    except (ValueError, AssertionError) as error:
      raise UsageError(f"split '{split}' of {directory}: {first_line(error)}") from None
    counts = [part.take if part.take >= 0 else part.examples_in_shard - part.skip for part in parts]
    if not sum(counts):
      raise UsageError(f"split '{split}' of {directory} is empty")
    names = [os.path.basename(part.filename) for part in parts]
    firsts = {
      os.path.basename(path): (name, sum(known.shard_lengths[:shard]))
      for name, known in info.splits.items()
      for shard, path in enumerate(known.filepaths)
    }
    self.stretches = [
      Stretch(firsts[name][0], firsts[name][1] + part.skip, count)
      for name, part, count in zip(names, parts, counts, strict=True)
    ]
    self.sizes = {}
    for name in dict.fromkeys(stretch.split for stretch in self.stretches):
      known = info.splits[name]
      self.sizes[name] = {"shard_lengths": list(known.shard_lengths), "bytes": int(known.num_bytes)}
    self._skips = np.array([part.skip for part in parts], np.int64)
    self._ends = np.cumsum(counts, dtype=np.int64)
    absent = sorted(set(names) - set(addresses.names(directory)))
    if absent:
      raise XmcapError(
        f"{addresses.join(directory, absent[0])} is absent ({len(absent)} of {len(names)} files): "
        f"build {directory} again"
      )
    paths = [addresses.join(directory, name) for name in names]
    if addresses.is_remote(directory):
      from xmcap.data.array_records.remote import RemoteRecordFiles  # loads numba, which takes seconds

      self._files: Any = RemoteRecordFiles(paths, self.directory)
    else:
      self._files = RecordFiles(paths, self.directory)

  def subset(self, chosen: np.ndarray, label: str) -> "RecordSource":
    """The records at int64 [N] of this source, in that order; `label` names them in messages."""
    source = copy.copy(self)
    source.chosen = chosen if self.chosen is None else self.chosen[chosen]
    source.split = f"{self.split} ({label})"
    return source

  def __len__(self) -> int:
    return int(self._ends[-1]) if self.chosen is None else len(self.chosen)

  def __getitem__(self, index: int) -> Record:
    """The record at an index in [0, len); IndexError outside it."""
    return self.read([index])[0]

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), _READ_BATCH):
      yield from self.iterate(range(start, min(start + _READ_BATCH, len(self))))

  def iterate(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """The records at indices in [0, len), in their order, each read when it is asked for (in a bucket: read ahead).

    `parse` turns a record's bytes into the result. IndexError outside of the range.
    """
    chosen = np.asarray(indices, np.int64).reshape(-1)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    if self.chosen is not None:
      chosen = self.chosen[chosen]
    shards = np.searchsorted(self._ends, chosen, side="right")
    starts = self._ends[shards] - np.diff(self._ends, prepend=0)[shards]
    positions = chosen - starts + self._skips[shards]
    yield from self._files.iterate(shards.tolist(), positions.tolist(), parse)

  def read(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> list[T]:
    """The records that `iterate` gives, all at once."""
    return list(self.iterate(indices, parse))


def splits(directory: addresses.Address) -> list[str]:
  """The names of the record splits in a folder, in alphabetical order; [] where there are none."""
  info = _info(os.fspath(directory))
  return [] if info is None else sorted(info.splits)


def spread(source: RecordSource, count: int) -> np.ndarray:
  """The indices of `count` evenly spaced records, the first and the last among them, or of all: int64 [N]."""
  return np.unique(np.linspace(0, len(source) - 1, min(len(source), count)).astype(np.int64))


def _info(directory: str) -> Any:
  """TFDS's metadata of a folder; None if it has none.

  TFDS reads a copy, for it knows few kinds of addresses, and with our own features beside it: it would import the
  modules that a `features.json` names.
  """
  address = addresses.join(directory, _METADATA)
  if not addresses.is_file(address):
    return None
  import tensorflow_datasets as tfds

  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    try:
      text = addresses.read_bytes(address)
      if len(text) > _MAX_METADATA:
        raise ValueError(f"over {_MAX_METADATA >> 20} MB")
      files.write_bytes(pathlib.Path(folder, _METADATA), text)
      features().save_config(folder)
      info = tfds.builder_from_directory(folder).info
      for split in info.splits.values():
        _ = split.filepaths  # made of a template in the metadata
      return info
    except XmcapError:
      raise
    except Exception as error:  # TFDS raises errors of many types for a damaged file
      raise XmcapError(f"cannot read {address}: {first_line(error)}") from None
