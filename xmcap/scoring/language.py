"""Scores the captions of one language: tokenises, computes the statistics of each metric, then health."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import health as health_lib
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tokenizers
from xmcap.scoring.health import fidelity, scripts
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.options import ScoringOptions
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.tokenizers import variants as variants_lib
from xmcap.scoring.tokenizers.words import CaptionWords

MOST_OTHER_WORDS = 0.05
"""Largest share of a language's references that the release may split in another way than the default tokeniser.

Above it `given` is refused: identical captions would have other words. At most this share of references cannot match.
"""

MOST_LETTERS = 5
"""Most letters a word in languages without spaces, on average; segmenters find two in Chinese and three in Thai."""


@dataclasses.dataclass(frozen=True)
class Captions:
  """Keys, hypotheses and references of I images in one language, sorted by key.

  Attributes:
    tokenized: the references as tokenised in the release; empty unless the tokeniser needs them.
    order: the indices of the images in the order of the references' file; empty unless the tokeniser needs it.
  """

  keys: list[str]
  hypotheses: list[str]
  references: list[Sequence[str]]
  tokenized: list[Sequence[str]]
  order: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """The words that the metrics saw.

  They are stored as numbers, which come from a worker much faster than strings, and joined on demand, each time anew:
  the texts of all languages would be larger than the captions.

  Attributes:
    words: words of each image's hypothesis, then of its references.
    order: for each image and reference in the given order, its index among the sorted references in `words`.
  """

  words: CaptionWords
  order: tuple[tuple[int, ...], ...]

  @property
  def hypotheses(self) -> tuple[str, ...]:
    """The words of each hypothesis, joined by spaces."""
    return tuple([hypothesis for hypothesis, _ in self.joined()])

  @property
  def references(self) -> tuple[tuple[str, ...], ...]:
    """The words of each image's references, joined by spaces."""
    return tuple([references for _, references in self.joined()])

  def joined(self) -> list[tuple[str, tuple[str, ...]]]:
    """Returns both for each image."""
    captions = iter(self.words.texts())
    of_images = []
    for places in self.order:
      hypothesis, *texts = itertools.islice(captions, 1 + len(places))
      of_images.append((hypothesis, tuple([texts[place] for place in places])))
    return of_images


@dataclasses.dataclass(frozen=True)
class Scored:
  """The result for one language; what was not requested is None.

  Attributes:
    tokenizer: version of the tokeniser.
    other_words: share of the references whose words in the release are not those of the default tokeniser; 0 unless the
      tokeniser uses the former.
    variants: captions that would match more if letters were unified; None if there are none, or letters are unified.
    document_frequency_hash: hash of the document frequencies that weighted the n-grams.
    references_hash: hash of the keys and references, independent of their order.
    order_hash: hash of them in their order if the words depend on it, else "".
    health: lacks `copy`, which is computed from the `marks` of all languages, and their residue.
    num_emptied: number of captions in another language that were scored as empty.
    letters: mean letters a word if they are more than `MOST_LETTERS` in a language without spaces, else 0.
  """

  statistics: Statistics
  tokenizer: str
  other_words: float
  variants: variants_lib.Variants | None
  document_frequency_hash: str
  references_hash: str
  order_hash: str
  health: health_lib.Health | None
  marks: np.ndarray | None
  words: Tokenized | None
  document_frequency: DocumentFrequency | None
  num_emptied: int = 0
  letters: float = 0.0


def score_language(
  language: str,
  captions: Captions,
  options: ScoringOptions,
  vocabularies: health_lib.Vocabularies | None = None,
) -> Scored:
  """Scores the captions of one language.

  `vocabularies` are the words of the references of all languages, by which the language of a caption is told.

  Raises:
    UsageError: `tokenized` does not fit the references, or as `Vectors.cosines`.
    XmcapError: a word segmenter or another package is not installed.
  """
  if captions.tokenized and list(map(len, captions.tokenized)) != list(map(len, captions.references)):
    raise UsageError(f"{language}: tokeniser 'given' needs a caption/tokenized for each reference")
  metrics, vectors = options.settled.metrics, options.embeddings
  tokenizer = tokenizers.get(options.settled.tokenizer, language, options.normalize)
  frequencies = options.document_frequencies
  document_frequency = frequencies[language] if isinstance(frequencies, Mapping) else None
  # Sums of floats depend on their order. Sorting the references makes scores independent of the order in the file.
  references = list(map(sorted, captions.references))
  verdicts, scored = None, captions
  if vocabularies is not None:
    verdicts = fidelity.judge(language, captions.hypotheses, vocabularies)
    if options.empties_wrong_language:
      scored = dataclasses.replace(captions, hypotheses=fidelity.emptied(captions.hypotheses, verdicts))
  texts = metrics_lib.interleave(scored.hypotheses, references)
  corpus, other_words = _corpus(tokenizer, scored, references, texts, document_frequency)
  variants = None
  if not options.normalize:
    variants = variants_lib.find(tokenizer, texts, corpus.words, corpus.ngrams.is_reference)
  if vectors is not None:
    compared = {other for name in metrics for other in metrics_lib.CAPTION_METRICS[name].compares}
    corpus.cosines = vectors.cosines(language, captions.keys, scored.hypotheses, references, compared)
  values = {name: metrics_lib.CAPTION_METRICS[name].statistics(corpus) for name in metrics}
  of_references = DocumentFrequency.of(corpus.ngrams)
  health = marks = None
  if options.health and vocabularies is not None and verdicts is not None:
    # Health is that of the captions as they were given.
    raw_corpus = corpus
    if scored is not captions:
      texts = metrics_lib.interleave(captions.hypotheses, references)
      raw_corpus, _ = _corpus(tokenizer, captions, references, texts, None)
    health = health_lib.measure(language, texts, raw_corpus.ngrams, vocabularies, verdicts)
    marks = health_lib.marks(captions.keys, captions.hypotheses)
  return Scored(
    statistics=Statistics(tuple(captions.keys), values, sum(map(len, references))),
    tokenizer=tokenizer.version,
    other_words=other_words,
    variants=variants,
    document_frequency_hash=(document_frequency or of_references).fingerprint,
    references_hash=_hash(captions.keys, references),
    order_hash=_order_hash(captions) if tokenizer.in_order else "",
    health=health,
    marks=marks,
    words=Tokenized(corpus.words.narrow(), _order(captions, references)) if "words" in options.keep else None,
    document_frequency=of_references if "document_frequency" in options.keep else None,
    num_emptied=0 if scored is captions else int((verdicts == fidelity.Verdict.WRONG).sum()),
    letters=_letters_a_word(language, texts, len(corpus.words.numbers)),
  )


