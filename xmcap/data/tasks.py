"""Registers corpora as seqio tasks, one per language, and one mixture over them.

`register_corpus("emoji36")` makes the tasks `emoji36_ar` ... `emoji36_zh` and the mixture `emoji36`, which
any seqio code can use:

  seqio.get_mixture_or_task("emoji36").get_dataset(sequence_length={"image": 64, "targets": 32})

An example has `image` uint8 [H, W, 3], `inputs` int32 [P] (the LangId prompt) and `targets` int32 [T], including EOS.
seqio reads and decodes a picture again for each of its captions. `xmcap.data.stream` reads it once, and takes the
languages, their rates, the records and the vocabulary from the same registration. The seqio part is in
`seqio_tasks.py`, which is only imported if seqio is.

Gin gives the location of a corpus, which is needed only for reading:

  emoji36.data_dir = "/data/emoji36"
  emoji36.vocabulary = "/data/emoji36/vocabulary.model"
"""

import dataclasses
import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import gin
import numpy as np
import wrapt

from xmcap import languages as languages_lib
from xmcap.data import records
from xmcap.data.records import RecordSource, read_tags
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import addresses


@dataclasses.dataclass(frozen=True)
class Location:
  """The folder of a corpus's records, its vocabulary file, and a subset as in `xmcap score --subset`, or ""."""

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

  def source(self, split: str) -> RecordSource:
    """Returns the records of a split, or of a part of one in TFDS's notation; raises as `RecordSource`."""
    place = self.location()
    for part in split.split("+"):
      name = part.split("[")[0].strip()
      if name not in self.splits:
        raise UsageError(
          f"{self.name} has no split '{name}', only {', '.join(self.splits)}: give one of these"
        )
    return _source(place.data_dir, split, place.subset)

  def vocabulary(self) -> Vocabulary:
    """Returns the vocabulary; UsageError if its file does not exist."""
    return _vocabulary(self.location().vocabulary)


@functools.cache
def _source(directory: str, split: str, subset: str) -> RecordSource:
  source = RecordSource(directory, split)
  if not subset:
    return source
  from xmcap.scoring import subsets  # only a subset needs it

  places = {record.key: place for place, record in enumerate(source)}
  chosen, label = subsets.choose(subset, places)
  return source.subset(np.sort([places[key] for key in chosen]), label)


_vocabulary = functools.cache(Vocabulary)


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
  codes = [languages_lib.get(language).code for language in languages]
  rates = dict(rates) if rates is not None else dict.fromkeys(codes, 1.0)
  if set(rates) != set(codes) or min(rates.values()) < 0 or not sum(rates.values()):
    raise UsageError(f"corpus {name}: give a rate of at least 0 for exactly its languages")
  corpus = RegisteredCorpus(
    name, tuple(codes), tuple(splits), gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  )
  _register(corpus, rates)
  return corpus


_OWN: dict[str, RegisteredCorpus] = {}


def register_own(name: str, *, build_hint: str = "") -> RegisteredCorpus:
  """Registers a corpus of own pictures, whose languages and splits are read from its folder on first use.

  `registration(name)` then makes its tasks and mixture, as does `register_built`.
  """
  location = gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  return _OWN.setdefault(name, RegisteredCorpus(name, (), (), location))


def register_built(name: str, data_dir: str, vocabulary: str = "") -> RegisteredCorpus:
  """Registers the corpus in a folder that `xmcap data build folder` made: tasks NAME_LANGUAGE and the mixture NAME.

  Raises:
    UsageError: there is no such corpus, or the name is taken.
  """
  if name in {*_REGISTERED, *_OWN}:
    raise UsageError(f"a seqio mixture or task is already named '{name}': give another name")
  _OWN[name] = RegisteredCorpus(name, (), (), functools.partial(_locate(name, ""), data_dir, vocabulary))
  return registration(name).corpus


def _settle(name: str) -> None:
  """Registers own pictures with their present languages and splits, again if these have changed."""
  directory = _OWN[name].location().data_dir
  found = dataclasses.replace(
    _OWN[name], languages=records.read_languages(directory), splits=tuple(records.splits(directory))
  )
  held = _REGISTERED.get(name)
  if held and (held.corpus.languages, held.corpus.splits) == (found.languages, found.splits):
    return
  if held and "seqio" in sys.modules:
    from xmcap.data import seqio_tasks

    seqio_tasks.remove(held.corpus)
  _register(found, dict.fromkeys(found.languages, 1.0))


