"""Scores the captions of one language: tokenises, computes the statistics of each metric, then health."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import health as health_lib
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tokenizers
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.words import Words


@dataclasses.dataclass(frozen=True)
class Captions:
  """Keys, hypotheses and references of I images in one language, sorted by key.

  Attributes:
    tokenized: the references as tokenised in the release; empty unless the tokeniser needs them.
  """

  keys: list[str]
  hypotheses: list[str]
  references: list[Sequence[str]]
  tokenized: list[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """The words that the metrics saw.

  They are stored as numbers, which come from a worker much faster than strings, and joined on demand.

  Attributes:
    words: words of each image's hypothesis, then of its references.
    order: for each image and reference in the given order, its index among the sorted references in `words`.
  """

  words: Words
  order: tuple[tuple[int, ...], ...]

  @property
  def hypotheses(self) -> tuple[str, ...]:
    """The words of each hypothesis, joined by spaces."""
    return tuple(of_image[0] for of_image in self._joined)

  @property
  def references(self) -> tuple[tuple[str, ...], ...]:
    """The words of each image's references, joined by spaces."""
    return tuple(
      tuple(of_image[1 + place] for place in places)
      for of_image, places in zip(self._joined, self.order, strict=True)
    )

  @functools.cached_property
  def _joined(self) -> list[list[str]]:
    captions = iter(self.words.texts())
    return [list(itertools.islice(captions, 1 + len(places))) for places in self.order]


@dataclasses.dataclass(frozen=True)
class Scored:
  """The result for one language; what was not requested is None.

  Attributes:
    tokenizer: version of the tokeniser.
    document_frequency_hash: hash of the document frequencies that weighted the n-grams.
    references_hash: hash of the keys and references, independent of their order.
    health: lacks `copy`, which is computed from the `marks` of all languages.
  """

  statistics: Statistics
  tokenizer: str
  document_frequency_hash: str
  references_hash: str
  health: health_lib.Health | None
  marks: np.ndarray | None
  words: Tokenized | None
  document_frequency: DocumentFrequency | None


def score_language(
  language: str,
  captions: Captions,
  metrics: Sequence[str],
  tokenizer: str,
  document_frequency: DocumentFrequency | None = None,
  health: bool = False,
  keep: Collection[str] = (),
) -> Scored:
  """Scores the captions of one language; the arguments are those of `score.score`.

  Raises:
    UsageError: `tokenized` does not fit the references.
    XmcapError: a word segmenter or another package is not installed.
  """
  _check(language, captions)
  found = tokenizers.get(tokenizer, language)
  # Sums of floats depend on their order. Sorting the references makes scores independent of the order in the file.
  references = list(map(sorted, captions.references))
  corpus = _corpus(found, captions, references, document_frequency)
  values = {name: metrics_lib.CAPTION_METRICS[name].statistics(corpus) for name in metrics}
  of_references = DocumentFrequency.of(corpus.ngrams)
  measured = marks = None
  if health:
    texts = metrics_lib.interleave(captions.hypotheses, references)
    measured = health_lib.measure(language, texts, corpus.ngrams)
    marks = health_lib.marks(captions.keys, captions.hypotheses)
  return Scored(
    Statistics(tuple(captions.keys), values, sum(map(len, references))),
    found.version,
    (document_frequency or of_references).fingerprint,
    _hash(captions.keys, references),
    measured,
    marks,
    Tokenized(corpus.words, _order(captions)) if "words" in keep else None,
    of_references if "document_frequency" in keep else None,
  )


def _check(language: str, captions: Captions) -> None:
  if captions.tokenized and list(map(len, captions.tokenized)) != list(map(len, captions.references)):
    raise UsageError(f"{language}: tokeniser 'given' needs a caption/tokenized for each reference")


def _corpus(
  tokenizer: tokenizers.Tokenizer,
  captions: Captions,
  references: Sequence[Sequence[str]],
  document_frequency: DocumentFrequency | None,
) -> metrics_lib.Corpus:
  counts = np.fromiter(map(len, references), np.int64, len(references))
  if not captions.tokenized:
    words = tokenizer.words(metrics_lib.interleave(captions.hypotheses, references))
    return metrics_lib.Corpus.of_words(words, counts, document_frequency)
  # Equal captions may be tokenised differently, so pairs are sorted.
  pairs = itertools.chain.from_iterable(map(sorted, _pairs(captions)))
  flat = iter(tokenizer.tokenize_references(*map(list, zip(*pairs, strict=True))))
  words = [list(itertools.islice(flat, count)) for count in counts.tolist()]
  return metrics_lib.Corpus(tokenizer.tokenize(captions.hypotheses), words, document_frequency)


def _pairs(captions: Captions) -> list[list[tuple[str, str]]]:
  """Returns for each image its references, each with the release's tokenised form."""
  return [
    list(zip(texts, words, strict=True))
    for texts, words in zip(captions.references, captions.tokenized, strict=True)
  ]


def _hash(keys: Sequence[str], references: Sequence[Sequence[str]]) -> str:
  """Returns a hash of the keys and references as 16 hex digits."""
  try:
    # MessagePack stores counts and lengths, so different lists never give the same bytes.
    encoded = msgspec.msgpack.encode((keys, references))
  except UnicodeEncodeError:  # an unpaired surrogate: impossible in a file, but a caller may pass one
    encoded = json.dumps((keys, references)).encode()
  return hashlib.sha256(encoded).hexdigest()[:16]


def _order(captions: Captions) -> tuple[tuple[int, ...], ...]:
  """Returns for each image the index of each reference after sorting."""
  orders = []
  for pairs in _pairs(captions) if captions.tokenized else captions.references:
    places = range(len(pairs))
    order = sorted(places, key=pairs.__getitem__)
    orders.append(tuple(map(order.index, places)))
  return tuple(orders)
