"""What all evaluators by retrieval share."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from xmcap.data.caption_choice import DrawnCaptions
from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.evaluation.split_evaluator import SplitEvaluator
from xmcap.ranked import retrieval
from xmcap.scoring.metrics.ranked import DEPTHS


class Embedded(NamedTuple):
  """Embeddings of a split.

  Attributes:
    pictures: float32 [N, E], of the images; of those without a caption too.
    keys: keys of the images, N or fewer: rows after them are surplus.
    captions: language code -> its captions, and their embeddings, float32 [T, E].
    similarity: as for `score_retrieval`.
  """

  pictures: np.ndarray
  keys: Sequence[str]
  captions: Mapping[str, tuple[retrieval.CaptionRows, np.ndarray]]
  similarity: str = "cosine"


@dataclasses.dataclass(eq=False, repr=False)
class RetrievalBase(SplitEvaluator):
  """The base class of retrieval evaluators: scores what `_embedded` returns, as `xmcap score retrieval` does.

  Attributes, beside those of `SplitEvaluator`:
    num_pictures: number of images from the split; 0: all.
  """

  num_pictures: int = 0

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields the rows of `SplitEvaluator.reported`."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    count = min(self.num_pictures or len(self.stream.source), len(self.stream.source))
    split = self._embedded(sharded, count)
    if not split.captions:
      languages = ", ".join(self.stream.languages)
      raise UsageError(
        f"split '{self.stream.split}' has no caption in {languages} from these sources: choose others"
      )
    # As in a file of captions, an image without a caption in any language is none of the set.
    used: np.ndarray = np.unique(np.concatenate([rows.images for rows, _ in split.captions.values()]))
    captions, texts = {}, {}
    for language, (rows, embedded) in split.captions.items():
      captions[language] = dataclasses.replace(rows, images=np.searchsorted(used, rows.images))
      texts[language] = lambda embedded=embedded: embedded
    depths = [k for k in DEPTHS if all(k <= len(rows.images) for rows in captions.values())]
    options = {"similarity": split.similarity, "is_ordered": True, **self.options}
    keys = [split.keys[int(image)] for image in used]
    result = retrieval.score_retrieval(split.pictures[used], keys, captions, texts, depths, **options)
    yield from self.reported(result)

  def _embedded(self, sharded: sharded_params.ShardedParams, count: int) -> Embedded:
    """Embeds the first `count` images of the stream, and their captions."""
    raise NotImplementedError


def rows_of(drawn: Sequence[DrawnCaptions], images: np.ndarray, language: str) -> retrieval.CaptionRows:
  """Returns the captions in a language of some of the drawn images, whose numbers are int64 [T]."""
  return retrieval.CaptionRows(images, tuple(drawn[image].texts[language] for image in images.tolist()))
