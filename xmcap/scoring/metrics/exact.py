"""Share of captions that are exactly right: for corpora whose captions leave no choice, such as emoji36."""

import numpy as np

from xmcap.scoring.metrics import base


class Exact(base.CaptionMetric):
  """Share of captions with exactly the words of one of the references; a caption without words is wrong."""

  name = "exact"
  heading = "Exact"
  percent = True

  @property
  def signature(self) -> str:
    return "unit=words"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 1]: 1 where the caption is right, else 0."""
    right = [
      bool(hypothesis) and any(list(hypothesis) == list(reference) for reference in references)
      for hypothesis, references in zip(corpus.hypotheses, corpus.references, strict=True)
    ]
    return np.array(right, dtype=np.float64)[:, None]
