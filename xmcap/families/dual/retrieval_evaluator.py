"""Evaluates by retrieval: R@k and MRR between the captions and images of a split, in each language."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap.data.caption_choice import DrawnCaptions
from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.evaluation.retrieval_base import Embedded, RetrievalBase, rows_of
from xmcap.evaluation.split_evaluator import of_split
from xmcap.families.dual import embedder
from xmcap.families.dual.text_input import TextInput


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class RetrievalEvaluator(RetrievalBase):
  """Recall at 1, 5 and 10 in both directions, as in `xmcap score retrieval`, for the dual tower configured in gin.

  Its `stream` is a `CaptionStream`, of which one caption in each of its languages is used. For a tower that `xmcap
  convert` wrote, the text of a caption goes through its own tokenizer, and images are resized in its own way.

  Attributes, beside those of `RetrievalBase`:
    pictures: images per batch.
  """

  num_pictures: int = 1_000
  pictures: int = 32

  def __post_init__(self):
    super().__post_init__()
    if self.pictures < 1:
      raise UsageError(f"RetrievalEvaluator.pictures is {self.pictures}: give at least 1")
    captions = len(self.stream.languages)
    # Unlike in training, every image has a caption in every language, all padded to one length.
    module: Any = embedder.configured_tower()
    self.stream = dataclasses.replace(
      self.stream, captions_per_image=captions, batch_size=self.pictures * captions, target_lengths=(),
      bucket_window=1, resize=module.dual.resize,
    )  # fmt: skip
    self._module, self._tokenizer = module, embedder.converted_tokenizer(module.text)
    self._drawn: Sequence[DrawnCaptions] = ()

    def embed(params, batch):
      embeddings = module.apply({"params": params}, batch["image"], batch["target_tokens"])
      present = (batch["target_weights"] > 0).any(axis=-1)
      return embeddings.image, embeddings.text, batch["prompt_tokens"], present

    def embed_images(params, batch):
      image = module.apply({"params": params}, batch["image"], method="embed_images")
      return image, (batch["target_weights"] > 0).any(axis=(1, 2))

    self._embed, self._embed_images = jax.jit(embed), jax.jit(embed_images)

  def _embedded(self, sharded: sharded_params.ShardedParams, count: int) -> Embedded:
    """Takes one caption per image and language."""
    name = f"{self.prefix}retrieval"
    if len(self._drawn) != count:  # the same in each evaluation
      self._drawn = self.stream.first(count)[0].captions(np.arange(count))
    if self._tokenizer is not None:
      return self._tokenized(sharded, count, name, self._tokenizer)
    image, text, prompt, present = of_split(self.stream, count, self._embed, sharded, name)
    language = self.stream.language_of(prompt)
    captions = {}
    for code in sorted(set(language[present])):
      at = (language == code) & present
      images = np.flatnonzero(at.any(axis=1))
      captions[code] = rows_of(self._drawn, images, code), text[images, at[images].argmax(axis=1)]
    return Embedded(image, [of_image.key for of_image in self._drawn], captions)

  def _tokenized(
    self, sharded: sharded_params.ShardedParams, count: int, name: str, tokenizer: TextInput
  ) -> Embedded:
    """As `_embedded`, with the texts of the captions in place of the pieces of the corpus's vocabulary."""
    image, present = of_split(self.stream, count, self._embed_images, sharded, name)
    texts_of = embedder.TextEmbedder(self._module, sharded, tokenizer)
    images_of: dict[str, list[int]] = {}
    for row in np.flatnonzero(present).tolist():
      for language in self._drawn[row].texts:
        images_of.setdefault(language, []).append(row)
    captions = {}
    for language in sorted(images_of):
      rows = rows_of(self._drawn, np.array(images_of[language]), language)
      captions[language] = rows, texts_of.all(rows.texts, language)
    return Embedded(image, [of_image.key for of_image in self._drawn], captions)
