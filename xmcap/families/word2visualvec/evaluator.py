"""Evaluates a Word2VisualVec by retrieval: its captions against the stored features of the images."""

import copy
import dataclasses
from typing import Any

import gin
import jax
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.evaluation.retrieval_base import Embedded, RetrievalBase, rows_of
from xmcap.evaluation.split_evaluator import of_split
from xmcap.models.layers import normalized

_ZERO = 0.5  # a length below it is 0, others are 1


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class WordRetrievalEvaluator(RetrievalBase):
  """MRR, and recall at 1, 5 and 10, in both directions, as in `xmcap score retrieval`, by the cosine.

  Its `stream` is a `WordStream`, of which one caption of each image in each of its languages is used.

  Attributes, beside those of `RetrievalBase`:
    objective: the `Word2VisualVecObjective` of the run.
  """

  objective: Any = gin.REQUIRED

  def __post_init__(self):
    super().__post_init__()
    module = self.objective.module
    stream = self.stream
    # All have the same order, so that the images are at the same places.
    self._streams = {language: stream.only(language) for language in stream.languages}

    def embed(params, batch):
      text = module.apply({"params": params}, batch["words"], batch["vectors"], method="embed")
      return normalized(batch["features"]), text, batch["weights"]

    self._embed = jax.jit(embed)

  def small(self, images: int) -> "WordRetrievalEvaluator":
    """An evaluator of a few images, without files."""
    evaluator = copy.copy(self)
    evaluator.num_pictures, evaluator.out_dir = images, ""
    evaluator._streams = {language: stream.resized(images) for language, stream in self._streams.items()}
    return evaluator

  def _embedded(self, sharded: sharded_params.ShardedParams, count: int) -> Embedded:
    captions, keys, image, shortest = {}, [], np.zeros((0, 0), np.float32), 1.0
    for language, stream in self._streams.items():
      name = f"{self.prefix}retrieval in '{language}'"
      image, text, weights = of_split(stream, count, self._embed, sharded, name)
      drawn = stream.first(count)[0].captions(np.arange(count))
      keys = [of_image.key for of_image in drawn]
      captioned = np.flatnonzero(weights > 0)
      if captioned.size:
        captions[language] = rows_of(drawn, captioned, language), text[captioned]
        shortest = min(shortest, *(np.linalg.norm(x[captioned], axis=1).min() for x in (image, text)))
    # Vectors have length 1, so that the product is the cosine. But a network may predict 0 for a sentence, which has no
    # direction: its product is 0 with every image.
    return Embedded(image, keys, captions, "cosine" if shortest > _ZERO else "dot")
