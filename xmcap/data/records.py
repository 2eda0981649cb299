"""The record: one image with all its captions in every language.

Records are `tf.train.Example` messages in ArrayRecord files with TFDS's metadata. `tfds.builder_from_directory(DIR)`
reads them like any other dataset, and `RecordSource` reads any record by its index, without TensorFlow:

  DIR/DATASET-SPLIT.array_record-00000-of-00015   the records; with `.index` behind it, where they are (range_index.py)
  DIR/dataset_info.json, DIR/features.json        TFDS's metadata (array_records/tfds_metadata.py)
  DIR/tags.txt                                    names of the classes in the images, one per line
"""

import copy
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xmcap import languages
from xmcap.data.array_records import range_index, remote, tfds_metadata
from xmcap.data.array_records.local import RecordFiles
from xmcap.data.array_records.messages import Example, Features, parser
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import addresses, keys
from xmcap.terminal import shown

SOURCES = ("human", "mt", "translated")
"""Origins of a caption: human, machine translation, or translation by people."""
MACHINE = SOURCES[1]

LANGUAGES = "languages.txt"
"""File beside the records of own images with the codes of their languages, one per line."""

_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_READ_BATCH = 64

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class Caption:
  """A caption; `text_tokenized` has its tokens joined by spaces, or is ""."""

  language: str
  text: str
  text_tokenized: str = ""
  source: str = "human"


@dataclasses.dataclass(slots=True)
class Record:
  """One image with all its captions.

  Attributes:
    key: name of the image, unique in its split; letters and digits, and `_.-` after the first.
    image: the released bytes, JPEG or PNG.
    captions: in the order of the release; a language may have none, one or many.
    tags: names of the classes in the image, in reading order; empty if unknown.
    locale: region of the image (XM3600), or "".
    tags_by_language: language code -> tags that people wrote, unchanged.
  """

  key: str
  image: bytes
  captions: list[Caption]
  tags: list[str] = dataclasses.field(default_factory=list)
  locale: str = ""
  tags_by_language: dict[str, list[str]] = dataclasses.field(default_factory=dict)

  def tag_pairs(self) -> list[tuple[str, str]]:
    """Returns (language, tag) of each tag of `tags_by_language`."""
    return [(language, tag) for language, tags in self.tags_by_language.items() for tag in tags]


def check(record: Record) -> None:
  """Raises XmcapError, with the key and the field, if a record is invalid."""
  if not keys.is_key(record.key):
    raise XmcapError(
      f"record key '{shown(record.key)}' is not a safe name: use up to {keys.MAX_LENGTH} letters, digits and, after "
      "the first, '_.-'"
    )
  if not record.image.startswith(_IMAGE_STARTS):
    raise XmcapError(f"record {record.key}: image is neither JPEG nor PNG ({len(record.image)} bytes)")
  for number, caption in enumerate(record.captions):
    where = f"record {record.key}, caption {number} ({shown(caption.language)})"
    if not languages.is_known(caption.language):
      raise XmcapError(
        f"{where}: unknown language; use {' '.join(languages.LANGUAGES)}, or the BCP-47 tag of another language"
      )
    if not caption.text.strip():
      raise XmcapError(f"{where}: the text is empty; leave out captions that do not exist")
    if caption.source not in SOURCES:
      raise XmcapError(f"{where}: source '{shown(caption.source)}' is not one of {', '.join(SOURCES)}")
  for language in record.tags_by_language:
    if not languages.is_known(language):
      raise XmcapError(f"record {record.key}: tags in the unknown language '{shown(language)}'")
  for tag in itertools.chain(record.tags, *record.tags_by_language.values()):
    if not tag.strip() or "\n" in tag:
      raise XmcapError(f"record {record.key}: tag '{shown(tag)}' is empty or contains a line break")


def serialize(record: Record) -> bytes:
  """Serialises a record to a tf.train.Example in TFDS's layout; equal records give equal bytes."""
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
    "tags_by_language/language": [language for language, _ in record.tag_pairs()],
    "tags_by_language/tag": [tag for _, tag in record.tag_pairs()],
  }
  feature = example.features.feature
  for name, texts in columns.items():
    feature[name].bytes_list.value.extend([text.encode() for text in texts])
  feature["image"].bytes_list.value.append(record.image)
  return example.SerializeToString(deterministic=True)


