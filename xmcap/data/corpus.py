"""A registered corpus: where its records and its vocabulary lie, asked only when something is read."""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from xmcap.data.records import Record, RecordSource, parse
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError

T = TypeVar("T")

_READ_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Location:
  """Where the parts of a corpus lie.

  Attributes:
    data_dir: the folder of its records.
    vocabulary: the file of its vocabulary.
    subset: which of its pictures, as `xmcap score --subset` has it; "" is all.
  """

  data_dir: str
  vocabulary: str
  subset: str = ""


class Corpus:
  """A registered corpus: image records with captions in several languages, and a vocabulary.

  Made by `xmcap.data.tasks.register_corpus`; nothing is read before it is asked for. What was opened stays open until
  the location changes.

  Attributes:
    name: name of the mixture, and of the gin configurable that says where it lies.
    languages: codes, in the order of the table of languages.
    splits: record splits that it has.
  """

  def __init__(
    self, name: str, languages: Sequence[str], splits: Sequence[str], locate: Callable[[], Location]
  ):
    self.name = name
    self.languages = tuple(languages)
    self.splits = tuple(splits)
    self._locate = locate
    self._lock = threading.Lock()
    self._sources: dict[tuple[str, ...], RecordSource | PartSource] = {}
    self._vocabularies: dict[str, Vocabulary] = {}

  def __deepcopy__(self, memo) -> "Corpus":
    return self  # gin copies what it is given, and a registration is one thing

  def location(self) -> Location:
    """Where the corpus lies now; UsageError if nothing says so."""
    return self._locate()

  def source(self, split: str) -> "RecordSource | PartSource":
    """The records of a split, or of a part of one in TFDS's notation; UsageError or XmcapError as `RecordSource`."""
    place = self.location()
    absent = [name for name in _split_names(split) if name not in self.splits]
    if absent:
      raise UsageError(
        f"{self.name} has no split '{absent[0]}', only {', '.join(self.splits)}: give one of these"
      )
    key = (place.data_dir, split, place.subset)
    with self._lock:
      if key not in self._sources:
        source = RecordSource(place.data_dir, split)
        self._sources[key] = _chosen(source, place.subset) if place.subset else source
      return self._sources[key]

  def vocabulary(self) -> Vocabulary:
    """The vocabulary; UsageError if there is none at its place."""
    path = self.location().vocabulary
    with self._lock:
      if path not in self._vocabularies:
        self._vocabularies[path] = Vocabulary(path)
      return self._vocabularies[path]


class PartSource:
  """Some records of a `RecordSource`, by their place among these; used as one.

  Args:
    source: all the records.
    indices: int64 [N], the places of these in it.
    label: names them in messages.

  Attributes:
    whole, indices: the arguments.
  """

  def __init__(self, source: RecordSource, indices: np.ndarray, label: str):
    self.whole, self.indices = source, indices
    self.directory = source.directory
    self.split = f"{source.split} ({label})"

  def __len__(self) -> int:
    return len(self.indices)

  def __getitem__(self, index: int) -> Record:
    """The record at an index in [0, len); IndexError outside it."""
    return self.read([index])[0]

  def __iter__(self) -> Iterator[Record]:
    for start in range(0, len(self), _READ_BATCH):
      yield from self.iterate(range(start, min(start + _READ_BATCH, len(self))))

  def iterate(self, indices: Sequence[int], parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """The records at `indices`, in their order, each read when it is asked for; see `RecordSource.iterate`."""
    indices = np.asarray(indices, np.int64).reshape(-1)
    if indices.size and (indices.min() < 0 or indices.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    return self.whole.iterate(self.indices[indices], parse)

  def read(self, indices: Sequence[int], parse: Callable[[bytes], T] = parse) -> list[T]:
    """The records that `iterate` gives, all at once."""
    return list(self.iterate(indices, parse))


def _split_names(split: str) -> list[str]:
  return [part.split("[")[0].strip() for part in split.split("+")]


def _chosen(source: RecordSource, subset: str) -> PartSource:
  """Reads all records once for their keys."""
  # Imported here: only a subset needs it, and data stands beside scoring.
  from xmcap.scoring import subsets

  places = {record.key: place for place, record in enumerate(source)}
  chosen = subsets.choose(subset, places)
  return PartSource(source, np.sort([places[key] for key in chosen.keys]), chosen.label)
