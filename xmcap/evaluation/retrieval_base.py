"""What all evaluators by retrieval share."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.evaluation.split_evaluator import SplitEvaluator
from xmcap.ranked import retrieval
from xmcap.reading import embedding_files
from xmcap.scoring.metrics.ranked import DEPTHS


class Embedded(NamedTuple):
  """The arguments of `score_retrieval` that depend on the parameters."""

  pictures: np.ndarray
  captions: dict[str, retrieval.CaptionRows]
  texts: dict[str, embedding_files.Read]
  similarity: str = "cosine"


class RetrievalBase(SplitEvaluator):
  """The base class of retrieval evaluators: scores what `_embedded` returns, as `xmcap score retrieval` does."""

  def __init__(self, stream: Any, num_pictures: int, bootstrap: int, out_dir: str, title: str, name: str):
    super().__init__(stream, bootstrap, out_dir, title, name)
    self.num_pictures = num_pictures

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields the rows of `SplitEvaluator.rows`."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    count = min(self.num_pictures or len(self.stream.source), len(self.stream.source))
    split = self._embedded(sharded, count)
    keys = [str(number) for number in range(len(split.pictures))]
    depths = [k for k in DEPTHS if all(k <= len(captions.images) for captions in split.captions.values())]
    options = {"similarity": split.similarity, "is_ordered": True, **self.options}
    result = retrieval.score_retrieval(split.pictures, keys, split.captions, split.texts, depths, **options)
    if self.writes:
      self.write(result)
    yield from self.rows(result.table)

  def _embedded(self, sharded: sharded_params.ShardedParams, count: int) -> Embedded:
    """Embeds the first `count` images of the stream, and their captions."""
    raise NotImplementedError