@parser
def parse(feature: Features) -> Record:
  """The inverse of `serialize`."""

  def texts(name: str) -> list[str]:
    return [value.decode() for value in feature[name].bytes_list.value]

  columns = [texts(f"captions/{name}") for name in ("language", "text", "text_tokenized", "source")]
  tags_by_language: dict[str, list[str]] = {}
  for language, tag in zip(texts("tags_by_language/language"), texts("tags_by_language/tag"), strict=True):
    tags_by_language.setdefault(language, []).append(tag)
  return Record(
    key=texts("image/key")[0],
    image=feature["image"].bytes_list.value[0],
    captions=[Caption(*fields) for fields in zip(*columns, strict=True)],
    tags=texts("tags"),
    locale=texts("image/locale")[0],
    tags_by_language=tags_by_language,
  )


def check_sources(sources: Sequence[str], where: str) -> None:
  """Raises UsageError if one of the sources of captions does not exist."""
  unknown = [source for source in sources if source not in SOURCES]
  if unknown:
    raise UsageError(f"{where}: '{unknown[0]}' is no source of captions: give some of {', '.join(SOURCES)}")


def read_tags(directory: addresses.Address) -> list[str]:
  """Reads `tags.txt`; UsageError if the corpus has none, XmcapError if a class is empty or repeated."""
  path, tags = _listed(directory, "tags.txt", "the corpus has no tags to learn; build it or choose another")
  seen: set[str] = set()
  for number, tag in enumerate(tags, start=1):
    if not tag.strip() or tag in seen:
      raise XmcapError(f"{path}, line {number}: class '{shown(tag)}' is empty or occurs twice")
    seen.add(tag)
  return tags


def read_languages(directory: addresses.Address) -> tuple[str, ...]:
  """Reads `languages.txt`; UsageError if the folder has none, XmcapError if a line is not a language."""
  path, codes = _listed(directory, LANGUAGES, "build the corpus again")
  if not codes or not all(map(languages.is_known, codes)):
    raise XmcapError(f"{path}: not a list of language codes, one per line: build the corpus again")
  return tuple(languages.ordered(codes))


def _listed(directory: addresses.Address, name: str, hint: str) -> tuple[str, list[str]]:
  """Returns the address and the lines of a file beside the records; UsageError with the hint if there is none."""
  path = addresses.join(directory, name)
  try:
    return path, addresses.read_text(path).splitlines()
  except FileNotFoundError:
    raise UsageError(f"{path} is missing: {hint}") from None
  except (OSError, UnicodeDecodeError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}") from None


class Stretch(NamedTuple):
  """A range of records of a whole split: `count` records from `first` on."""

  split: str
  first: int
  count: int


