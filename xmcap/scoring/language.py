"""The scores of one language's captions: words, then each metric's statistics, then health."""

import dataclasses
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
from xmcap.scoring.metrics import document_frequency as document_frequency_lib
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.terminal import shown

MAX_CAPTION = 10_000
"""Characters of a caption. Some normalisations and segmenters take a time that grows with the square of the length."""


@dataclasses.dataclass
class Captions:
  """The captions of one language: of I images the keys, hypotheses and references.

  Attributes:
    tokenized: the references as the release splits them; None unless the tokeniser needs them.
  """

  keys: list[str] = dataclasses.field(default_factory=list)
  hypotheses: list[str] = dataclasses.field(default_factory=list)
  references: list[Sequence[str]] = dataclasses.field(default_factory=list)
  tokenized: list[Sequence[str]] | None = None


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """The words that the metrics saw, joined by spaces: of each hypothesis, and of each image's references."""

  hypotheses: tuple[str, ...]
  references: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Scored:
  """The outcome of one language.

  Attributes:
    values: metric -> float64 [I, k], its statistics in the order of the captions.
    num_references: how many reference captions there are.
    tokenizer: version of the tokeniser that found the words.
    document_frequency_hash: of the document frequencies that weighed the n-grams.
    references_hash: of the keys and references, whatever their order.
    health: None unless asked for.
    words: None unless kept.
    document_frequency: None unless kept.
  """

  values: dict[str, np.ndarray]
  num_references: int
  tokenizer: str
  document_frequency_hash: str
  references_hash: str
  health: health_lib.Health | None
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
  """Scores the captions of one language.

  Sums of floats depend on their order, so all is computed in alphabetical order of the keys and references: the order
  of a file changes no bit.

  Args:
    language: its code.
    captions: the captions.
    metrics: names.
    tokenizer: name.
    document_frequency: of another corpus; None: that of the references.
    health: whether to measure the captions' health.
    keep: what to return beside the scores: `words`, `document_frequency`.

  Raises:
    UsageError: a caption is too long, or `tokenized` does not fit the references.
    XmcapError: a word segmenter or another package is not installed.
  """
  _check(language, captions)
  found = tokenizers.get(tokenizer, language)
  order = sorted(range(len(captions.keys)), key=captions.keys.__getitem__)
  ordered = _sorted(captions, order)
  corpus = _corpus(ordered, found, document_frequency)
  values = {}
  for name in metrics:
    statistics = metrics_lib.METRICS[name].statistics(corpus)
    values[name] = np.empty_like(statistics)
    values[name][order] = statistics
  if document_frequency is not None:
    fingerprint = document_frequency.fingerprint
  else:
    fingerprint = document_frequency_lib.fingerprint(corpus.ngrams)
  measured = None
  if health:
    measured = health_lib.measure(
      language, ordered.hypotheses, corpus.hypotheses, corpus.references, ordered.references
    )
  return Scored(
    values,
    sum(map(len, captions.references)),
    found.version,
    fingerprint,
    _hash(ordered),
    measured,
    _words(corpus, captions, order) if "words" in keep else None,
    DocumentFrequency.of(corpus.ngrams) if "document_frequency" in keep else None,
  )


def _check(language: str, captions: Captions) -> None:
  for key, hypothesis, texts in zip(captions.keys, captions.hypotheses, captions.references, strict=True):
    longest = max(len(hypothesis), *map(len, texts))
    if longest > MAX_CAPTION:
      raise UsageError(
        f"{language}, image '{shown(key)}': a caption of {longest:,} characters; at most {MAX_CAPTION:,} are "
        "scored: shorten or remove it"
      )
  tokenized = captions.tokenized
  if tokenized is not None and list(map(len, tokenized)) != list(map(len, captions.references)):
    raise UsageError(
      f"{language}: tokeniser 'given' needs as many texts in caption/tokenized as an image has references"
    )


def _sorted(captions: Captions, order: Sequence[int]) -> Captions:
  """Returns the captions with their images in the given order, and the references of each sorted."""
  references = [captions.references[place] for place in order]
  tokenized = None
  if captions.tokenized is not None:
    # The words of two equal captions may differ, so they are sorted in pairs.
    tokenized = [
      [words for _, words in sorted(zip(texts, captions.tokenized[place], strict=True))]
      for place, texts in zip(order, references, strict=True)
    ]
  return Captions(
    [captions.keys[place] for place in order],
    [captions.hypotheses[place] for place in order],
    list(map(sorted, references)),
    tokenized,
  )


def _corpus(
  captions: Captions, tokenizer: tokenizers.Tokenizer, document_frequency: DocumentFrequency | None
) -> metrics_lib.Corpus:
  counts = np.fromiter(map(len, captions.references), np.int64, len(captions.references))
  if captions.tokenized is None:
    words = tokenizer.words(metrics_lib.interleave(captions.hypotheses, captions.references))
    return metrics_lib.Corpus.of_words(words, counts, document_frequency)
  texts, given = (
    list(itertools.chain.from_iterable(lists)) for lists in (captions.references, captions.tokenized)
  )
  words = iter(tokenizer.tokenize_references(texts, given))
  references = [list(itertools.islice(words, count)) for count in counts.tolist()]
  return metrics_lib.Corpus(tokenizer.tokenize(captions.hypotheses), references, document_frequency)


def _hash(captions: Captions) -> str:
  """Returns 16 hex digits of sorted keys and references."""
  held = captions.keys, captions.references
  try:
    # MessagePack says how many texts there are and how long each is, so that no two lists give the same bytes.
    encoded = msgspec.msgpack.encode(held)
  except UnicodeEncodeError:  # half a surrogate pair, which no file holds, but a caller may
    encoded = json.dumps(held).encode()
  return hashlib.sha256(encoded).hexdigest()[:16]


def _words(corpus: metrics_lib.Corpus, captions: Captions, order: Sequence[int]) -> Tokenized:
  """Returns the words of a sorted corpus in the order of the captions that were given."""
  hypotheses, references = [""] * len(order), [()] * len(order)
  for place, hypothesis, words in zip(order, corpus.hypotheses, corpus.references, strict=True):
    texts = captions.references[place]
    if captions.tokenized is not None:
      texts = list(zip(texts, captions.tokenized[place], strict=True))
    in_order = [""] * len(texts)
    for number, of_text in zip(sorted(range(len(texts)), key=texts.__getitem__), words, strict=True):
      in_order[number] = " ".join(of_text)
    hypotheses[place], references[place] = " ".join(hypothesis), tuple(in_order)
  return Tokenized(tuple(hypotheses), tuple(references))
