"""Corpora by name: where their records and vocabularies are, and what a mixture takes from them.

This is the bottom of the registry. Whoever keeps the same mixtures elsewhere, as `seqio_tasks` does in seqio, adds a
`Mirror`.
"""

import dataclasses
import difflib
import functools
import os
from collections.abc import Callable, Mapping, Sequence

import gin
import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import order, records
from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.files import addresses


@dataclasses.dataclass(frozen=True)
class Location:
  """The folder of a corpus's records, its vocabulary file, and a subset as of `xmcap score --subset`, or ""."""

  data_dir: str
  vocabulary: str
  subset: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class RegisteredCorpus:
  """Image records with captions in several languages, and a vocabulary; `register_corpus` makes one.

  `name` is the name of the mixture and of the gin configurable of `location()`, which raises UsageError if unbound.
  """

  name: str
  languages: tuple[str, ...]
  splits: tuple[str, ...]
  location: Callable[[], Location]

  def __deepcopy__(self, memo) -> "RegisteredCorpus":
    return self  # gin copies its arguments, but a registration must stay unique

  @property
  def task_names(self) -> dict[str, str]:
    """Language -> name of its task; seqio does not allow dashes in names."""
    return {language: f"{self.name}_{language.replace('-', '_')}" for language in self.languages}

  def source(self, split: str) -> RecordSource:
    """Returns the records of a split, or of a part of one in TFDS's notation; raises as `RecordSource`."""
    place = self.location()
    for part in split.split("+"):
      name = part.split("[")[0].strip()
      if name not in self.splits:
        raise UsageError(
          f"{self.name} has no split '{name}', only {', '.join(self.splits)}: give one of these"
        )
    return _source(place.data_dir, split, place.subset, addresses.absolute(place.data_dir))

  def vocabulary(self) -> Vocabulary:
    """Returns the vocabulary; UsageError if its file does not exist."""
    path = self.location().vocabulary
    return _vocabulary(path, addresses.absolute(path))


@dataclasses.dataclass(frozen=True)
class CorpusPart:
  """The part that a mixture takes from a corpus.

  Attributes:
    rates: language -> relative rate, above 0.
    rate: relative rate of the corpus, above 0, in images.
    sources: sources of its captions (`records.SOURCES`); (): all.
    splits: split of the mixture -> split of the corpus, in TFDS's notation, where they differ.
  """

  corpus: RegisteredCorpus
  rates: Mapping[str, float]
  rate: float = 1.0
  sources: tuple[str, ...] = ()
  splits: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def source(self, split: str) -> RecordSource:
    """Returns the records for a split of the mixture; raises as `RegisteredCorpus.source`."""
    return self.corpus.source("+".join(map(self._split, split.split("+"))))

  def _split(self, split: str) -> str:
    name, bracket, rest = split.strip().partition("[")
    own = self.splits.get(name, name)
    if bracket and not own.isidentifier():
      raise UsageError(
        f"split '{split}': '{name}' is '{own}' of {self.corpus.name}, of which no part can be taken: use '{name}'"
      )
    return f"{own}{bracket}{rest}"


@functools.cache
def _source(directory: str, split: str, subset: str, whole_path: str) -> RecordSource:
  """Opens a split once, by its whole path: a relative one is another corpus in another working folder."""
  source = RecordSource(directory, split)
  if not subset:
    return source
  from xmcap.reading import subsets  # only a subset needs it

  places = {record.key: place for place, record in enumerate(source)}
  chosen, label = subsets.choose(subset, places)
  return source.subset(np.sort([places[key] for key in chosen]), label)


@functools.cache
def _vocabulary(path: str, whole_path: str) -> Vocabulary:
  return Vocabulary(path)


def _locate(name: str, build_hint: str) -> Callable[..., Location]:
  def locate(data_dir: str = "", vocabulary: str = "") -> Location:
    """The location of a corpus: paths, or addresses such as `gs://...`.

    Args:
      data_dir: the folder of the records.
      vocabulary: a SentencePiece model; "": `vocabulary.model` in that folder.
    """
    if not data_dir:
      hint = f" ({build_hint} makes one)" if build_hint else ""
      raise UsageError(f"the location of the corpus {name} is not given: set --gin.{name}.data_dir=DIR{hint}")
    data_dir = os.path.expanduser(data_dir)
    return Location(data_dir, os.path.expanduser(vocabulary) or addresses.join(data_dir, "vocabulary.model"))

  return locate


