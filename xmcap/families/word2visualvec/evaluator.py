"""Evaluates a Word2VisualVec by retrieval: its captions against the stored features of the images."""

import copy
from typing import Any

import gin
import jax
import numpy as np

from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.evaluation.retrieval_base import Embedded, RetrievalBase
from xmcap.evaluation.split_evaluator import of_split
from xmcap.models.layers import normalized
from xmcap.ranked import retrieval

_ZERO = 0.5  # a length below it is 0, others are 1


@gin.configurable
class WordRetrievalEvaluator(RetrievalBase):
  """MRR, and recall at 1, 5 and 10, in both directions, as in `xmcap score retrieval`, by the cosine.

  Args:
    objective: the `Word2VisualVecObjective` of the run.
    stream: a `WordStream` of the split; one caption of each image in each of its languages is used.
    num_pictures: number of images from the split; 0: all.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    out_dir: tables and report are written to `out_dir/name`; "": nothing is written.
    title: title of the tables and the report.
    name: prefix of the names of the rows, such as `validation`.
  """

  def __init__(
    self,
    objective: Any = gin.REQUIRED,
    stream: Any = gin.REQUIRED,
    num_pictures: int = 0,
    bootstrap: int = 0,
    out_dir: str = "",
    title: str = "",
    name: str = "",
  ):
    super().__init__(stream, num_pictures, bootstrap, out_dir, title, name)
    # All have the same order, so that the images are at the same places.
    self._streams = {language: stream.only(language) for language in stream.languages}

    def embed(params, batch):
      text = objective.module.apply({"params": params}, batch["words"], batch["vectors"], method="embed")
      return normalized(batch["features"]), text, batch["weights"]

    self._embed = jax.jit(embed)

  def small(self, images: int) -> "WordRetrievalEvaluator":
    """An evaluator of a few images, without files."""
    evaluator = copy.copy(self)
    evaluator.num_pictures, evaluator.out_dir = images, ""
    evaluator._streams = {language: stream.resized(images) for language, stream in self._streams.items()}
    return evaluator

  def _embedded(self, sharded: sharded_params.ShardedParams, count: int) -> Embedded:
    captions, texts, image, shortest = {}, {}, np.zeros((0, 0), np.float32), 1.0
    for language, stream in self._streams.items():
      name = f"{self.prefix}retrieval in '{language}'"
      image, text, weights = of_split(stream, count, self._embed, sharded, name)
      captioned = np.flatnonzero(weights > 0)
      if captioned.size:
        captions[language] = retrieval.CaptionRows(captioned, ("",) * len(captioned))
        texts[language] = lambda chosen=text[captioned]: chosen
        shortest = min(shortest, *(np.linalg.norm(x[captioned], axis=1).min() for x in (image, text)))
    if not captions:
      raise UsageError(
        f"split '{self.stream.split}' has no caption in {', '.join(self._streams)} from these sources: choose others"
      )
    # Vectors have length 1, so that the product is the cosine. But a network may predict 0 for a sentence, which has no
    # direction: its product is 0 with every image.
    return Embedded(image, captions, texts, "cosine" if shortest > _ZERO else "dot")
