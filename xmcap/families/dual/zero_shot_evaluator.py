"""Evaluates a dual tower by zero-shot classification, in every language that has class names."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import gin
import jax
import numpy as np
from absl import logging

from xmcap.data import registry
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import embed as embed_lib
from xmcap.evaluation import sharded_params
from xmcap.evaluation.split_evaluator import SplitEvaluator, of_split
from xmcap.families.dual import embedder as embedder_lib
from xmcap.families.dual.text_input import OwnPieces
from xmcap.ranked import prompts as prompts_lib
from xmcap.ranked import zero_shot


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class ZeroShotEvaluator(SplitEvaluator):
  """Top-1 accuracy on images of one class each, as in `xmcap score zero-shot`, for the dual tower configured in gin.

  Its `stream` is a `TagStream` of images with one tag each; the number of a class is that of its tag in `tags.txt`.

  Attributes, beside those of `SplitEvaluator`:
    labels: a file of class names in Babel-ImageNet's layout.
    prompts: a file {"DE": ["ein Bild von {}", ...]}; "", or for languages that it lacks: the class name alone.
    languages: codes, or ('every',); (): all that have labels, of Babel-ImageNet's file the paper's 100 and English.
    vocabulary: the file of the model's vocabulary; "": that of the stream's corpus. A tower that `xmcap convert` wrote
      has its own tokenizer, and resizes images in its own way.
    max_length: the largest number of tokens in a text.
    fixed_classes: number of classes in the fixed-size variant; 0: without it.
    adapters: a folder with a subfolder for each language that has an adapter (`convert --part=adapter`).
  """

  labels: str = gin.REQUIRED
  prompts: str = ""
  languages: Sequence[str] = ()
  vocabulary: str = ""
  max_length: int = 64
  fixed_classes: int = 0
  adapters: str = ""

  def __post_init__(self):
    super().__post_init__()
    self.module: Any = embedder_lib.configured_tower()
    self.stream = stream = embedder_lib.resizing(self.stream, self.module)
    module = self.module
    self._labels = zero_shot.read_labels(self.labels, tuple(self.languages) or None, logging.warning)
    highest = max(int(names.indices[-1]) for names in self._labels.values())
    if highest >= len(stream.tags):
      raise UsageError(
        f"{self.labels}: class {highest}, but the corpus has {len(stream.tags)} tags: give the labels of this corpus"
      )
    embed_lib.check_adapters(self.adapters, list(self._labels), logging.warning)
    self._prompts = prompts_lib.read_prompts(self.prompts) if self.prompts else {}
    for line in prompts_lib.unmatched(self._prompts, self._labels) if self.prompts else ():
      logging.warning("%s: %s", self.prompts, line)
    own = embedder_lib.converted_tokenizer(module.text)
    if own is None:
      path = self.vocabulary
      pieces = Vocabulary(path) if path else registry.registration(stream.mixture).vocabulary()
      last = getattr(module.text, "pool", "") == "last"  # read at its end, a text is always padded
      own = OwnPieces(pieces, self.max_length, fixed=last)
    self.text_input = own
    self._keys: Sequence[str] = ()

    def embed(params, batch):
      image = module.apply({"params": params}, batch["image"], method="embed_images")
      return image, batch["tags"], batch["weights"]

    self._embed = jax.jit(embed)

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields the rows of `SplitEvaluator.reported`."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    images, targets, keys = self._images(sharded)
    embedder = embedder_lib.TextEmbedder(self.module, sharded, self.text_input)
    # All texts are embedded first, because all processes have to embed the same texts in the same order.
    embedded = {}
    for language, of_language in self._labels.items():
      adapted = embedder_lib.adapted(embedder, self.adapters, language)
      embedded[language] = adapted.ensemble(
        of_language.names, self._prompts.get(language, prompts_lib.ALONE), language
      )
    texts = {language: functools.partial(np.asarray, names) for language, names in embedded.items()}
    prompts = pathlib.PurePath(self.prompts).stem if self.prompts else "label"
    options = {"prompts": prompts, "fixed_classes": self.fixed_classes, "keys": keys, **self.options}
    yield from self.reported(zero_shot.score_zero_shot(images, targets, self._labels, texts, **options))

  def _images(self, sharded: sharded_params.ShardedParams) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Embeddings float32 [N, E], classes int64 [N] and keys of the split's images."""
    name, count = f"{self.prefix}zero-shot", len(self.stream.source)
    image, tags, weights = of_split(self.stream, count, self._embed, sharded, name)
    kept = np.flatnonzero((weights > 0) & (tags[:, 0] > 0))
    self._keys = self._keys or self.stream.keys(count)  # the same in each evaluation
    return image[kept], tags[kept, 0].astype(np.int64) - 1, [self._keys[place] for place in kept.tolist()]
