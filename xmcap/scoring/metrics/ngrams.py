"""N-gram counts of all captions of a language as arrays, by one sort instead of a dictionary per caption."""

import dataclasses

import numpy as np

from xmcap.scoring.tokenizers.words import CaptionWords


@dataclasses.dataclass(frozen=True)
class NgramOrder:
  """The N distinct n-grams of length n, and the P pairs of an n-gram and a caption that contains it.

  Attributes:
    caption: int64 [P], row of the caption.
    ngram: int64 [P], index of the n-gram in [0, N), ascending.
    count: int64 [P], count of the n-gram in the caption.
    hypothesis, reference: int64 [M], indices of pairs with the same n-gram in the hypothesis and in a reference of an
      image.
    document_frequency: int64 [N], number of images with the n-gram in at least one reference.
    start: int64 [N], an index into `Ngrams.words` where the n-gram starts.
  """

  caption: np.ndarray
  ngram: np.ndarray
  count: np.ndarray
  hypothesis: np.ndarray
  reference: np.ndarray
  document_frequency: np.ndarray
  start: np.ndarray


class Ngrams:
  """The C captions of a language as rows: for each of I images its hypothesis, then its references.

  Attributes:
    image: int64 [C], the image of a caption, in [0, I).
    is_reference: bool [C], false for hypotheses.
    hypothesis: int64 [C], the row of the hypothesis of the caption's image.
    length: int64 [C], number of words in the caption.
    words: int64 [W], the words of all captions as indices in [0, V); W is the sum of `length`.
    vocabulary: the V distinct words, sorted.
  """

  def __init__(self, words: CaptionWords, num_references: np.ndarray):
    """Makes the rows; `orders` counts.

    Args:
      words: words of the captions, grouped by image, hypothesis first.
      num_references: int64 [I], number of references of each image.
    """
    self.num_images = len(num_references)
    self.image = np.repeat(np.arange(self.num_images), num_references + 1)
    self.is_reference = ~_differs(self.image)
    self.hypothesis = np.flatnonzero(~self.is_reference)[self.image]
    self.length, self.words, self.vocabulary = words.lengths, words.numbers, words.vocabulary
    self._orders: list[NgramOrder] = []
    # For each word: its row, the number of words left in the row, and the longest n-gram so far that starts there.
    self._caption = np.repeat(np.arange(len(self.length)), self.length)
    self._left = np.cumsum(self.length)[self._caption] - np.arange(len(self._caption))
    self._ngram = np.zeros(len(self.words), np.int64)

  def orders(self, n: int) -> list[NgramOrder]:
    """Returns the counts for lengths 1 to n."""
    while len(self._orders) < n:
      self._orders.append(self._count_next())
    return self._orders[:n]

  def _count_next(self) -> NgramOrder:
    n = len(self._orders) + 1
    start = np.flatnonzero(self._left >= n)
    # The key of an n-gram combines the index of its first n - 1 words and its last word.
    key = self._ngram[start] * len(self.vocabulary) + self.words[start + n - 1]
    order = _stable_order(key)
    start, key = start[order], key[order]
    is_first = _differs(key)
    ngram = np.cumsum(is_first) - 1
    self._ngram[start] = ngram

    # Equal n-grams are grouped by image, then by caption, hypothesis first.
    caption = self._caption[start]
    pairs = np.flatnonzero(is_first | _differs(caption))
    count = np.diff(pairs, append=len(start))
    ngram, caption = ngram[pairs], caption[pairs]
    is_reference = self.is_reference[caption]
    is_new_image = _differs(ngram) | _differs(self.image[caption])
    of_image = np.flatnonzero(is_new_image)[np.cumsum(is_new_image) - 1]
    reference = np.flatnonzero(is_reference & ~is_reference[of_image])
    documents = is_reference & (is_new_image | ~np.roll(is_reference, 1))
    return NgramOrder(
      caption=caption,
      ngram=ngram,
      count=count,
      hypothesis=of_image[reference],
      reference=reference,
      document_frequency=np.bincount(ngram[documents], minlength=int(is_first.sum())),
      start=start[is_first],
    )


def _differs(values: np.ndarray) -> np.ndarray:
  """Returns bool [values]: whether a value differs from the previous one; true for the first."""
  return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]


def _stable_order(values: np.ndarray) -> np.ndarray:
  """Returns a stable argsort, faster than NumPy's own because NumPy sorts 16-bit integers in linear time."""
  order = np.arange(len(values))
  for shift in range(0, int(values.max(initial=0)).bit_length(), 16):
    digits = (values >> shift).astype(np.uint16)
    order = order[np.argsort(digits[order], kind="stable")]
  return order
