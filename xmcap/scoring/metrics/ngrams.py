"""N-gram counts of a language's captions as arrays: one sort an order instead of a dictionary a caption."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np

_INT64_LIMIT = 2**62


@dataclasses.dataclass(frozen=True)
class Order:
  """The n-grams of one length n. A pair is an n-gram that occurs in a caption; P pairs, N distinct n-grams.

  Pairs are sorted by n-gram, then by caption, so that those of one n-gram in one image stand together, the
  hypothesis first.

  Attributes:
    caption: int64 [P], row of the caption.
    ngram: int64 [P], which n-gram, in [0, N).
    count: float64 [P], how often it occurs in the caption.
    matched: int64 [P], the pair of the same n-gram in the hypothesis of the same image; -1 if there is none.
    document_frequency: int64 [N], number of images with the n-gram in at least one reference.
  """

  caption: np.ndarray
  ngram: np.ndarray
  count: np.ndarray
  matched: np.ndarray
  document_frequency: np.ndarray


@dataclasses.dataclass(frozen=True)
class Ngrams:
  """The captions of a language as rows: for each of I images its hypothesis, then its references; C rows.

  Attributes:
    image: int64 [C], the image of a caption, in [0, I).
    is_reference: bool [C], false for the hypotheses.
    length: int64 [C], words in the caption.
    words: int64 [sum of length], each word as a number, caption after caption.
    vocabulary_size: number of distinct words.
  """

  image: np.ndarray
  is_reference: np.ndarray
  length: np.ndarray
  words: np.ndarray
  vocabulary_size: int

  @property
  def num_images(self) -> int:
    return int(self.image[-1]) + 1

  def orders(self, n: int) -> list[Order]:
    """Returns the counts for lengths 1 to n."""
    while len(self._orders) < n:
      self._count_next()
    return self._orders[:n]

  @functools.cached_property
  def _orders(self) -> list[Order]:
    return []

  @functools.cached_property
  def _state(self) -> dict[str, np.ndarray]:
    """Where n-grams start, as positions in `words`: their number there, and the words left in the caption."""
    ends = np.cumsum(self.length)
    caption = np.repeat(np.arange(len(self.length)), self.length)
    start = np.arange(len(self.words))
    return {"start": start, "prefix": np.zeros_like(start), "caption": caption, "left": ends[caption] - start}

  def _count_next(self) -> None:
    state, n = self._state, len(self._orders) + 1
    fits = state["left"] >= n
    start, prefix, caption, left = (state[name][fits] for name in ("start", "prefix", "caption", "left"))
    # An n-gram is its first n - 1 words, numbered densely by the round before, and its last word.
    key = prefix * self.vocabulary_size + self.words[start + n - 1]
    if (int(prefix.max(initial=0)) + 1) * self.vocabulary_size * len(self.length) >= _INT64_LIMIT:
      key = np.unique(key, return_inverse=True)[1]
    key = key * len(self.length) + caption
    order = np.argsort(key)
    key = key[order]

    first = np.flatnonzero(np.diff(key, prepend=-1))
    pair_caption = caption[order[first]]
    ngram = np.cumsum(np.diff(key[first] // len(self.length), prepend=-1) != 0) - 1
    count = np.diff(first, append=len(key))
    dense = np.empty_like(key)
    dense[order] = np.repeat(ngram, count)
    self._state.update(start=start, prefix=dense, caption=caption, left=left)

    image, is_reference = self.image[pair_caption], self.is_reference[pair_caption]
    new_image = (np.diff(ngram, prepend=-1) != 0) | (np.diff(image, prepend=-1) != 0)
    run = np.flatnonzero(new_image)[np.cumsum(new_image) - 1]
    matched = np.where(is_reference[run], -1, run)
    # A run of an n-gram in an image counts as a document if a reference is in it: its last pair tells.
    last = np.append(new_image[1:], True)[: len(ngram)]
    document_frequency = np.bincount(ngram[last & is_reference], minlength=int(ngram.max(initial=-1)) + 1)
    self._orders.append(Order(pair_caption, ngram, count.astype(np.float64), matched, document_frequency))


def count(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Ngrams:
  """Numbers the words of one hypothesis and one or more references for each image; nothing is counted yet."""
  captions: list[Sequence[str]] = []
  sizes = []
  for hypothesis, group in zip(hypotheses, references, strict=True):
    captions.append(hypothesis)
    captions.extend(group)
    sizes.append(1 + len(group))
  image = np.repeat(np.arange(len(sizes)), sizes)
  numbers: dict[str, int] = {}
  flat = itertools.chain.from_iterable(captions)
  words = np.array([numbers.setdefault(word, len(numbers)) for word in flat], dtype=np.int64)
  return Ngrams(
    image=image,
    is_reference=np.diff(image, prepend=-1) == 0,
    length=np.array([len(caption) for caption in captions], dtype=np.int64),
    words=words,
    vocabulary_size=len(numbers),
  )
