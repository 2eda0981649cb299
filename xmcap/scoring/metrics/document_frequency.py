"""Document frequencies: the number of images whose references contain an n-gram.

Scores on few images are more stable, and comparable with each other, if they use the document frequencies of a larger
corpus. These can be saved once and reused.
"""

import dataclasses
import functools

import numpy as np

from xmcap.digests import digest
from xmcap.scoring.metrics.ngrams import Ngrams

ORDERS = 4
"""Length of the longest n-gram, in words."""

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64's


@dataclasses.dataclass(frozen=True)
class DocumentFrequency:
  """The document frequencies of one language, for n-grams of 1 to `ORDERS` words.

  Attributes:
    num_images: number of documents.
    vocabulary: the words, sorted.
    ngrams: for each order int64 [N, n], the words of each n-gram as indices into the vocabulary.
    frequency: for each order int64 [N].
  """

  num_images: int
  vocabulary: tuple[str, ...]
  ngrams: tuple[np.ndarray, ...]
  frequency: tuple[np.ndarray, ...]

  @classmethod
  def of(cls, counts: Ngrams) -> "DocumentFrequency":
    """Returns the document frequencies of the references of a corpus."""
    ngrams, frequencies = [], []
    for length, order in enumerate(counts.orders(ORDERS), 1):
      rows = np.flatnonzero(order.document_frequency)
      ngrams.append(_words(counts, order.start[rows], length))
      frequencies.append(order.document_frequency[rows])
    words = np.unique(ngrams[0])
    places = np.full(len(counts.vocabulary), -1, np.int64)
    places[words] = np.arange(len(words))
    return cls(
      counts.num_images,
      tuple(counts.vocabulary[word] for word in words.tolist()),
      tuple(places[of_order] for of_order in ngrams),
      tuple(frequencies),
    )

  def frequencies(self, counts: Ngrams, n: int) -> np.ndarray:
    """Returns int64 [N], the frequency of each n-gram of length n of a corpus; 0 for unknown n-grams."""
    places = {word: place for place, word in enumerate(self.vocabulary)}
    translation = np.array([places.get(word, -1) for word in counts.vocabulary], np.int64)
    by_ngram = dict(zip(map(tuple, self.ngrams[n - 1].tolist()), self.frequency[n - 1].tolist(), strict=True))
    ngrams = translation[_words(counts, counts.orders(n)[n - 1].start, n)]
    return np.array([by_ngram.get(tuple(ngram), 0) for ngram in ngrams.tolist()], np.int64)

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the frequencies as 16 hex digits, independent of the order of the n-grams."""
    sums = []
    for ngrams, frequency in zip(self.ngrams, self.frequency, strict=True):
      hashes = np.zeros(len(ngrams), np.uint64)
      for values in (*ngrams.T, frequency):
        hashes = _mix(hashes, values)
      sums.append(int(hashes.sum(dtype=np.uint64)))  # wraps around, as intended
    return digest("\0".join([str(self.num_images), *map(str, sums), *self.vocabulary]))


def _words(counts: Ngrams, start: np.ndarray, n: int) -> np.ndarray:
  """Returns int64 [N, n], the words of the n-grams that start at N positions."""
  return counts.words[start[:, None] + np.arange(n)]


def _mix(hashes: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns uint64 hashes of sequences, given the hashes of all but the last values, and the last values."""
  mixed = hashes * np.uint64(0x9E3779B97F4A7C15)
  mixed += values.view(np.uint64)
  mixed += np.uint64(1)
  for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
    mixed ^= mixed >> np.uint64(shift)
    mixed *= np.uint64(multiplier)
  mixed ^= mixed >> np.uint64(31)
  return mixed
