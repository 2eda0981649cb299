"""Texts and stored features to embeddings in the space of a Word2VisualVec."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.data import features as features_lib
from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params
from xmcap.evaluation.text_embedding import EmbedsTexts
from xmcap.families.word2visualvec import words as words_lib
from xmcap.families.word2visualvec.model import Word2VisualVec, Word2VisualVecConfig
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json
from xmcap.training.hosts import stopping

_LONGEST = 64  # words of a text; further ones are cut
_SHORTEST = 1e-6  # length of a vector before it is normalised


class WordEmbedder(EmbedsTexts):
  """Embeds texts by their known words. A text without one is embedded as an empty one."""

  def __init__(
    self, module: Word2VisualVec, sharded: sharded_params.ShardedParams, words: words_lib.WordVectors
  ):
    def embed(params, batch):
      return module.apply({"params": params}, batch["words"], batch["vectors"], method="embed")

    super().__init__(sharded, embed, 256, f"{_LONGEST} words")
    self.words = words

  def _window(
    self, texts: Sequence[str], tokenized: Sequence[str], first: int, language: str
  ) -> tuple[np.ndarray, np.ndarray]:
    encoded = self.words.encode(language, texts, tokenized)
    self.cut += sum(len(numbers) > _LONGEST for numbers in encoded)
    parts = []
    for start in range(0, len(encoded), self.batch_size):
      stopping.evaluation_batch(f"text {first + start}")
      part = encoded[start : start + self.batch_size]
      numbers = np.zeros((self.batch_size, _LONGEST), np.int32)
      for row, of_text in zip(numbers, part, strict=False):
        row[: len(of_text)] = of_text[:_LONGEST] + 1
      embedded = self._batch({"words": numbers, "vectors": self.words.look_up(numbers)})
      parts.append(embedded[: len(part)])
    return np.concatenate(parts), np.array([len(numbers) > 0 for numbers in encoded])


class FeatureEmbedder:
  """A Word2VisualVec and the stored features of images.

  Args:
    folder, model, params: a run's folder, and what it holds.
    features: file or folder of the stored features; "": only texts are embedded.

  Raises:
    UsageError: the words are not in the folder, or are those of another run.
  """

  def __init__(self, folder: epath.Path, model: model_json.Model, params: Any, features: str = ""):
    config = model.config("words")
    assert isinstance(config, Word2VisualVecConfig)
    words = words_lib.read(os.fspath(folder / words_lib.FOLDER), model.languages)
    module = Word2VisualVec(config, len(words))
    _check_shapes(folder, module, params, words.vectors.shape[1])
    sharded = sharded_params.for_evaluation(params, jax.local_devices())
    self.texts = WordEmbedder(module, sharded, words)
    self._features, self._width = features, config.output_dim

  @property
  def preprocessing(self) -> str:
    """How texts are prepared, with a hash of the words; images are stored features."""
    return f"stored features; up to {self.texts.longest}, words#{self.texts.words.sha256[:16]}"

  def texts_of(self, language: str, adapters: str = "") -> WordEmbedder:
    """Returns what embeds texts of a language; UsageError for adapters, which only towers have."""
    del language
    if adapters:
      raise UsageError(f"{adapters}: a Word2VisualVec takes no adapter: leave --adapters out")
    return self.texts

  def pictures(self, paths: Sequence[str], read: Callable[[str], bytes]) -> np.ndarray:
    """Returns the stored features of images, normalised, float32 [N, F]; `paths` are keys of the images.

    Raises:
      UsageError: as `features.read`; or an image has none, or they have another width than the model predicts.
    """
    del read
    vectors = features_lib.of_keys(self._stored, paths, self._features, "the pictures to embed")
    if vectors.shape[1] != self._width:
      raise UsageError(
        f"{self._features}: vectors of {vectors.shape[1]:,} numbers, but the model predicts {self._width:,}: give those"
        " of the model that it was trained on"
      )
    lengths = np.sqrt(np.sum(np.square(vectors, dtype=np.float64), axis=1, keepdims=True))
    return (vectors / np.maximum(lengths, _SHORTEST)).astype(np.float32)

  @functools.cached_property
  def _stored(self) -> features_lib.Features:
    return features_lib.read(self._features)


def _check_shapes(folder: epath.Path, module: Word2VisualVec, params: Any, width: int) -> None:
  words, vectors = np.zeros((1, 1), np.int32), np.zeros((1, 1, width), np.float32)
  shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), words, vectors)["params"])
  if jax.tree.map(np.shape, shapes) != jax.tree.map(np.shape, params):
    raise UsageError(
      f"{folder}: its words or {model_json.NAME} do not fit its parameters: copy the whole folder of the run again"
    )
