"""A metric: sufficient statistics an image, their aggregation, and a signature.

The statistics are kept apart from the score so that resampling images needs no second look at the captions.
"""

import abc
import functools
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.metrics import ngrams


class Corpus:
  """The tokenised captions of one language, and what metrics share of the work on them.

  Attributes:
    hypotheses: words of the predicted caption of each image.
    references: words of the reference captions of each image, one or more.
  """

  def __init__(self, hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]):
    """Holds the captions of the same images in the same order.

    Raises:
      ValueError: the two differ in length, are empty, or an image has no reference.
    """
    if len(hypotheses) != len(references) or not references or not all(references):
      raise ValueError(
        f"{len(hypotheses)} hypotheses and {len(references)} lists of references: there must "
        "be one hypothesis and one or more references for each of one or more images"
      )
    self.hypotheses = hypotheses
    self.references = references

  @functools.cached_property
  def ngrams(self) -> ngrams.Ngrams:
    """The counts of the n-grams of all captions."""
    return ngrams.count(self.hypotheses, self.references)


class Metric(abc.ABC):
  """A number for the captions of one language.

  Attributes:
    name: what options, files and columns call it.
    heading: what tables for people call it.
    percent: whether the score is a share in [0, 1] that tables show in per cent.
    decimals: how many of them tables show.
  """

  name: str
  heading: str
  percent: bool = False
  decimals: int = 3

  @abc.abstractmethod
  def statistics(self, corpus: Corpus) -> np.ndarray:
    """Returns float64 [images, k]: what `aggregate` needs of each image."""

  def aggregate(self, totals: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the scores of sets of images from the totals of their statistics.

    Args:
      totals: float64 [..., k], the statistics summed over the images of each set.
      count: float64 [...], how many images are in it, more than 0.

    Returns:
      float64 [...]; unless a subclass says otherwise, the mean of the first statistic.
    """
    return totals[..., 0] / count

  def image_scores(self, statistics: np.ndarray) -> np.ndarray:
    """Returns float64 [images], the score of each image; unless a subclass says otherwise, the first."""
    return statistics[:, 0]

  @property
  @abc.abstractmethod
  def signature(self) -> str:
    """The parameters: what else decides about the score, given the words; such as `n=4,stem=no`."""

  def format(self, score: float) -> str:
    """Returns a score as tables print it."""
    return f"{100 * score:.1f}%" if self.percent else f"{score:.{self.decimals}f}"
