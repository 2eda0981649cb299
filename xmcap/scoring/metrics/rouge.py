"""ROUGE-L as in the COCO evaluation, with RapidFuzz's longest common subsequence."""

import itertools

import numpy as np

from xmcap.scoring.metrics import base


class RougeL(base.CaptionMetric):
  """F score of the longest common subsequence of words (Lin, "ROUGE", 2004), as in pycocoevalcap's `Rouge`.

  It is in [0, 1]. Precision and recall are each the maximum over the references, perhaps of different ones. Deviation:
  an empty caption scores 0 even if a reference is empty; in pycocoevalcap it scores 1.
  """

  name = "rouge_l"
  heading = "ROUGE-L"
  scaled = True
  beta = 1.2  # weight of recall relative to precision
  signature = f"beta={beta:g},precision=max,recall=max"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image; the mean is the score of the corpus."""
    from rapidfuzz.distance import LCSseq  # most tables do not need it

    counts = corpus.ngrams
    # Indices instead of words, because RapidFuzz compares words by their hash.
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
    # An empty caption has no common words, so any length above 0 does.
    precision = np.maximum.reduceat(common / np.maximum(counts.length[hypotheses], 1), first)
    recall = np.maximum.reduceat(common / np.maximum(counts.length[references], 1), first)
    factor = self.beta**2
    weighted = recall + factor * precision
    product = (1 + factor) * precision * recall
    return np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)[:, None]
