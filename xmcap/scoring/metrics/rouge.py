"""ROUGE-L as the COCO evaluation defines it, with RapidFuzz's longest common subsequences."""

import itertools

import numpy as np

from xmcap.scoring.metrics import base


class RougeL(base.CaptionMetric):
  """F score of the longest common subsequence of words (Lin, "ROUGE", 2004), as in pycocoevalcap's `Rouge`.

  Precision is the largest over the references, and so is recall, perhaps of another reference. In [0, 1].
  Deviation: an empty caption scores 0 even if a reference is empty; there it scores 1.
  """

  name = "rouge_l"
  heading = "ROUGE-L"
  beta = 1.2  # how many times as much recall counts as precision

  @property
  def signature(self) -> str:
    return f"beta={self.beta:g},precision=max,recall=max"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1]: the score of each image; its mean is the score."""
    # Imported here since most tables do without.
    from rapidfuzz.distance import LCSseq

    counts = corpus.ngrams
    # Numbers, as RapidFuzz compares words by their hash.
    words = counts.words.tolist()
    ends = np.cumsum(counts.length).tolist()
    captions = [words[start:end] for start, end in itertools.pairwise([0, *ends])]
    references = np.flatnonzero(counts.is_reference)
    hypotheses = np.flatnonzero(~counts.is_reference)[counts.image[references]]
    common = np.array(
      [
        LCSseq.similarity(captions[hypothesis], captions[reference])
        for hypothesis, reference in zip(hypotheses.tolist(), references.tolist(), strict=True)
      ]
    )
    first = np.flatnonzero(np.diff(counts.image[references], prepend=-1))
    # The length of an empty caption does not matter: it has nothing in common.
    precision = np.maximum.reduceat(common / np.maximum(counts.length[hypotheses], 1), first)
    recall = np.maximum.reduceat(common / np.maximum(counts.length[references], 1), first)
    factor = self.beta**2
    weighted = recall + factor * precision
    product = (1 + factor) * precision * recall
    return np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)[:, None]
