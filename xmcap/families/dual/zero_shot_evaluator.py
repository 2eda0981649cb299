"""Evaluates a dual tower by zero-shot classification, in every language that has class names."""

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
from xmcap.evaluation import sharded_params
from xmcap.evaluation.split_evaluator import SplitEvaluator, of_split
from xmcap.families.dual import embedder as embedder_lib
from xmcap.families.dual.text_input import OwnPieces
from xmcap.ranked import prompts as prompts_lib
from xmcap.ranked import zero_shot


@gin.configurable
class ZeroShotEvaluator(SplitEvaluator):
  """Top-1 accuracy on images of one class each, as in `xmcap score zero-shot`, for the dual tower configured in gin.

  Args:
    stream: a `TagStream` of images with one tag each; the number of a class is that of its tag in `tags.txt`.
    labels: a file of class names in Babel-ImageNet's layout.
    prompts: a file {"DE": ["ein Bild von {}", ...]}; "", or for languages that it lacks: the class name alone.
    languages: codes, or ('every',); (): all that have labels, of Babel-ImageNet's file the paper's 100 and English.
    vocabulary: the file of the model's vocabulary; "": that of the stream's corpus. A tower that `xmcap convert` wrote
      has its own tokenizer, and resizes images in its own way.
    max_length: the largest number of tokens in a text.
    fixed_classes: number of classes in the fixed-size variant; 0: without it.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    out_dir: tables and report are written to `out_dir/name`; "": nothing is written.
    title: title of the tables and the report.
    adapters: a folder with a subfolder for each language that has an adapter (`convert --part=adapter`).
    name: prefix of the names of the rows, such as `noto`.
  """

  def __init__(
    self,
    stream: Any = gin.REQUIRED,
    labels: str = gin.REQUIRED,
    prompts: str = "",
    languages: Sequence[str] = (),
    vocabulary: str = "",
    max_length: int = 64,
    fixed_classes: int = 0,
    bootstrap: int = 0,
    out_dir: str = "",
    title: str = "",
    adapters: str = "",
    name: str = "",
  ):
    module: Any = embedder_lib.configured_tower()
    super().__init__(embedder_lib.resizing(stream, module), bootstrap, out_dir, title, name)
    self.options["fixed_classes"] = fixed_classes
    self.labels = zero_shot.read_labels(labels, tuple(languages) or None, logging.warning)
    if (highest := max(int(names.indices[-1]) for names in self.labels.values())) >= len(stream.tags):
      raise UsageError(
        f"{labels}: class {highest}, but the corpus has {len(stream.tags)} tags: give the labels of this corpus"
      )
    self.prompts = prompts_lib.read_prompts(prompts) if prompts else {}
    self.prompts_name = pathlib.PurePath(prompts).stem if prompts else "label"
    self.adapters = adapters
    self.module = module
    own = embedder_lib.converted_tokenizer(module.text)
    if own is None:
      pieces = Vocabulary(vocabulary) if vocabulary else registry.registration(stream.mixture).vocabulary()
      last = getattr(module.text, "pool", "") == "last"  # read at its end, a text is always padded
      own = OwnPieces(pieces, max_length, fixed=last)
    self.text_input = own

    def embed(params, batch):
      image = module.apply({"params": params}, batch["image"], method="embed_images")
      return image, batch["tags"], batch["weights"]

    self._embed = jax.jit(embed)

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields the rows of `SplitEvaluator.rows`."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    images, targets, keys = self._images(sharded)
    embedder = embedder_lib.TextEmbedder(self.module, sharded, self.text_input)
    # All texts are embedded first, because all processes have to embed the same texts in the same order.
    embedded = {}
    for language, of_language in self.labels.items():
      adapted = embedder_lib.adapted(embedder, self.adapters, language)
      embedded[language] = adapted.ensemble(
        of_language.names, self.prompts.get(language, prompts_lib.ALONE), language
      )
    texts = {language: functools.partial(np.asarray, names) for language, names in embedded.items()}
    result = zero_shot.score_zero_shot(
      images, targets, self.labels, texts, prompts=self.prompts_name, keys=keys, **self.options
    )
    if self.writes:
      self.write(result)
    yield from self.rows(result.table)

  def _images(self, sharded: sharded_params.ShardedParams) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Embeddings float32 [N, E], classes int64 [N] and numbers of the split's images."""
    name = f"{self.prefix}zero-shot"
    image, tags, weights = of_split(self.stream, len(self.stream.source), self._embed, sharded, name)
    kept = (weights > 0) & (tags[:, 0] > 0)
    return image[kept], tags[kept, 0].astype(np.int64) - 1, [str(number) for number in np.flatnonzero(kept)]