def _letters_a_word(language: str, texts: Sequence[str], num_words: int) -> float:
  if languages.get(language).spaces or sum(map(len, texts)) <= MOST_LETTERS * num_words:
    return 0.0
  letters = int(scripts.count_letters(texts, language)[0].sum())
  return letters / max(1, num_words) if letters > MOST_LETTERS * num_words else 0.0


def _corpus(
  tokenizer: tokenizers.Tokenizer,
  captions: Captions,
  references: Sequence[Sequence[str]],
  texts: Sequence[str],
  document_frequency: DocumentFrequency | None,
) -> tuple[metrics_lib.Corpus, float]:
  """Returns the words of `texts`, and the share of the references that the release splits in another way than we do."""
  if tokenizer.in_order:
    return metrics_lib.Corpus(*_words_in_order(tokenizer, captions), document_frequency), 0.0
  counts = np.fromiter(map(len, references), np.int64, len(references))
  if not captions.tokenized:
    return metrics_lib.Corpus.of_words(tokenizer.words(texts), counts, document_frequency), 0.0
  # Equal captions may be tokenised differently, so pairs are sorted.
  pairs = itertools.chain.from_iterable(map(sorted, _pairs(captions)))
  of_references, tokenized = map(list, zip(*pairs, strict=True))
  released = tokenizer.tokenize_references(of_references, tokenized)
  own = tokenizer.tokenize(of_references)
  hypotheses = tokenizer.tokenize(captions.hypotheses)
  words, start = [], 0
  for place, count in enumerate(counts.tolist()):
    of_image = slice(start, start + count)
    # A prediction with the words of a reference is that reference, however the release splits it.
    if hypotheses[place] in own[of_image]:
      hypotheses[place] = released[start + own[of_image].index(hypotheses[place])]
    words.append(released[of_image])
    start += count
  other = sum(map(list.__ne__, released, own)) / len(own)
  return metrics_lib.Corpus(hypotheses, words, document_frequency), other


def _words_in_order(
  tokenizer: tokenizers.Tokenizer, captions: Captions
) -> tuple[list[list[str]], list[list[list[str]]]]:
  """Returns the words of each hypothesis and of each image's sorted references."""
  hypotheses, references = tokenizer.together(
    [captions.hypotheses[place] for place in captions.order],
    [captions.references[place] for place in captions.order],
  )
  rows = sorted(zip(captions.order, hypotheses, references, strict=True), key=lambda of_image: of_image[0])
  # Equal captions may have other words, so the words are ordered as their captions are, not sorted themselves.
  return [words for _, words, _ in rows], [
    [words[i] for i in sorted(range(len(texts)), key=texts.__getitem__)]
    for texts, (_, _, words) in zip(captions.references, rows, strict=True)
  ]


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


def _order_hash(captions: Captions) -> str:
  places = captions.order
  return _hash([captions.keys[i] for i in places], [captions.references[i] for i in places])


def _order(captions: Captions, ranked: Sequence[Sequence]) -> tuple[tuple[int, ...], ...]:
  """Returns for each image the index of each reference after sorting; `ranked` are the sorted references."""
  unsorted: Sequence[Sequence] = captions.references
  if captions.tokenized:
    unsorted = _pairs(captions)
    ranked = list(map(sorted, unsorted))
  orders: dict[tuple[int, ...], tuple[int, ...]] = {}  # of which there are few
  places = [tuple(map(of_image.index, texts)) for of_image, texts in zip(ranked, unsorted, strict=True)]
  return tuple([orders.setdefault(of_image, of_image) for of_image in places])
