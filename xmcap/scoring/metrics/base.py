"""Base classes of metrics: sufficient statistics per image, their aggregation, and a signature.

Statistics are separate from the score, so images can be resampled without another pass over the captions.
"""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring.metrics import ngrams, tf_idf
from xmcap.scoring.metrics.document_frequency import ORDERS, DocumentFrequency
from xmcap.scoring.tokenizers.words import CaptionWords

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Cosines:
  """Cosines of the embeddings of captions, float64 [images], in [-1, 1]; 0 of an empty caption, or if not asked for.

  Attributes:
    image: of the caption and its image.
    largest, mean: of the caption and its references.
  """

  image: np.ndarray
  largest: np.ndarray
  mean: np.ndarray


class Corpus:
  """The tokenised captions of one language, and computations on them that metrics share.

  Attributes:
    words: words of all captions, in the order of `interleave`.
    document_frequency: document frequencies of another corpus, for weighting n-grams; None: those of the references.
    cosines: of the same captions, for metrics of embeddings; None: there are no embeddings.
  """

  cosines: Cosines | None = None

  def __init__(
    self,
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    document_frequency: DocumentFrequency | None = None,
  ):
    """Takes hypotheses and references of the same images in the same order, one or more references per image.

    UsageError if these are not lists of words, or an image lacks one.
    """
    try:
      counts = list(map(len, references))
      captions = interleave(hypotheses, references)
      self.words = CaptionWords.of(captions)
      are_words = all(isinstance(word, str) for word in self.words.vocabulary)
      are_lists = not any(isinstance(caption, str) for caption in captions)
    except (TypeError, ValueError):
      counts, are_words, are_lists = [], False, False
    if not (counts and all(counts) and are_words and are_lists):
      raise UsageError(
        "each image needs one hypothesis and one or more references, as lists of words: Corpus([['a', 'dog']], "
        "[[['the', 'dog'], ['dogs']]])"
      )
    self._num_references = np.array(counts, np.int64)
    self.document_frequency = document_frequency

  @classmethod
  def of_words(
    cls, words: CaptionWords, num_references: np.ndarray, document_frequency: DocumentFrequency | None = None
  ) -> "Corpus":
    """Takes captions in the order of `interleave`; `num_references` is int64 [images], all at least 1."""
    corpus = cls.__new__(cls)
    corpus.words, corpus._num_references = words, num_references
    corpus.document_frequency = document_frequency
    return corpus

  @property
  def given_cosines(self) -> Cosines:
    """The cosines; ValueError if there are none."""
    if self.cosines is None:
      raise ValueError("a metric of embeddings needs Corpus.cosines (see scoring.vectors)")
    return self.cosines

  @functools.cached_property
  def ngrams(self) -> ngrams.Ngrams:
    """N-gram counts of all captions."""
    return ngrams.Ngrams(self.words, self._num_references)

  @functools.cached_property
  def matches(self) -> list[tf_idf.Matches]:
    """What hypotheses share with references, weighted by tf-idf, for n-grams of 1 to `ORDERS` words."""
    return [tf_idf.matches(self.ngrams, n, self.document_frequency) for n in range(1, ORDERS + 1)]

  @functools.cached_property
  def hypotheses(self) -> list[Sequence[str]]:
    """The words of the predicted caption of each image."""
    return [of_image[0] for of_image in self._of_images]

  @functools.cached_property
  def references(self) -> list[Sequence[Sequence[str]]]:
    """The words of the reference captions of each image."""
    return [of_image[1:] for of_image in self._of_images]

  @functools.cached_property
  def _of_images(self) -> list[list[Sequence[str]]]:
    captions = iter(self.words.captions())
    return [list(itertools.islice(captions, 1 + count)) for count in self._num_references.tolist()]


def interleave(hypotheses: Sequence[T], references: Sequence[Sequence[T]]) -> list[T]:
  """Returns captions, or their words, in the order of a corpus: each hypothesis followed by its references."""
  captions: list[T] = []
  for hypothesis, of_image in zip(hypotheses, references, strict=True):
    captions.append(hypothesis)
    captions += of_image
  return captions


class Metric:
  """A metric, which gives one number per language.

  Attributes:
    name: name in options, files and columns.
    heading: name in tables for people.
    signature: the parameters that determine the score, given the words; such as `n=4,stem=no`.
    width: k, the number of statistics per image.
    percent: whether the score is a share in [0, 1] that tables show in percent.
    decimals: decimals of the score in tables; as a percentage, or at scale 100, it shows two fewer.
    scaled: whether a table may show the score times 100, as papers do; not if it is per cent already.
    least: the lowest value of a statistic.
    most: the highest score.
    counted: what a table counts besides images: `references`, `classes` or `captions`.
  """

  name: str
  heading: str
  signature: str
  width: int = 1
  percent: bool = False
  scaled: bool = False
  least: float = 0.0
  most: float = 1.0
  decimals: int = 3
  counted: str = "references"

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    """Returns float64 [...], the scores of sets of images; by default, the mean of the first statistic.

    Args:
      totals: float64 [..., k], statistics summed over the images of each set.
      count: float64 [...], number of images in each set, above 0.
    """
    return totals[..., 0] / count

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], the score of each image; by default, that of the set with only this image."""
    return self.aggregate(statistics, np.float64(1))

  def factor(self, scale: int) -> int:
    """Returns the factor at which a table of this scale has the score."""
    return scale if self.scaled else 1

  def format(self, score: float, scale: int = 1) -> str:
    """Returns a score as tables of this scale print it."""
    if self.percent:
      return f"{100 * score:.{self.decimals - 2}f}%"
    factor = self.factor(scale)
    return f"{factor * score:.{self.decimals - 2 * (factor == 100)}f}"


class CaptionMetric(Metric, abc.ABC):
  """A metric that compares captions with references.

  Attributes:
    languages: codes of the supported languages; () for all.
    compares: what a metric of embeddings compares with a caption, of `pictures` and `references`; (): it reads words.
    is_extra: whether `all` leaves it out: it needs what is not installed with xmcap, or suits few languages.
  """

  languages: tuple[str, ...] = ()
  compares: tuple[str, ...] = ()
  is_extra: bool = False

  @abc.abstractmethod
  def statistics(self, corpus: Corpus) -> np.ndarray:
    """Returns float64 [images, k], the sufficient statistics for `aggregate`."""
