"""Document frequencies of n-grams: how many images have one in their references; from a corpus, or from a file.

A score over few images is steadier, and comparable with another, if its document frequencies are those of a
larger corpus: save them once, and score with them again.
"""

import dataclasses
import functools
import hashlib

import numpy as np

from xmcap.scoring.metrics import ngrams

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64's


@dataclasses.dataclass(frozen=True)
class DocumentFrequency:
  """The document frequencies of one language, for n-grams of 1 to n words.

  An n-gram is held as the index of its first n - 1 words in the order before (0 in the first), and the index of its
  last word in the vocabulary; the N n-grams of an order are sorted by these two.

  Attributes:
    num_images: number of documents.
    vocabulary: the words, sorted.
    prefix, word, frequency: for each order int64 [N].
  """

  num_images: int
  vocabulary: tuple[str, ...]
  prefix: tuple[np.ndarray, ...]
  word: tuple[np.ndarray, ...]
  frequency: tuple[np.ndarray, ...]

  @classmethod
  def of(cls, counts: ngrams.Ngrams, n: int = 4) -> "DocumentFrequency":
    """Counts the n-grams of the references of a corpus."""
    rank, vocabulary = _ranks(counts)
    prefix, word, frequency = [], [], []
    place = np.zeros(
      len(counts.words), np.int64
    )  # index in the order before, of the n-gram that starts at a word
    for length, order in enumerate(counts.orders(n), 1):
      held = order.document_frequency > 0
      start = order.start[held]
      key = place[start] * len(vocabulary) + rank[counts.words[start + length - 1]]
      by_key = np.argsort(key)
      prefix.append(place[start][by_key])
      word.append(rank[counts.words[start + length - 1]][by_key])
      frequency.append(order.document_frequency[held][by_key])
      places = np.zeros(len(held), np.int64)
      places[np.flatnonzero(held)[by_key]] = np.arange(len(start))
      place = counts.at_each_word(length, places)
    return cls(counts.num_images, vocabulary, tuple(prefix), tuple(word), tuple(frequency))

  def frequencies(self, counts: ngrams.Ngrams, n: int) -> np.ndarray:
    """Returns int64 [N], the frequency of each n-gram of one order of a corpus; 0 if it is not held."""
    start = counts.orders(n)[n - 1].start
    places = {word: place for place, word in enumerate(self.vocabulary)}
    translation = np.array([places.get(word, -1) for word in counts.vocabulary], np.int64)
    found = np.zeros(len(start), np.int64)
    for length in range(1, n + 1):
      last = translation[counts.words[start + length - 1]]
      keys = self.prefix[length - 1] * len(self.vocabulary) + self.word[length - 1]
      key = found * len(self.vocabulary) + last
      place = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
      known = (found >= 0) & (last >= 0) & (len(keys) > 0)
      known[known] = keys[place[known]] == key[known]
      found = np.where(known, place, -1)
    held = self.frequency[n - 1]
    return np.where(found >= 0, held[found], 0) if len(held) else np.zeros(len(start), np.int64)

  @functools.cached_property
  def fingerprint(self) -> str:
    """16 hex digits that tell these frequencies from any others; the same as `fingerprint(corpus)` gives."""
    hashes, sums = np.zeros(1, np.uint64), []
    for prefix, word, frequency in zip(self.prefix, self.word, self.frequency, strict=True):
      hashes = _mix(hashes[prefix], word)
      sums.append(_sum(hashes, frequency))
    return _digest(self.num_images, self.vocabulary, sums)


def fingerprint(counts: ngrams.Ngrams, n: int = 4) -> str:
  """Returns what `DocumentFrequency.of(counts, n).fingerprint` would, without sorting anything but the words."""
  rank, vocabulary = _ranks(counts)
  words, sums = rank.take(counts.words), []
  for length, order in enumerate(counts.orders(n), 1):
    held = np.flatnonzero(order.document_frequency)
    start = order.start.take(held)
    hashes = np.zeros(len(start), np.uint64)
    for offset in range(length):
      hashes = _mix(hashes, words.take(start + offset))
    sums.append(_sum(hashes, order.document_frequency.take(held)))
  return _digest(counts.num_images, vocabulary, sums)


def _ranks(counts: ngrams.Ngrams) -> tuple[np.ndarray, tuple[str, ...]]:
  """Returns the place of each word in the sorted vocabulary of the references (-1: not there), and that."""
  (unigrams,) = counts.orders(1)
  held = counts.words[unigrams.start[unigrams.document_frequency > 0]].tolist()
  held.sort(key=counts.vocabulary.__getitem__)
  rank = np.full(len(counts.vocabulary), -1, np.int64)
  rank[held] = np.arange(len(held))
  return rank, tuple(counts.vocabulary[number] for number in held)


def _mix(hashes: np.ndarray, word: np.ndarray) -> np.ndarray:
  """Returns uint64 hashes of n-grams from those of their prefixes and their last words."""
  mixed = hashes * np.uint64(0x9E3779B97F4A7C15)
  mixed += word.view(np.uint64)
  mixed += np.uint64(1)
  for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
    mixed ^= mixed >> np.uint64(shift)
    mixed *= np.uint64(multiplier)
  mixed ^= mixed >> np.uint64(31)
  return mixed


def _sum(hashes: np.ndarray, frequency: np.ndarray) -> int:
  # A sum does not depend on the order of the n-grams; uint64 wraps around, as it should.
  return int(_mix(hashes, frequency).sum(dtype=np.uint64))


def _digest(num_images: int, vocabulary: tuple[str, ...], sums: list[int]) -> str:
  text = "\0".join([str(num_images), *map(str, sums), *vocabulary])
  return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
