"""What a stream draws from each corpus of its mixture: the records, and the languages and sources of captions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap.data import records
from xmcap.data.language_weights import language_weights
from xmcap.data.mixed_source import MixedSource
from xmcap.data.order import MixedOrder, Order
from xmcap.data.records import Caption, Record, RecordSource
from xmcap.data.tasks import Registration
from xmcap.errors import UsageError


@dataclasses.dataclass(frozen=True)
class StreamPart:
  """The part of a stream that is drawn from one corpus.

  Attributes:
    name: name of the corpus.
    source: the records of its split.
    weights: code -> weight above 0 of each language to draw.
    sources: sources of captions to draw; (): all.
    prefix: `NAME/` if there are several corpora, because these may have equal keys; it comes before keys.
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
  registered: Registration,
  split: str,
  *,
  languages: Sequence[str],
  weights: str | Mapping[str, float],
  temperature: float,
  sources: Sequence[str],
  stream: str = "CaptionStream",
) -> tuple[StreamPart, ...]:
  """Returns the parts of a stream over a mixture; the arguments are those of `CaptionStream`.

  `stream` names the stream in messages.

  Raises:
    UsageError: a corpus lacks the split, or has none of the languages or sources.
  """
  chosen = language_weights(registered.rates, languages, weights, temperature)
  check_sources(sources, f"{stream}.sources")
  parts = []
  for name, part in registered.named.items():
    held = [code for code in part.rates if code in chosen]
    if not held:
      raise UsageError(
        f"{stream}.languages: {name}, a part of {registered.name}, has none of {' '.join(chosen)}: "
        "use a mixture without it"
      )
    given = weights if isinstance(weights, str) else {code: weights[code] for code in held}
    of_part = part.sources or tuple(sources)
    both = tuple(source for source in of_part if not sources or source in sources)
    if of_part and not both:
      raise UsageError(
        f"{stream}.sources: {name}, a part of {registered.name}, has only {', '.join(part.sources)}: "
        "use a mixture without it"
      )
    of_languages = language_weights(part.rates, held, given, temperature)
    prefix = f"{name}/" if len(registered.parts) > 1 else ""
    parts.append(StreamPart(name, part.source(split), of_languages, both, prefix))
  return tuple(parts)


def join(
  parts: Sequence[StreamPart], registered: Registration, split: str, seed: int
) -> tuple[RecordSource | MixedSource, Order]:
  """Returns the records of all parts of a stream, and the order in which it reads them."""
  sizes = [len(part.source) for part in parts]
  if len(parts) == 1:
    return parts[0].source, Order(seed, sizes)
  return MixedSource({part.name: part.source for part in parts}, split), MixedOrder(
    seed, sizes, registered.places()
  )


def parts_of(stream: Any) -> Sequence[StreamPart]:
  """Returns the parts of a stream; for one that draws no captions by parts, its source and languages as one."""
  whole = StreamPart("", stream.source, dict.fromkeys(getattr(stream, "languages", ()), 1.0))
  return getattr(stream, "parts", None) or (whole,)


def check_sources(sources: Sequence[str], where: str) -> None:
  """Raises UsageError if one of the sources of captions does not exist."""
  unknown = [source for source in sources if source not in records.SOURCES]
  if unknown:
    raise UsageError(
      f"{where}: '{unknown[0]}' is no source of captions: give some of {', '.join(records.SOURCES)}"
    )
