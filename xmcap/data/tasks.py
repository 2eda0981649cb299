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
  chosen = subsets.choose(subset, places)
  return source.subset(np.sort([places[key] for key in chosen.keys]), chosen.label)


_vocabulary = functools.cache(Vocabulary)


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

  def locate(data_dir: str = "", vocabulary: str = "") -> Location:
    """The folder of the records and a SentencePiece model, by default `vocabulary.model` in it: paths or `gs://...`."""
    if not data_dir:
      hint = f" ({build_hint} makes one)" if build_hint else ""
      raise UsageError(f"where the corpus {name} lies is not given: set --gin.{name}.data_dir=DIR{hint}")
    data_dir = os.path.expanduser(data_dir)
    return Location(data_dir, os.path.expanduser(vocabulary) or addresses.join(data_dir, "vocabulary.model"))

  codes = [languages_lib.get(language).code for language in languages]
  rates = dict(rates) if rates is not None else dict.fromkeys(codes, 1.0)
  if set(rates) != set(codes) or min(rates.values()) < 0 or not sum(rates.values()):
    raise UsageError(f"corpus {name}: give each of its languages, and no other, a rate of at least 0")
  corpus = RegisteredCorpus(
    name, tuple(codes), tuple(splits), gin.configurable(name, module="xmcap.tasks")(locate)
  )
  _register(corpus, rates)
  return corpus


def register_part(
  name: str, of: RegisteredCorpus, *, splits: Sequence[str] = (), subset: str = ""
) -> RegisteredCorpus:
  """Registers a part of a corpus under a name of its own: some of its splits, or a subset of its pictures.

  It lies where the corpus lies. The subset is as for `xmcap score --subset`: `xm600:SEED` draws 600. `NAME.subset` in
  gin chooses another.
  """
  default = subset

  def locate(subset: str = default) -> Location:
    """The pictures of the part: a file of keys, one a line, or `xm600:SEED`."""
    return dataclasses.replace(of.location(), subset=subset)

  location = gin.configurable(name, module="xmcap.tasks")(locate) if subset else of.location
  part = RegisteredCorpus(name, of.languages, tuple(splits) or of.splits, location)
  _register(part, dict.fromkeys(of.languages, 1.0))
  return part


def _register(corpus: RegisteredCorpus, rates: Mapping[str, float]) -> None:
  _REGISTERED[corpus.name] = Registration(corpus, rates)

  def add(_seqio) -> None:
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
    return [self.corpus.name, *[f"{self.corpus.name}_{code}" for code in self.corpus.languages]]


_REGISTERED: dict[str, Registration] = {}


def registration(mixture: str) -> Registration:
  """Looks up a mixture or task by name; UsageError if there is none, or its tasks are not of one registered corpus."""
  own = next((held for held in _REGISTERED.values() if mixture in held.names), None)
  if own is None and "seqio" in sys.modules:
    from xmcap.data import seqio_tasks

    return seqio_tasks.registration(mixture)
  if own is None:
    raise unknown(mixture, [name for held in _REGISTERED.values() for name in held.names])
  wanted = own.rates if mixture == own.corpus.name else {mixture.removeprefix(f"{own.corpus.name}_"): 1.0}
  return of_rates(mixture, own.corpus, wanted)


def of_rates(mixture: str, corpus: RegisteredCorpus, rates: Mapping[str, float]) -> Registration:
  """The registration of a mixture or task with these rates; XmcapError if all are 0."""
  rates = {language: float(rates[language]) for language in languages_lib.LANGUAGES if rates.get(language)}
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
  """The rows that the vocabulary of a mixture's corpus needs: the vocab_size of a model made for it."""
  return registration(mixture).corpus.vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """The classes that the corpus of a mixture has tags for: the num_classes of a tagger made for it."""
  return len(read_tags(registration(mixture).corpus.location().data_dir))
