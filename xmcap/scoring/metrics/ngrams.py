"""N-gram counts of a language's captions as arrays: one sort an order instead of a dictionary a caption."""

import dataclasses
import functools

import numpy as np

from xmcap.scoring.words import Words


@dataclasses.dataclass(frozen=True)
class Order:
  """The n-grams of one length n: N distinct ones, first the R that occur more than once, then the singles.

  A pair is one of the first R and a caption that it occurs in; the P pairs are sorted by n-gram, then by caption.

  Attributes:
    caption: int64 [P], row of the caption.
    ngram: int64 [P], which n-gram, in [0, R).
    count: int64 [P], how often it occurs in the caption.
    hypothesis, reference: int64 [M], pairs of the same n-gram in the hypothesis and a reference of an image.
    single_caption: int64 [N - R], row of the caption of each single.
    document_frequency: int64 [N], number of images with the n-gram in at least one reference.
    start: int64 [N], an index into `Ngrams.words` where the n-gram begins.
  """

  caption: np.ndarray
  ngram: np.ndarray
  count: np.ndarray
  hypothesis: np.ndarray
  reference: np.ndarray
  single_caption: np.ndarray
  document_frequency: np.ndarray
  start: np.ndarray


@dataclasses.dataclass(frozen=True)
class Ngrams:
  """The captions of a language as rows: for each of I images its hypothesis, then its references; C rows.

  Attributes:
    image: int64 [C], the image of a caption, in [0, I).
    is_reference: bool [C], false for the hypotheses.
    length: int64 [C], words in the caption.
    words: int64 [W], each word as a number in [0, V), caption after caption; W is the sum of `length`.
    vocabulary: the V distinct words, by number.
  """

  image: np.ndarray
  is_reference: np.ndarray
  length: np.ndarray
  words: np.ndarray
  vocabulary: tuple[str, ...]

  @property
  def num_images(self) -> int:
    return int(self.image[-1]) + 1

  def orders(self, n: int) -> list[Order]:
    """Returns the counts for lengths 1 to n."""
    while len(self._orders) < n:
      self._orders.append(self._count_next())
    return self._orders[:n]

  def at_each_word(self, n: int, values: np.ndarray) -> np.ndarray:
    """Returns int64 [W]: for each word, the value (of `values` [N]) of the n-gram that starts there, or -1."""
    start = np.flatnonzero(self._left >= n)
    order, number = self.orders(n)[n - 1], np.full(len(self.words), -1, np.int64)
    # N-grams are numbered by their prefix's number and their last word, as ranks among those that occur.
    key = np.zeros(len(start), np.int64)
    for offset in range(n):
      key = np.unique(key * len(self.vocabulary) + self.words[start + offset], return_inverse=True)[1]
    of_key = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    place = np.full(len(self.words), -1, np.int64)
    place[start] = key
    of_key[place[order.start]] = values
    number[start] = of_key[key]
    return number

  @functools.cached_property
  def _orders(self) -> list[Order]:
    return []

  @functools.cached_property
  def _caption(self) -> np.ndarray:
    """int64 [W], the row of the caption that a word stands in."""
    return np.repeat(np.arange(len(self.length)), self.length)

  @functools.cached_property
  def _left(self) -> np.ndarray:
    """int64 [W], how many words of the caption are left from a word on."""
    return np.cumsum(self.length)[self._caption] - np.arange(len(self._caption))

  @functools.cached_property
  def _repeated(self) -> np.ndarray:
    """int64 [W + 1], the n-gram of the last order counted that starts at a word; -1 if it occurs only once."""
    return np.zeros(len(self.words) + 1, np.int64)

  def _count_next(self) -> Order:
    n, caption = len(self._orders) + 1, self._caption
    start = np.flatnonzero(self._left >= n)
    # An n-gram that contains an (n - 1)-gram seen once is itself seen once: it need not be sorted.
    once = (self._repeated[start] < 0) | (self._repeated[start + (n > 1)] < 0)
    single, start = start[np.flatnonzero(once)], start[np.flatnonzero(~once)]

    prefix, word = self._repeated[start], self.words[start + n - 1]
    order = _order(prefix, word)
    start = start[order]
    ngram_starts = np.flatnonzero(_new(prefix[order]) | _new(word[order]))
    occurrences = np.diff(ngram_starts, append=len(start))
    # Only those that occur again are numbered, from 0; the others are singles after all.
    again = np.flatnonzero(occurrences > 1)
    number = np.full(len(ngram_starts), -1)
    number[again] = np.arange(len(again))
    number = np.repeat(number, occurrences)
    self._repeated[:] = -1
    self._repeated[start] = number
    single = np.concatenate([start[ngram_starts[np.flatnonzero(occurrences == 1)]], single])
    kept = np.flatnonzero(number >= 0)
    start, number = start[kept], number[kept]

    of_start = caption[start]
    first = np.flatnonzero(_new(number) | _new(of_start))
    pair_caption, ngram = of_start[first], number[first]
    hypothesis, reference, frequency = self._shared(pair_caption, ngram, len(again))
    return Order(
      caption=pair_caption,
      ngram=ngram,
      count=np.diff(first, append=len(start)),
      hypothesis=hypothesis,
      reference=reference,
      single_caption=caption[single],
      document_frequency=np.concatenate([frequency, self.is_reference[caption[single]]]),
      start=np.concatenate([start[np.flatnonzero(_new(number))], single]),
    )

  def _shared(
    self, caption: np.ndarray, ngram: np.ndarray, num_ngrams: int
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns `hypothesis`, `reference` and the document frequencies of pairs in their order.

    In that order, an n-gram's pairs in one image stand together, the hypothesis first.
    """
    runs = np.flatnonzero(_new(ngram) | _new(self.image[caption]))
    num_references = np.diff(runs, append=len(caption))
    of_hypothesis = ~self.is_reference[caption[runs]]
    num_references -= of_hypothesis
    documents = np.flatnonzero(num_references > 0)
    frequency = np.bincount(ngram[runs[documents]], minlength=num_ngrams)

    both = np.flatnonzero(of_hypothesis & (num_references > 0))
    repeats = num_references[both]
    hypothesis = np.repeat(runs[both], repeats)
    rank = np.arange(len(hypothesis)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return hypothesis, hypothesis + 1 + rank, frequency


def count(words: Words, num_references: np.ndarray) -> Ngrams:
  """Makes rows of captions; nothing is counted yet.

  Args:
    words: of the captions, those of an image together, its hypothesis first.
    num_references: int64 [I], how many references each image has.
  """
  image = np.repeat(np.arange(len(num_references)), num_references + 1)
  return Ngrams(
    image=image,
    is_reference=~_new(image),
    length=words.lengths,
    words=words.numbers,
    vocabulary=words.vocabulary,
  )


def _new(values: np.ndarray) -> np.ndarray:
  """Returns bool [values], where a value differs from the one before it; true for the first."""
  new = np.ones(len(values), np.bool_)
  np.not_equal(values[1:], values[:-1], out=new[1:])
  return new


def _order(prefix: np.ndarray, word: np.ndarray) -> np.ndarray:
  """Returns the stable order of the pairs (prefix, word)."""
  order = None
  # NumPy sorts 16-bit numbers by radix, in linear time: digit by digit, the least significant first.
  for values in (word, prefix):
    for shift in range(0, int(values.max(initial=0)).bit_length(), 16):
      digits = (values >> shift).astype(np.uint16)
      if order is None:
        order = np.argsort(digits, kind="stable")
      else:
        order = order[np.argsort(digits[order], kind="stable")]
  return np.arange(len(word)) if order is None else order
