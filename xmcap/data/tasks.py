"""Corpora as seqio tasks: one task a language, and one mixture over them.

`register_corpus("emoji36")` makes the tasks `emoji36_ar` ... `emoji36_zh` and the mixture `emoji36`, which
any seqio code can use:

  seqio.get_mixture_or_task("emoji36").get_dataset(sequence_length={"image": 64, "targets": 32})

An example has `image` uint8 [H, W, 3], `inputs` int32 [P] (the LangId prompt) and `targets` int32 [T],
ended by EOS. seqio reads and decodes a picture again for each of its captions; `xmcap.data.stream` takes the
languages, their rates, the records and the vocabulary from the same registration, and reads it once. `seqio_tasks.py`
holds what seqio sees; it is imported when, and only when, seqio is.

Gin gives the location of a corpus, which is asked only when something is read:

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
  """The folder of a corpus's records, the file of its vocabulary, and a subset as of `xmcap score --subset` or ""."""

  data_dir: str
  vocabulary: str
  subset: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class RegisteredCorpus:
  """Image records with captions in several languages, and a vocabulary; `register_corpus` makes one.

  `name` is that of the mixture and of the gin configurable behind `location()`, which raises UsageError if unbound.
  """

  name: str
  languages: tuple[str, ...]
  splits: tuple[str, ...]
  location: Callable[[], Location]

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
    return _source(place.data_dir, split, place.subset)

  def vocabulary(self) -> Vocabulary:
    """The vocabulary; UsageError if there is none at its place."""
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
    """Where a corpus lies: paths, or addresses such as `gs://...`.

    Args:
      data_dir: the folder of the records.
      vocabulary: a SentencePiece model; "": `vocabulary.model` in that folder.
    """
    if not data_dir:
      hint = f" ({build_hint} makes one)" if build_hint else ""
      raise UsageError(f"where the corpus {name} lies is not given: set --gin.{name}.data_dir=DIR{hint}")
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
  """Registers a corpus: a seqio task a language, the mixture, and the gin configurable of its location.

  The mixture has the corpus's name, and the tasks are NAME_LANGUAGE. `rates` say how often a language is drawn,
  relative to the others. `build_hint` is the command that makes the corpus, for the message when it is not there.
  """
  codes = [languages_lib.get(language).code for language in languages]
  rates = dict(rates) if rates is not None else dict.fromkeys(codes, 1.0)
  if set(rates) != set(codes) or min(rates.values()) < 0 or not sum(rates.values()):
    raise UsageError(f"corpus {name}: give each of its languages, and no other, a rate of at least 0")
  corpus = RegisteredCorpus(
    name, tuple(codes), tuple(splits), gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  )
  _register(corpus, rates)
  return corpus


_OWN: dict[str, RegisteredCorpus] = {}


def register_own(name: str, *, build_hint: str = "") -> RegisteredCorpus:
  """Registers a corpus of own pictures, whose languages and splits are found where it lies, when it is first asked for.

  `registration(name)` then makes its tasks and its mixture, and so does `register_built`.
  """
  location = gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  return _OWN.setdefault(name, RegisteredCorpus(name, (), (), location))


def register_built(name: str, data_dir: str, vocabulary: str = "") -> RegisteredCorpus:
  """Registers the corpus in a folder that `xmcap data build folder` made: tasks NAME_LANGUAGE and the mixture NAME.

  Raises:
    UsageError: there is no such corpus, or the name is taken.
  """
  if name in {*_REGISTERED, *_OWN}:
    raise UsageError(f"a seqio mixture or task is named '{name}' already: give another name")
  _OWN[name] = RegisteredCorpus(name, (), (), functools.partial(_locate(name, ""), data_dir, vocabulary))
  return registration(name).corpus


def _settle(name: str) -> None:
  """Registers own pictures as what they are now, anew where they lie elsewhere and have other languages."""
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
  """Registers a part of a corpus under a name of its own: some of its splits, or a subset of its pictures.

  It lies where the corpus lies. The subset is as for `xmcap score --subset`: `xm600:SEED` draws 600. `NAME.subset` in
  gin chooses another.
  """
  default = subset

  def locate(subset: str = default) -> Location:
    """The pictures of a part of a corpus.

    Args:
      subset: a file of keys, one a line, or `xm600:SEED`.
    """
    return dataclasses.replace(of.location(), subset=subset)

  location = gin.configurable(name, module="xmcap.tasks")(locate) if subset else of.location
  part = RegisteredCorpus(name, of.languages, tuple(splits) or of.splits, location)
  _register(part, dict.fromkeys(of.languages, 1.0))
  return part


def task_names(corpus: RegisteredCorpus) -> dict[str, str]:
  """Language -> the name of its task; seqio allows no dash in a name."""
  return {code: f"{corpus.name}_{code.replace('-', '_')}" for code in corpus.languages}


def _register(corpus: RegisteredCorpus, rates: Mapping[str, float]) -> None:
  registered = _REGISTERED[corpus.name] = Registration(corpus, rates)

  def add(_seqio) -> None:
    if _REGISTERED[corpus.name] is registered:
      from xmcap.data import seqio_tasks

      seqio_tasks.add(corpus, rates)

  # At once if seqio is there. It takes TensorFlow with it, which neither captioning nor `--explain` should wait for.
  wrapt.register_post_import_hook(add, "seqio")


@dataclasses.dataclass(frozen=True)
class Registration:
  """The corpus of a mixture or task, and the rate of each language that is drawn (all above 0)."""

  corpus: RegisteredCorpus
  rates: Mapping[str, float]

  @property
  def names(self) -> list[str]:
    """The mixture and the tasks."""
    return [self.corpus.name, *task_names(self.corpus).values()]


_REGISTERED: dict[str, Registration] = {}


def registration(mixture: str) -> Registration:
  """Looks up a mixture or task by name; UsageError if there is none, or its tasks are not of one registered corpus."""
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
  """The registration of a mixture or task with these rates; XmcapError if all are 0."""
  rates = {language: float(rates[language]) for language in languages_lib.ordered(rates) if rates[language]}
  if not rates:
    raise XmcapError(f"'{mixture}' gives every language the rate 0: nothing can be drawn")
  return Registration(corpus, rates)


def unknown(mixture: str, known: Iterable[str]) -> UsageError:
  """The error about a mixture that has none of the known names."""
  nearest = difflib.get_close_matches(mixture, sorted(known), n=1, cutoff=0.4)
  hint = f"did you mean '{nearest[0]}'?" if nearest else "import the module that registers it"
  return UsageError(f"no seqio mixture or task is named '{mixture}': {hint}")


@gin.configurable
def vocabulary_rows(mixture: str) -> int:
  """The rows that the vocabulary of a mixture's corpus needs: the vocab_size of a model made for it.

  Args:
    mixture: its name.
  """
  return registration(mixture).corpus.vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """The classes that the corpus of a mixture has tags for: the num_classes of a tagger made for it.

  Args:
    mixture: its name.
  """
  return len(read_tags(registration(mixture).corpus.location().data_dir))