def register_corpus(
  name: str,
  *,
  languages: Sequence[str] = languages_lib.TRAINED,
  rates: Mapping[str, float] | None = None,
  splits: Sequence[str] = ("train", "validation"),
  build_hint: str = "",
) -> RegisteredCorpus:
  """Registers a corpus: a seqio task per language, the mixture, and the gin configurable of its location.

  The mixture has the name of the corpus, and the tasks are NAME_LANGUAGE. `rates` are the relative sampling rates of
  languages. `build_hint` is the command that makes the corpus, for the message if it is missing.
  """
  codes = tuple(languages_lib.get(language).code for language in languages)
  rates = dict(rates) if rates is not None else dict.fromkeys(codes, 1.0)
  if set(rates) != set(codes) or min(rates.values()) < 0 or not sum(rates.values()):
    raise UsageError(f"corpus {name}: give a rate of at least 0 for exactly its languages")
  location = gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  return _register(RegisteredCorpus(name, codes, tuple(splits), location), rates)


def _register(corpus: RegisteredCorpus, rates: Mapping[str, float] | None = None) -> RegisteredCorpus:
  """Registers a corpus as the mixture of its name; by default all its languages have the same rate."""
  rates = rates or dict.fromkeys(corpus.languages, 1.0)
  register(Registration(corpus.name, (CorpusPart(corpus, rates),)))
  return corpus


OWN: dict[str, RegisteredCorpus] = {}
"""Corpora of own images by name, without their languages and splits."""


def register_own(name: str, *, build_hint: str = "") -> RegisteredCorpus:
  """Registers a corpus of own images, whose languages and splits are read from its folder on first use.

  `registration(name)` then makes its tasks and mixture, as does `register_built`.
  """
  location = gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  return OWN.setdefault(name, RegisteredCorpus(name, (), (), location))


def register_built(name: str, data_dir: str, vocabulary: str = "") -> RegisteredCorpus:
  """Registers the corpus in a folder that `xmcap data build folder` made: tasks NAME_LANGUAGE and the mixture NAME.

  Raises:
    UsageError: there is no such corpus, or the name is taken.
  """
  if name in {*REGISTERED, *OWN}:
    raise UsageError(f"a seqio mixture or task is already named '{name}': give another name")
  own = RegisteredCorpus(name, (), (), functools.partial(_locate(name, ""), data_dir, vocabulary))
  corpus = _settle(own)
  OWN[name] = own
  return corpus


def _settle(own: RegisteredCorpus) -> RegisteredCorpus:
  """Registers own images with their present languages and splits, again if these have changed."""
  directory = own.location().data_dir
  settled = dataclasses.replace(
    own, languages=records.read_languages(directory), splits=tuple(records.splits(directory))
  )
  earlier = REGISTERED.get(own.name)
  if earlier and (earlier.corpus.languages, earlier.corpus.splits) == (settled.languages, settled.splits):
    return earlier.corpus
  return _register(settled)


def register_part(
  name: str, of: RegisteredCorpus, *, splits: Sequence[str] = (), subset: str = ""
) -> RegisteredCorpus:
  """Registers a part of a corpus under its own name: some of its splits, or a subset of its images.

  Its location is that of the corpus. The subset is as for `xmcap score --subset`: `xm600:SEED` draws 600 images. In
  gin, `NAME.subset` chooses another.
  """

  def locate(subset: str = subset) -> Location:
    """The images of a part of a corpus.

    Args:
      subset: a file with one key per line, or `xm600:SEED`.
    """
    return dataclasses.replace(of.location(), subset=subset)

  location = gin.configurable(name, module="xmcap.tasks")(locate) if subset else of.location
  return _register(RegisteredCorpus(name, of.languages, tuple(splits) or of.splits, location))


def register(registered: "Registration") -> None:
  """Registers a mixture, in place of one with its name."""
  earlier = REGISTERED.get(registered.name)
  REGISTERED[registered.name] = registered
  for mirror in _MIRRORS:
    if earlier:
      mirror.remove(earlier)
    mirror.add(registered)


