"""Metrics of embeddings: CLIPScore, RefCLIPScore, and the cosine of a caption with its references.

They see `Corpus.cosines`, which `scoring.vectors` computes from embeddings of any model, and not the words. An empty
caption scores 0. None of them sees the language: a caption scores about as high as its translation.
"""

import numpy as np

from xmcap.scoring.metrics import base


class ClipScore(base.CaptionMetric):
  """CLIPScore (Hessel et al., EMNLP 2021, section 3): 2.5 max(cos(caption, image), 0).

  It equals jmhessel/clipscore on the same vectors. That is from CLIP ViT-B/32, with "A photo depicts " before captions.
  """

  name = "clip_score"
  heading = "CLIP-S"
  signature = "w=2.5"
  most = 2.5
  compares = ("pictures",)
  scaled = True
  is_extra = True

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image."""
    return _clip_score(corpus.given_cosines)[:, None]


class RefClipScore(base.CaptionMetric):
  """RefCLIPScore (the same, section 3): the harmonic mean of CLIPScore and the largest cosine with a reference, or 0.

  As in the paper, a largest cosine below 0 counts as 0, and two zeros have the mean 0. jmhessel/clipscore has neither
  rule: it divides by their sum, so it may give a number below 0 or NaN there. Elsewhere the two are equal.
  """

  name = "ref_clip_score"
  heading = "RefCLIP-S"
  signature = "w=2.5,refs=max"
  most = 2 * 2.5 / (2.5 + 1)
  compares = ("pictures", "references")
  scaled = True
  is_extra = True

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image."""
    image, reference = _clip_score(corpus.given_cosines), np.maximum(corpus.given_cosines.largest, 0)
    total = image + reference
    return np.divide(2 * image * reference, total, out=np.zeros_like(total), where=total > 0)[:, None]


class Similarity(base.CaptionMetric):
  """The largest (`max`) or the `mean` cosine of a caption with its references, in [-1, 1]."""

  compares = ("references",)
  least = -1.0
  scaled = True
  is_extra = True

  def __init__(self, kind: str):
    self.kind = kind
    self.name, self.heading = f"similarity_{kind}", f"similarity ({kind})"
    self.signature = f"refs={kind}"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1], the score of each image."""
    cosines = corpus.given_cosines
    return (cosines.largest if self.kind == "max" else cosines.mean)[:, None]


def _clip_score(cosines: base.Cosines) -> np.ndarray:
  return 2.5 * np.maximum(cosines.image, 0)
