"""The tf-idf vectors of the n-grams of captions, which CIDEr and CIDEr-D share."""

import dataclasses

import numpy as np

from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.metrics.ngrams import Ngrams


@dataclasses.dataclass(frozen=True)
class Matches:
  """The M pairs of a reference and an n-gram of it that the hypothesis of the image has too, for one n.

  Attributes:
    caption: int64 [M], row of the reference among the C captions.
    hypothesis, reference: float64 [M], the weight of the n-gram in the hypothesis and in the reference.
    norms: float64 [C], the norm of a caption's vector times that of the image's hypothesis.
  """

  caption: np.ndarray
  hypothesis: np.ndarray
  reference: np.ndarray
  norms: np.ndarray


def matches(counts: Ngrams, n: int, others: DocumentFrequency | None) -> Matches:
  """Returns the matches for n-grams of n words; a document is an image, of these or of the `others`."""
  order = counts.orders(n)[-1]
  documents, frequency = counts.num_images, order.document_frequency
  if others is not None:
    documents, frequency = others.num_images, others.frequencies(counts, n)
  inverse_document_frequency = np.log(documents) - np.log(np.maximum(1.0, frequency))
  weight = order.count * inverse_document_frequency[order.ngram]
  norm = np.sqrt(np.bincount(order.caption, weight**2, minlength=len(counts.length)))
  return Matches(
    order.caption[order.reference],
    weight[order.hypothesis],
    weight[order.reference],
    norm * norm[counts.hypothesis],
  )
