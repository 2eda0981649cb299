"""Evaluates by retrieval: R@k and MRR between the captions and pictures of a split, in each language."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import gin
import jax
import numpy as np

from xmcap.errors import UsageError
from xmcap.evaluation import embedder, sharded_params
from xmcap.scoring import embedding_files, retrieval
from xmcap.scoring.metrics.ranked import DEPTHS
from xmcap.scoring.report import embeddings_page
from xmcap.storage import addresses, outputs


class Files(NamedTuple):
  """The arguments of `score_retrieval` that depend on the parameters."""

  pictures: np.ndarray
  captions: dict[str, retrieval.Captions]
  texts: dict[str, embedding_files.Read]
  similarity: str = "cosine"


class OfSplit:
  """The base class of retrieval evaluators: scores what `_files` returns, as `xmcap score retrieval` does.

  Args:
    stream: the stream of the split.
    num_pictures: number of pictures from the split; 0: all.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    out_dir: tables and report are written to `out_dir/name`; "": nothing is written.
    title: title of the tables and the report.
    name: prefix of the names of the rows, such as `validation`.
  """

  def __init__(self, stream: Any, num_pictures: int, bootstrap: int, out_dir: str, title: str, name: str):
    self.stream = stream
    self.num_pictures = num_pictures
    self.prefix = f"{name}/" if name else ""
    self.out_dir = addresses.join(out_dir, name) if out_dir and name else out_dir
    self.options = {"bootstrap": bootstrap if out_dir else 0, "title": title}

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields (language, name, value) for each language and metric, and ("", name, value) for the means."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    count = min(self.num_pictures or len(self.stream.source), len(self.stream.source))
    found = self._files(sharded, count)
    keys = [str(number) for number in range(len(found.pictures))]
    depths = [k for k in DEPTHS if all(k <= len(held.images) for held in found.captions.values())]
    result = retrieval.score_retrieval(
      found.pictures, keys, found.captions, found.texts, depths, similarity=found.similarity, **self.options
    )
    if self.out_dir and jax.process_index() == 0:
      with outputs.together(self.out_dir):
        embeddings_page.write_results(self.out_dir, result)
      print(result.table.terminal(), flush=True)
    table = result.table
    for name, scores in [*table.rows.items(), ("", list(table.means.values())[-1])]:
      for metric in table.metrics:
        yield name, f"{self.prefix}{metric}", scores[metric]

  def _files(self, sharded: sharded_params.ShardedParams, count: int) -> Files:
    """Embeds the first `count` pictures of the stream, and their captions."""
    raise NotImplementedError


@gin.configurable
class RetrievalEvaluator(OfSplit):
  """Recall at 1, 5 and 10 in both directions, as in `xmcap score retrieval`, for the dual tower configured in gin.

  Args:
    stream: a `CaptionStream` of the split; one caption in each of its languages is used.
    pictures: pictures per batch.
    num_pictures: number of pictures from the split; 0: all.
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
    each = len(stream.languages)
    # Unlike in training, every picture has a caption in every language, all padded to one length.
    stream = dataclasses.replace(
      stream, captions_per_image=each, batch_size=pictures * each, target_lengths=(), bucket_window=1
    )
    super().__init__(stream, num_pictures, bootstrap, out_dir, title, name)
    self._module: Any = embedder.configured_tower()

  def _files(self, sharded: sharded_params.ShardedParams, count: int) -> Files:
    image, text, prompt, present = embedder.of_split(
      self.stream, count, self._embed, sharded, f"{self.prefix}retrieval"
    )
    return self._as_files(image, text, self.stream.language_of(prompt), present)

  def _embed(self, params: Any, batch: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    found = self._module.apply({"params": params}, batch["image"], batch["target_tokens"])
    present = (batch["target_weights"] > 0).any(axis=-1)
    return found.image, found.text, batch["prompt_tokens"], present

  @staticmethod
  def _as_files(image: np.ndarray, text: np.ndarray, language: np.ndarray, present: np.ndarray) -> Files:
    """One caption per picture and language."""
    kept = present.any(axis=1)
    image, text, language, present = image[kept], text[kept], language[kept], present[kept]
    captions, texts = {}, {}
    for code in sorted(set(language[present])):
      at = (language == code) & present
      pictures = np.flatnonzero(at.any(axis=1))
      chosen = text[pictures, at[pictures].argmax(axis=1)]
      captions[code] = retrieval.Captions(pictures, ("",) * len(pictures))
      texts[code] = lambda chosen=chosen: chosen
    return Files(image, captions, texts)
