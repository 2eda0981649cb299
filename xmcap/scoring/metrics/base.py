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
    name: what tables call it.
  """

  name: str

  @abc.abstractmethod
  def statistics(self, corpus: Corpus) -> np.ndarray:
    """Returns float64 [images, k]: what `aggregate` needs of each image."""

  def aggregate(self, statistics: np.ndarray) -> float:
    """Returns the score of the images whose statistics [images, k] are given: the mean of the first."""
    return float(np.mean(statistics[:, 0]))

  @property
  @abc.abstractmethod
  def signature(self) -> str:
    """Name, variant and parameters: what else decides about the score, given the words."""