class RecordSource:
  """Random access to the records of a split; cheap to make, thread-safe, picklable.

  Args:
    directory: folder with TFDS's metadata and the ArrayRecord files: a path or an address (`gs://...`).
    split: a split, or parts of some in TFDS's notation, such as `train[:1000]` or `train+test`.

  Attributes:
    dataset: name of the corpus in the metadata.
    is_remote: whether the files are in a bucket.
    stretches: the ranges of whole splits that make up the source.
    files: paths or addresses of the files that have them.
    sizes: for each of these splits `shard_lengths` (records of each file) and `bytes`, which identify its records.
    chosen: for a subset, int64 [N], indices among the records of the stretches; None: all.

  Raises:
    UsageError: the folder is not a corpus, or lacks the split, or the split is empty; or it is in a bucket, and a file
      of the split has no index.
    XmcapError: a file of the split is missing or damaged (when it is opened or read).
  """

  def __init__(self, directory: addresses.Address, split: str = "train"):
    self.directory = os.fspath(directory)
    self.split = split
    self.chosen: np.ndarray | None = None
    info = tfds_metadata.read(self.directory)
    if info is None:
      raise UsageError(
        f"{directory} is not a corpus (dataset_info.json is missing): make one with `xmcap data build`"
      )
    self.dataset = info.name
    if any(part.split("[")[0].strip() not in info.splits for part in split.split("+")):
      names = ", ".join(sorted(info.splits)) or "none"
      raise UsageError(f"{directory} has no split '{split}'; its splits: {names}")
    try:
      parts = info.parts(split)
    except ValueError as error:
      raise UsageError(f"split '{split}' of {directory}: {one_line(error)}") from None
    if not parts:
      raise UsageError(f"split '{split}' of {directory} is empty")
    counts = [part.count for part in parts]
    names = [info.splits[part.split].files[part.shard] for part in parts]
    starts = {
      name: [0, *itertools.accumulate(of_split.shard_lengths)] for name, of_split in info.splits.items()
    }
    self.stretches = [
      Stretch(part.split, starts[part.split][part.shard] + part.skip, part.count) for part in parts
    ]
    self.sizes = {}
    for name in dict.fromkeys(stretch.split for stretch in self.stretches):
      own = info.splits[name]
      self.sizes[name] = {"shard_lengths": list(own.shard_lengths), "bytes": own.num_bytes}
    self._ends = np.cumsum(counts, dtype=np.int64)
    self._shifts = np.array([part.skip for part in parts], np.int64) - (self._ends - counts)
    present = set(addresses.names(directory))
    absent = sorted(set(names) - present)
    if absent:
      raise XmcapError(
        f"{addresses.join(directory, absent[0])} is missing ({len(absent)} of {len(names)} files): "
        f"build {directory} again"
      )
    self.files = [addresses.join(directory, name) for name in names]
    self.is_remote = addresses.is_remote(directory)
    if self.is_remote:
      for name, path in zip(names, self.files, strict=True):
        if name + range_index.SUFFIX not in present:
          raise remote.without_index(path, self.directory)
      whole = info.splits.values()
      self._files: Any = remote.RemoteRecordFiles(
        self.files, self.directory, sum(one.records for one in whole), sum(one.num_bytes for one in whole)
      )
    else:
      self._files = RecordFiles(self.files, self.directory)

  def subset(self, chosen: np.ndarray, label: str) -> "RecordSource":
    """Returns the records at indices int64 [N] of this source, in that order; `label` names them in messages."""
    source = copy.copy(self)
    source.chosen = chosen if self.chosen is None else self.chosen[chosen]
    source.split = f"{self.split} ({label})"
    return source

  def __len__(self) -> int:
    return int(self._ends[-1]) if self.chosen is None else len(self.chosen)

  def __getitem__(self, index: int) -> Record:
    """Returns the record at an index in [0, len), else IndexError."""
    return self.read([index])[0]

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), _READ_BATCH):
      yield from self.iterate(range(start, min(start + _READ_BATCH, len(self))))

  def iterate(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """Yields the records at indices in [0, len), in order, reading each on demand; in a bucket ahead, from the call on.

    `parse` turns the bytes of a record into the result. IndexError if an index is out of range.
    """
    chosen = np.asarray(indices, np.int64).reshape(-1)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    if self.chosen is not None:
      chosen = self.chosen[chosen]
    shards = np.searchsorted(self._ends, chosen, side="right")
    positions = chosen + self._shifts[shards]
    return self._files.iterate(shards.tolist(), positions.tolist(), parse)

  def read(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> list[T]:
    """Like `iterate`, as a list."""
    return list(self.iterate(indices, parse))


def splits(directory: addresses.Address) -> list[str]:
  """Returns the sorted names of the record splits in a folder; [] if there are none."""
  info = tfds_metadata.read(directory)
  return [] if info is None else sorted(info.splits)


def files_of(directory: addresses.Address, split: str) -> list[str]:
  """Returns the paths or addresses of the files of a whole split; UsageError if the folder has no such split."""
  info = tfds_metadata.read(directory)
  if info is None or split not in info.splits:
    raise UsageError(f"{directory} has no split '{split}': give a whole split of a corpus")
  return [addresses.join(directory, name) for name in info.splits[split].files]


def spread(source: Sized, count: int) -> np.ndarray:
  """Returns int64 [N]: indices of `count` evenly spaced records including the first and the last; all, if fewer."""
  return np.unique(np.linspace(0, len(source) - 1, min(len(source), count)).astype(np.int64))


@dataclasses.dataclass(slots=True)
class Columns:
  """A record with undecoded captions: `languages`, `texts`, `sources` and `tokenized` are UTF-8, one each per caption.

  `layout` is equal for equal `languages` and `sources`, and fast to compare. `tokenized` is as
  `records.Caption.text_tokenized`, and `tags` are the classes in the image.
  """

  key: str
  image: bytes
  layout: bytes
  languages: Sequence[bytes]
  texts: Sequence[bytes]
  sources: Sequence[bytes]
  tokenized: Sequence[bytes]
  tags: Sequence[bytes]


@parser
def parse_columns(features: Features) -> Columns:
  """Like `records.parse`, but several times faster if few or none of many captions are needed."""
  codes, origins = features["captions/language"], features["captions/source"]
  languages, sources = codes.bytes_list.value, origins.bytes_list.value
  texts, tokenized = (features[f"captions/{name}"].bytes_list.value for name in ("text", "text_tokenized"))
  if not len(languages) == len(sources) == len(texts) == len(tokenized):
    raise ValueError(f"{len(texts)} captions, but {len(languages)} languages and {len(sources)} sources")
  layout = codes.SerializeToString(deterministic=True) + origins.SerializeToString(deterministic=True)
  key, image = (features[name].bytes_list.value[0] for name in ("image/key", "image"))
  tags = features["tags"].bytes_list.value
  return Columns(key.decode(), image, layout, languages, texts, sources, tokenized, tags)