@dataclasses.dataclass(frozen=True)
class Registration:
  """A mixture or task: what it takes from one corpus, or from several."""

  name: str
  parts: tuple[CorpusPart, ...]

  @property
  def is_corpus(self) -> bool:
    """Whether it is the mixture that comes with a corpus."""
    return len(self.parts) == 1 and self.parts[0].corpus.name == self.name

  @property
  def names(self) -> list[str]:
    """Names of the mixture and, of a corpus, its tasks."""
    return [self.name, *(self.corpus.task_names.values() if self.is_corpus else ())]

  @property
  def named(self) -> dict[str, CorpusPart]:
    """Name of each part -> the part; the second of a corpus is CORPUS.2."""
    named: dict[str, CorpusPart] = {}
    for part in self.parts:
      number = 1 + sum(other.corpus.name == part.corpus.name for other in named.values())
      named[f"{part.corpus.name}.{number}" if number > 1 else part.corpus.name] = part
    return named

  @property
  def corpus(self) -> RegisteredCorpus:
    """The only corpus; UsageError if there are several."""
    part, *others = self.parts
    if others:
      raise UsageError(f"'{self.name}' mixes {', '.join(self.named)}: give one corpus here")
    return part.corpus

  @property
  def rates(self) -> dict[str, float]:
    """Language -> rate; in several corpora, its share in all of them."""
    if len(self.parts) == 1:
      return dict(self.parts[0].rates)
    total = sum(part.rate for part in self.parts)
    rates: dict[str, float] = {}
    for part in self.parts:
      of_part = sum(part.rates.values())
      for language, rate in part.rates.items():
        rates[language] = rates.get(language, 0.0) + part.rate / total * rate / of_part
    return {language: rates[language] for language in languages_lib.ordered(rates)}

  def places(self) -> list[int]:
    """Returns the positions of each part in a block of a stream (order.py); UsageError if a rate is too small."""
    try:
      return order.places_of([part.rate for part in self.parts])
    except ValueError as error:
      raise UsageError(f"mixture '{self.name}': a rate of {error} of the mixture: raise it") from None

  def vocabulary(self) -> Vocabulary:
    """Returns the vocabulary; UsageError if its file does not exist, or the corpora have different ones."""
    first, *others = (part.corpus.vocabulary() for part in self.parts)
    for part, other in zip(self.parts[1:], others, strict=True):
      if other.sha256 != first.sha256:
        raise UsageError(
          f"'{self.name}' mixes corpora with different vocabularies, {first.path} and {other.path}: give them one, "
          f"such as --gin.{part.corpus.name}.vocabulary={first.path}"
        )
    return first


REGISTERED: dict[str, Registration] = {}
"""What is registered so far; `registration` looks up a name."""


@dataclasses.dataclass(frozen=True)
class Mirror:
  """Another registry that holds the same mixtures.

  Attributes:
    add, remove: take over a mixture, or forget it.
    find: looks up a mixture or task that other code has added there; None if there is none.
  """

  add: Callable[[Registration], None]
  remove: Callable[[Registration], None]
  find: Callable[[str], Registration | None]


_MIRRORS: list[Mirror] = []


def add_mirror(mirror: Mirror) -> None:
  """Adds a mirror, which takes over all that is registered, now and later."""
  for registered in REGISTERED.values():
    mirror.add(registered)
  _MIRRORS.append(mirror)


def registration(name: str, others: Sequence[str] = ()) -> Registration:
  """Looks up a registered mixture or task; UsageError if there is none. `others` are more known names, to suggest."""
  if name in OWN:
    _settle(OWN[name])
  own = next((registered for registered in REGISTERED.values() if name in registered.names), None)
  if own is None:
    mirrored = next(filter(None, (mirror.find(name) for mirror in _MIRRORS)), None)
    if mirrored is None:
      raise _unknown(name, [*others, *(other for entry in REGISTERED.values() for other in entry.names)])
    return mirrored
  if not own.is_corpus:
    return own
  of_one = {language: 1.0 for language, task in own.corpus.task_names.items() if task == name}
  return of_parts(name, [dataclasses.replace(own.parts[0], rates=of_one or own.parts[0].rates)])


def of_parts(mixture: str, parts: Sequence[CorpusPart]) -> Registration:
  """Returns a mixture or task of parts without the languages that have the rate 0; XmcapError if all have."""
  kept = []
  for part in parts:
    languages = languages_lib.ordered(language for language, rate in part.rates.items() if rate)
    if languages:
      kept.append(
        dataclasses.replace(part, rates={language: float(part.rates[language]) for language in languages})
      )
  if not kept:
    raise XmcapError(f"'{mixture}' gives every language the rate 0: nothing can be drawn")
  return Registration(mixture, tuple(kept))


def _unknown(mixture: str, names: Sequence[str]) -> UsageError:
  """Returns the error for an unknown mixture."""
  nearest = difflib.get_close_matches(mixture, sorted(names), n=1, cutoff=0.4)
  hint = f"did you mean '{nearest[0]}'?" if nearest else "import the module that registers it"
  return UsageError(f"no seqio mixture or task is named '{mixture}': {hint}")
