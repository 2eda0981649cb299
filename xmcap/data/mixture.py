"""The mixture of a stream: the records of its corpora as one source, and what it draws from each."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import records
from xmcap.data.order import MixedOrder, Order
from xmcap.data.records import Caption, Record, RecordSource, parse
from xmcap.data.registry import Registration
from xmcap.errors import UsageError

T = TypeVar("T")

_WEIGHTS = ("rates", "uniform", "count")


class MixedSource:
  """The records of several corpora, one corpus after the other; it is read like a `RecordSource`.

  Args:
    sources: the records of each corpus, by a name for messages.
    split: the split of the mixture.

  Attributes:
    directory: the folders, for messages.
    is_remote: whether a corpus is in a bucket.
    sizes: those of the sources; their names are NAME:SPLIT.
  """

  def __init__(self, sources: dict[str, RecordSource], split: str):
    self.split = split
    self.directory = " + ".join(source.directory for source in sources.values())
    self.sizes = {
      f"{name}:{of}": size for name, source in sources.items() for of, size in source.sizes.items()
    }
    self._sources = list(sources.values())
    self.is_remote = any(source.is_remote for source in self._sources)
    self._starts = np.cumsum([0, *map(len, self._sources)])

  def __len__(self) -> int:
    return int(self._starts[-1])

  def iterate(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """Like `RecordSource.iterate`. In a bucket, all corpora are read ahead at the same time."""
    chosen = np.asarray(indices, np.int64).reshape(-1)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    parts = np.searchsorted(self._starts, chosen, side="right") - 1
    local = chosen - self._starts[parts]
    records = [
      source.iterate(local[parts == part], parse) if (parts == part).any() else iter(())
      for part, source in enumerate(self._sources)
    ]
    for part in parts.tolist():
      yield next(records[part])

  def read(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> list[T]:
    """Like `iterate`, as a list."""
    return list(self.iterate(indices, parse))


@dataclasses.dataclass(frozen=True)
class StreamPart:
  """The part of a stream that is drawn from one corpus.

  Attributes:
    name: name of the corpus.
    source: the records of its split.
    weights: code -> weight above 0 of each language to draw.
    sources: sources of captions to draw; (): all.
    prefix: put before keys; `NAME/` if there are several corpora, which may have equal keys.
  """

  name: str
  source: RecordSource
  weights: Mapping[str, float]
  sources: tuple[str, ...] = ()
  prefix: str = ""

  def captions(self, record: Record) -> list[Caption]:
    """Returns the captions of a record that may be drawn; all, if there are no weights."""
    return [
      caption
      for caption in record.captions
      if (not self.weights or caption.language in self.weights)
      and (not self.sources or caption.source in self.sources)
    ]


def open_parts(
  stream: Any, registered: Registration, temperature: float = 1.0
) -> tuple[tuple[StreamPart, ...], RecordSource | MixedSource, Order]:
  """Returns the parts of a stream over a mixture, the records of all parts, and the order in which it reads them.

  The stream has `split`, `seed`, `neighbours`, `languages`, `language_weights` and `sources` as `CaptionStream`.

  Raises:
    UsageError: a corpus lacks the split, or has none of the languages or sources; or a weight is wrong.
  """
  where = type(stream).__name__
  weights, sources, split = stream.language_weights, stream.sources, stream.split
  if not temperature > 0:
    raise UsageError(f"{where}.temperature is {temperature}: give a number above 0")
  chosen = _weights_of(registered.rates, stream.languages, weights, where)
  records.check_sources(sources, f"{where}.sources")
  parts = []
  for name, part in registered.named.items():
    languages = [language for language in part.rates if language in chosen]
    if not languages:
      raise UsageError(
        f"{where}.languages: {name}, a part of {registered.name}, has none of {' '.join(chosen)}: "
        "use a mixture without it"
      )
    both = tuple(source for source in part.sources or sources if not sources or source in sources)
    if part.sources and not both:
      raise UsageError(
        f"{where}.sources: {name}, a part of {registered.name}, has only {', '.join(part.sources)}: "
        "use a mixture without it"
      )
    asked = weights if isinstance(weights, str) else {language: weights[language] for language in languages}
    of_part = _weights_of(part.rates, languages, asked, where)
    tempered = {
      language: of_part[language] ** (1 / temperature) for language in languages_lib.ordered(of_part)
    }
    prefix = f"{name}/" if len(registered.parts) > 1 else ""
    parts.append(StreamPart(name, part.source(split), tempered, both, prefix))
  if len(parts) == 1:
    return tuple(parts), parts[0].source, Order(stream.seed, [len(parts[0].source)], stream.neighbours)
  source = MixedSource({part.name: part.source for part in parts}, split)
  sizes = [len(part.source) for part in parts]
  order = MixedOrder(stream.seed, sizes, registered.places(), stream.neighbours)
  return tuple(parts), source, order


def _weights_of(
  rates: Mapping[str, float], languages: Sequence[str], weights: str | Mapping[str, float], where: str
) -> dict[str, float]:
  """Returns code -> weight above 0 of each language to draw; 1 for `count`, as each image has its own weights."""
  _check_held(languages, rates, f"{where}.languages")
  weight_of = dict.fromkeys(languages or rates, 1.0)
  if isinstance(weights, Mapping):
    _check_held(weights, weight_of, f"{where}.language_weights")
    bad = [language for language, weight in weights.items() if not 0 <= weight < math.inf]
    if bad:
      raise UsageError(
        f"{where}.language_weights: '{bad[0]}' has {weights[bad[0]]}: give a number of at least 0"
      )
    weight_of = {language: float(weight) for language, weight in weights.items() if weight}
  elif weights == "rates":
    weight_of = {language: rates[language] for language in weight_of}
  elif weights not in _WEIGHTS:
    raise UsageError(
      f"{where}.language_weights is {weights!r}: give {', '.join(_WEIGHTS)}, or weights by language"
    )
  if not weight_of:
    raise UsageError(f"{where}.language_weights are all 0: nothing can be drawn")
  return weight_of


def _check_held(languages: Iterable[str], available: Mapping[str, float], name: str) -> None:
  absent = [language for language in languages if language not in available]
  if absent:
    raise UsageError(f"{name}: '{absent[0]}' is not one of the available languages: {' '.join(available)}")


def parts_of(stream: Any) -> Sequence[StreamPart]:
  """Returns the parts of a stream; for one that draws no captions by parts, its source and languages as one."""
  whole = StreamPart("", stream.source, dict.fromkeys(getattr(stream, "languages", ()), 1.0))
  return getattr(stream, "parts", None) or (whole,)
