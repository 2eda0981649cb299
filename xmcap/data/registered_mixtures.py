"""Mixtures of several corpora, each with a rate, languages, and sources of captions.

A gin file names the parts of a mixture:

  mixtures.coco35l_coco_cn = [
      {'corpus': 'coco_35l', 'rate': 3},
      {'corpus': 'coco_cn', 'rate': 1, 'languages': ('zh',), 'sources': ('human',), 'splits': {'validation': 'val'}},
  ]
  CaptionStream.mixture = 'coco35l_coco_cn'

and so does Python, with `register_mixture(name, parts)`. The corpora need one vocabulary. A stream draws the images
by the rates (order.py). seqio has a mixture of the same name with the same rates, as soon as `registration` has looked
it up; `register_mixture` does that at once, unless a corpus is the user's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import gin
import msgspec

from xmcap import configuration
from xmcap.data import records
from xmcap.data import registered_corpora as corpora
from xmcap.data.registered_corpora import CorpusPart, Registration
from xmcap.errors import UsageError, one_line


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The part of a mixture that is taken from a corpus; see `mixtures` for the fields.

  `corpus` may also be a part of a corpus, or a task. A split of the corpus may be a part of one, such as `train[:10%]`.
  """

  corpus: str
  rate: float = 1.0
  languages: tuple[str, ...] = ()
  sources: tuple[str, ...] = ()
  splits: Mapping[str, str] = {}


@gin.configurable
def mixtures(**parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
  """Mixtures of corpora by name.

  Args:
    parts: the mixture NAME: a list with a dictionary per corpus: `corpus`, its name; `rate`, in images, relative to
      the others; `languages` and `sources` (`human`, `mt`, `translated`), by default all; and `splits`, a dictionary
      from splits of the mixture to splits of the corpus, where they differ.
  """
  return parts


_PYTHON: dict[str, Sequence[Part]] = {}


def register_mixture(name: str, parts: Sequence[Part | Mapping[str, Any]]) -> None:
  """Registers a mixture of corpora, for streams and for seqio.

  Raises:
    UsageError: the name is taken, a corpus, language or source is unknown, or a rate is not above 0 or too small.
  """
  if name in corpora.REGISTERED or name in corpora.OWN:
    raise _taken(name)
  _PYTHON[name] = _parsed(name, parts)
  if not any(part.corpus in corpora.OWN for part in _PYTHON[name]):
    _settle(name)


def registration(mixture: str) -> Registration:
  """Looks up a mixture or task; UsageError if there is none, or its tasks do not belong to registered corpora."""
  _settle(mixture)
  return corpora.registration(mixture, _names())


def _names() -> list[str]:
  """Returns the names of the mixtures that are configured in gin or Python."""
  return [*configuration.bound(mixtures), *_PYTHON]


def _settle(name: str) -> None:
  """Registers the mixture of this name that is configured in gin or Python, if there is one, as it is now."""
  configured = configuration.bound(mixtures)
  if name in configured:
    parts = _parsed(name, configured[name])
  elif name in _PYTHON:
    parts = _PYTHON[name]
  else:
    return
  earlier = corpora.REGISTERED.get(name)
  if name in corpora.OWN or (earlier and earlier.is_corpus):
    raise _taken(name)
  settled = Registration(name, tuple(_resolved(name, part) for part in parts))
  if settled != earlier:
    settled.places()
    corpora.register(settled)


def _parsed(name: str, parts: Sequence[Part | Mapping[str, Any]]) -> Sequence[Part]:
  """Returns the parts of a mixture; UsageError if one has a wrong type."""
  try:
    parsed = [
      part if isinstance(part, Part) else msgspec.convert(part, Part) for part in msgspec.convert(parts, list)
    ]
  except msgspec.ValidationError as error:
    raise UsageError(
      f"mixture '{name}': {one_line(error)}: give a list of dictionaries as in docs/data.md"
    ) from None
  if not parsed:
    raise UsageError(f"mixture '{name}' is empty: give at least one corpus")
  return parsed


def _resolved(name: str, part: Part) -> CorpusPart:
  where = f"mixture '{name}', {part.corpus}"
  if part.corpus in _names():
    raise UsageError(f"{where}: it is a mixture too: give the names of corpora")
  of = corpora.registration(part.corpus)
  if not 0 < part.rate < float("inf"):
    raise UsageError(f"{where}: the rate is {part.rate:g}: give a number above 0")
  absent = [language for language in part.languages if language not in of.rates]
  if absent:
    raise UsageError(f"{where}: it has no language '{absent[0]}': give some of {' '.join(of.rates)}")
  records.check_sources(part.sources, where)
  rates = {language: of.rates[language] for language in part.languages or of.rates}
  return CorpusPart(of.corpus, rates, part.rate, part.sources, dict(part.splits))


def _taken(name: str) -> UsageError:
  return UsageError(f"mixture '{name}': a corpus or mixture has this name: give another")


@gin.configurable
def vocabulary_rows(mixture: str) -> int:
  """Returns the number of embedding rows for the vocabulary of a corpus: the vocab_size of a model for it.

  Args:
    mixture: name of the mixture.
  """
  return registration(mixture).vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """Returns the number of tags of a corpus: the num_classes of a tagger for it.

  Args:
    mixture: name of the mixture.
  """
  return len(records.read_tags(registration(mixture).corpus.location().data_dir))
