"""Share of exactly correct captions, for corpora with only one way to caption an image, such as emoji36."""

import numpy as np

from xmcap.scoring.metrics import base


class Exact(base.CaptionMetric):
  """Share of captions with exactly the same words as a reference; a caption without words is wrong."""

  name = "exact"
  heading = "Exact"
  signature = "unit=words"
  percent = True

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1]: 1 if the caption is right, else 0."""
    right = [
      bool(hypothesis) and any(list(hypothesis) == list(reference) for reference in references)
      for hypothesis, references in zip(corpus.hypotheses, corpus.references, strict=True)
    ]
    return np.array(right, dtype=np.float64)[:, None]
