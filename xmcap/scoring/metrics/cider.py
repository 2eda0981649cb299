"""CIDEr and CIDEr-D.

Vedantam, Zitnick, Parikh: "CIDEr: Consensus-based Image Description Evaluation" (CVPR 2015), equations 1 to 3 and
section "CIDEr-D". Deviations, as in both public implementations: captions are not stemmed, and scores are multiplied by
10. pycocoevalcap's class `Cider` is in fact CIDEr-D; our `CiderD` equals it up to rounding.
"""

import numpy as np

from xmcap.scoring.metrics import base, ngrams
from xmcap.scoring.metrics.document_frequency import ORDERS

_SCALE = 10.0


class Cider(base.CaptionMetric):
  """Plain CIDEr: cosine of the tf-idf vectors of n-grams, averaged over references and over n, times 10.

  A document is an image. Document frequencies come from the references unless the corpus has others, so a single image
  scores 0. A caption shorter than n words contributes 0 for that n.
  """

  name = "cider"
  heading = "CIDEr"
  n = ORDERS  # length of the longest n-gram, in words
  scaled = True
  most = _SCALE
  signature = f"n={n},stem=no,scale={_SCALE:g}"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image in [0, 10]; the mean is the score of the corpus."""
    counts = corpus.ngrams
    num_captions, num_images = len(counts.length), counts.num_images
    similarity = np.zeros(num_captions)
    for matches in corpus.matches:
      product = self._product(matches.hypothesis, matches.reference)
      dot = np.bincount(matches.caption, product, minlength=num_captions)
      similarity += np.divide(dot, matches.norms, out=np.zeros(num_captions), where=matches.norms > 0)
    similarity *= self._length_factor(counts) / self.n
    rows = counts.is_reference
    total = np.bincount(counts.image[rows], similarity[rows], minlength=num_images)
    return (_SCALE * total / np.bincount(counts.image[rows], minlength=num_images))[:, None]

  def _product(self, hypothesis: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return hypothesis * reference

  def _length_factor(self, counts: ngrams.Ngrams) -> np.ndarray | float:
    return 1.0


class CiderD(Cider):
  """CIDEr-D: hypothesis weights clipped to the reference's, and a Gaussian penalty on length differences.

  As in the public implementations, the length of a caption is its number of bigrams, so a caption of one word is as
  long as an empty one.
  """

  name = "cider_d"
  heading = "CIDEr-D"

  def __init__(self, sigma: float = 6.0):
    """Takes the standard deviation of the length penalty, in words."""
    self.sigma = sigma
    self.signature = f"n={self.n},sigma={sigma:g},stem=no,scale={_SCALE:g}"

  def _product(self, hypothesis: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return np.minimum(hypothesis, reference) * reference

  def _length_factor(self, counts: ngrams.Ngrams) -> np.ndarray:
    length = np.maximum(counts.length - 1, 0)
    return np.exp(-((length[counts.hypothesis] - length) ** 2) / (2 * self.sigma**2))
