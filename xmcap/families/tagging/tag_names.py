"""Captions that are only the names of an image's tags, to watch a run that pretrains a ViT on tags."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin
import jax
import jax.numpy as jnp
import numpy as np

from xmcap.data import records
from xmcap.evaluation import sharded_params
from xmcap.training import sharding

_READ = 4096  # records to look for names in


@gin.configurable
class TagNames:
  """Names the tags that a `Tagger` finds in images, from left to right; called as a `Predictor`.

  A tag's name in a language is the caption of an image of the corpus that shows nothing else, among the first 4,096; a
  tag without such an image keeps its own name.

  Args:
    objective: a `TagObjective`, whose module is the tagger.
    data_dir: folder of the records.
    split: split of the records.
  """

  def __init__(self, objective: Any = gin.REQUIRED, data_dir: str = gin.REQUIRED, split: str = "train"):
    module = objective.module
    self.image_size: int = module.vit.image_size
    self._tags = records.read_tags(data_dir)
    self._names: dict[str, dict[str, str]] = {tag: {} for tag in self._tags}
    for record in itertools.islice(records.RecordSource(data_dir, split), _READ):
      if len(record.tags) == 1:
        for caption in record.captions:
          self._names[record.tags[0]].setdefault(caption.language, caption.text)

    def compute(params: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
      slots, _ = module.apply({"params": params}, batch["image"])
      return jnp.argmax(slots, -1)

    self._compute = jax.jit(compute)

  def __call__(
    self, params: Any, keys: Sequence[str], load: Callable[[str], np.ndarray], languages: Sequence[str]
  ) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (key, {language: names}) for each image, in order; all processes of a run must call it together."""
    sharded = sharded_params.for_evaluation(params, jax.devices())
    size = sharded.rounded(len(keys))
    fed = sharding.process_rows(sharded.mesh, size)
    # The batch is padded with its last image.
    pixels = np.stack([load(keys[min(int(row), len(keys) - 1)]) for row in fed])
    rows = sharded.compute(self._compute, {"image": pixels}, size, fed)
    for key, slots in zip(keys, rows, strict=False):
      tags = [self._tags[slot - 1] for slot in slots.tolist() if slot]
      yield key, {language: ", ".join(self._name(tag, language) for tag in tags) for language in languages}

  def _name(self, tag: str, language: str) -> str:
    return self._names[tag].get(language, tag)
