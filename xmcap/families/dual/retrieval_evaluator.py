"""Evaluates by retrieval: R@k and MRR between the captions and images of a split, in each language."""

import dataclasses
from typing import Any

import gin
import jax
import numpy as np

from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.evaluation.retrieval_base import Embedded, RetrievalBase
from xmcap.evaluation.split_evaluator import of_split
from xmcap.families.dual import embedder
from xmcap.families.dual.text_input import TextInput
from xmcap.ranked import retrieval


@gin.configurable
class RetrievalEvaluator(RetrievalBase):
  """Recall at 1, 5 and 10 in both directions, as in `xmcap score retrieval`, for the dual tower configured in gin.

  Args:
    stream: a `CaptionStream` of the split; one caption in each of its languages is used. For a tower that `xmcap
      convert` wrote, the text of a caption goes through its own tokenizer, and images are resized in its own way.
    pictures: images per batch.
    num_pictures: number of images from the split; 0: all.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    out_dir: tables and report are written to `out_dir/name`; "": nothing is written.
    title: title of the tables and the report.
    name: prefix of the names of the rows, such as `validation`.
  """

  def __init__(
    self,
    stream: Any = gin.REQUIRED,
    pictures: int = 32,
    num_pictures: int = 1_000,
    bootstrap: int = 0,
    out_dir: str = "",
    title: str = "",
    name: str = "",
  ):
    if pictures < 1:
      raise UsageError(f"RetrievalEvaluator.pictures is {pictures}: give at least 1")
    captions = len(stream.languages)
    # Unlike in training, every image has a caption in every language, all padded to one length.
    module: Any = embedder.configured_tower()
    stream = dataclasses.replace(
      stream, captions_per_image=captions, batch_size=pictures * captions, target_lengths=(), bucket_window=1,
      resize=module.dual.resize,
    )  # fmt: skip
    super().__init__(stream, num_pictures, bootstrap, out_dir, title, name)
    self._module, self._tokenizer = module, embedder.converted_tokenizer(module.text)

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
    if self._tokenizer is not None:
      return self._tokenized(sharded, count, name, self._tokenizer)
    image, text, prompt, present = of_split(self.stream, count, self._embed, sharded, name)
    kept = present.any(axis=1)
    image, text, present = image[kept], text[kept], present[kept]
    language = self.stream.language_of(prompt[kept])
    captions, texts = {}, {}
    for code in sorted(set(language[present])):
      at = (language == code) & present
      images = np.flatnonzero(at.any(axis=1))
      chosen = text[images, at[images].argmax(axis=1)]
      captions[code] = retrieval.CaptionRows(images, ("",) * len(images))
      texts[code] = lambda chosen=chosen: chosen
    return Embedded(image, captions, texts)

  def _tokenized(
    self, sharded: sharded_params.ShardedParams, count: int, name: str, tokenizer: TextInput
  ) -> Embedded:
    """As `_embedded`, with the texts of the captions in place of the pieces of the corpus's vocabulary."""
    image, present = of_split(self.stream, count, self._embed_images, sharded, name)
    kept = np.flatnonzero(present)
    of_images = self.stream.first(count)[0].texts(kept)
    texts_of = embedder.TextEmbedder(self._module, sharded, tokenizer)
    captions, texts = {}, {}
    for language in sorted({language for of_image in of_images for language in of_image}):
      images = np.array([row for row, of_image in enumerate(of_images) if language in of_image])
      chosen = texts_of.all([of_images[row][language] for row in images], language)
      captions[language] = retrieval.CaptionRows(images, ("",) * len(images))
      texts[language] = lambda chosen=chosen: chosen
    return Embedded(image[kept], captions, texts)
