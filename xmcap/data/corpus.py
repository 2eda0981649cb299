"""A registered corpus: its records and its vocabulary, opened when they are first asked for."""

import dataclasses
import threading
from collections.abc import Callable, Sequence

import numpy as np

from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Location:
  """The folder of a corpus's records, the file of its vocabulary, and a subset as of `xmcap score --subset` or ""."""

  data_dir: str
  vocabulary: str
  subset: str = ""


class RegisteredCorpus:
  """Image records with captions in several languages, and a vocabulary; `tasks.register_corpus` makes one.

  `name` is that of the mixture and of the gin configurable behind `location()`, which raises UsageError if unbound.
  """

  def __init__(
    self, name: str, languages: Sequence[str], splits: Sequence[str], location: Callable[[], Location]
  ):
    self.name = name
    self.languages = tuple(languages)
    self.splits = tuple(splits)
    self.location = location
    self._lock = threading.Lock()
    self._sources: dict[tuple[str, ...], RecordSource] = {}
    self._vocabularies: dict[str, Vocabulary] = {}

  def __deepcopy__(self, memo) -> "RegisteredCorpus":
    return self  # gin copies its arguments, and a registration is one thing

  def source(self, split: str) -> RecordSource:
    """The records of a split, or of a part of one in TFDS's notation; UsageError or XmcapError as `RecordSource`."""
    place = self.location()
    for part in split.split("+"):
      name = part.split("[")[0].strip()
      if name not in self.splits:
        raise UsageError(
          f"{self.name} has no split '{name}', only {', '.join(self.splits)}: give one of these"
        )
    key = (place.data_dir, split, place.subset)
    with self._lock:
      if key not in self._sources:
        source = RecordSource(place.data_dir, split)
        self._sources[key] = _subset(source, place.subset) if place.subset else source
      return self._sources[key]

  def vocabulary(self) -> Vocabulary:
    """The vocabulary; UsageError if there is none at its place."""
    path = self.location().vocabulary
    with self._lock:
      if path not in self._vocabularies:
        self._vocabularies[path] = Vocabulary(path)
      return self._vocabularies[path]


def _subset(source: RecordSource, subset: str) -> RecordSource:
  """Reads all records once for their keys."""
  from xmcap.scoring import subsets  # only a subset needs it

  places = {record.key: place for place, record in enumerate(source)}
  chosen = subsets.choose(subset, places)
  return source.subset(np.sort([places[key] for key in chosen.keys]), chosen.label)
