"""ROUGE-L as in the COCO evaluation and as in rouge-score, with RapidFuzz's longest common subsequence."""

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
    common, hypothesis, reference, first = _common(corpus)
    precision = np.maximum.reduceat(common / hypothesis, first)
    recall = np.maximum.reduceat(common / reference, first)
    factor = self.beta**2
    weighted = recall + factor * precision
    product = (1 + factor) * precision * recall
    return np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)[:, None]


class RougeLF1(base.CaptionMetric):
  """The F1 score of the longest common subsequence of words, the largest over the references, in [0, 1].

  On the words of the tokeniser `rouge` it is `rouge_score.RougeScorer(["rougeL"]).score_multi` of rouge-score 0.1.2
  without its stemmer, which Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), used.
  """

  name = "rouge_l_f1"
  heading = "ROUGE-L F1"
  scaled = True
  is_extra = True
  signature = "beta=1,f=max"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image; the mean is the score of the corpus."""
    common, hypothesis, reference, first = _common(corpus)
    return np.maximum.reduceat(2 * common / (hypothesis + reference), first)[:, None]


def _common(corpus: base.Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns arrays [references]: words in common, of the hypothesis, of the reference; and [images]: the first place.

  An empty caption counts as one word: it has none in common with another, so that any length above 0 does.
  """
  from rapidfuzz.distance import LCSseq  # most tables do not need it

  counts = corpus.ngrams
  # Indices instead of words, because RapidFuzz compares words by their hash.
  words = counts.words.tolist()
  ends = np.cumsum(counts.length).tolist()
  captions = [words[start:end] for start, end in itertools.pairwise([0, *ends])]
  references = np.flatnonzero(counts.is_reference)
  hypotheses = counts.hypothesis[references]
  common = np.array(
    [
      LCSseq.similarity(captions[hypothesis], captions[reference])
      for hypothesis, reference in zip(hypotheses.tolist(), references.tolist(), strict=True)
    ]
  )
  first = np.flatnonzero(np.diff(counts.image[references], prepend=-1))
  return common, np.maximum(counts.length[hypotheses], 1), np.maximum(counts.length[references], 1), first