def register_part(
  name: str, of: RegisteredCorpus, *, splits: Sequence[str] = (), subset: str = ""
) -> RegisteredCorpus:
  """Registers a part of a corpus under its own name: some of its splits, or a subset of its pictures.

  Its location is that of the corpus. The subset is as for `xmcap score --subset`: `xm600:SEED` draws 600 pictures. In
  gin, `NAME.subset` chooses another.
  """
  default = subset

  def locate(subset: str = default) -> Location:
    """The pictures of a part of a corpus.

    Args:
      subset: a file with one key per line, or `xm600:SEED`.
    """
    return dataclasses.replace(of.location(), subset=subset)

  location = gin.configurable(name, module="xmcap.tasks")(locate) if subset else of.location
  part = RegisteredCorpus(name, of.languages, tuple(splits) or of.splits, location)
  _register(part, dict.fromkeys(of.languages, 1.0))
  return part


def task_names(corpus: RegisteredCorpus) -> dict[str, str]:
  """Returns language -> name of its task; seqio does not allow dashes in names."""
  return {code: f"{corpus.name}_{code.replace('-', '_')}" for code in corpus.languages}


def _register(corpus: RegisteredCorpus, rates: Mapping[str, float]) -> None:
  registered = _REGISTERED[corpus.name] = Registration(corpus, rates)

  def add(_seqio) -> None:
    if _REGISTERED[corpus.name] is registered:
      from xmcap.data import seqio_tasks

      seqio_tasks.add(corpus, rates)

  # Runs at once if seqio is imported. seqio imports TensorFlow, for which captioning and `--explain` should not wait.
  wrapt.register_post_import_hook(add, "seqio")


@dataclasses.dataclass(frozen=True)
class Registration:
  """The corpus of a mixture or task, and the rate of each of its languages (all above 0)."""

  corpus: RegisteredCorpus
  rates: Mapping[str, float]

  @property
  def names(self) -> list[str]:
    """Names of the mixture and the tasks."""
    return [self.corpus.name, *task_names(self.corpus).values()]


_REGISTERED: dict[str, Registration] = {}


def registration(mixture: str) -> Registration:
  """Looks up a mixture or task; UsageError if there is none, or its tasks do not belong to one registered corpus."""
  if mixture in _OWN:
    _settle(mixture)
  own = next((held for held in _REGISTERED.values() if mixture in held.names), None)
  if own is None and "seqio" in sys.modules:
    from xmcap.data import seqio_tasks

    return seqio_tasks.registration(mixture)
  if own is None:
    raise unknown(mixture, [name for held in _REGISTERED.values() for name in held.names])
  of_one = {code: 1.0 for code, name in task_names(own.corpus).items() if name == mixture}
  return of_rates(mixture, own.corpus, of_one or own.rates)


def of_rates(mixture: str, corpus: RegisteredCorpus, rates: Mapping[str, float]) -> Registration:
  """Returns the registration of a mixture or task with these rates; XmcapError if all are 0."""
  rates = {language: float(rates[language]) for language in languages_lib.ordered(rates) if rates[language]}
  if not rates:
    raise XmcapError(f"'{mixture}' gives every language the rate 0: nothing can be drawn")
  return Registration(corpus, rates)


def unknown(mixture: str, known: Iterable[str]) -> UsageError:
  """Returns the error for an unknown mixture."""
  nearest = difflib.get_close_matches(mixture, sorted(known), n=1, cutoff=0.4)
  hint = f"did you mean '{nearest[0]}'?" if nearest else "import the module that registers it"
  return UsageError(f"no seqio mixture or task is named '{mixture}': {hint}")


@gin.configurable
def vocabulary_rows(mixture: str) -> int:
  """Returns the number of embedding rows for the vocabulary of a corpus: the vocab_size of a model for it.

  Args:
    mixture: name of the mixture.
  """
  return registration(mixture).corpus.vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """Returns the number of tags of a corpus: the num_classes of a tagger for it.

  Args:
    mixture: name of the mixture.
  """
  return len(read_tags(registration(mixture).corpus.location().data_dir))
