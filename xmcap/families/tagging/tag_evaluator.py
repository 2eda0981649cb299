"""Evaluates predicted labels: precision, recall and F at k in each language, as `xmcap score tags` does."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap.errors import UsageError
from xmcap.evaluation import sharded_params, table_rows
from xmcap.evaluation.split_evaluator import SplitEvaluator, of_split
from xmcap.families.tagging import image_tags, tag_baselines
from xmcap.families.tagging.label_tagger import columns
from xmcap.files import addresses, outputs
from xmcap.ranked import page
from xmcap.ranked import tags as tags_lib
from xmcap.reading import tag_files
from xmcap.scoring import baselines as baselines_lib
from xmcap.scoring.metrics.tags import DEPTHS
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table

PREDICTIONS = "predictions.jsonl"

_MOST = max(DEPTHS)
"""Tags that are predicted for each image."""


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class TagEvaluator(SplitEvaluator):
  """Predicts the labels of a split, a `LabelStream` with the labels of the objective, and scores them.

  Attributes, beside those of `SplitEvaluator`:
    objective: the `LabelObjective` of the run.
    languages: codes to score; (): all.
    depths: the numbers k, of 1, 3, 5 and 10.
    baselines: a `LabelStream` of the training split. If given, the most frequent tags and those of the nearest training
      image (by the cosine of the vectors that the network gets) are scored too.
    num_pictures: number of images from the split; 0: all.
  """

  objective: Any = gin.REQUIRED
  languages: Sequence[str] = ()
  depths: Sequence[int] = (5,)
  baselines: Any = None
  num_pictures: int = 0

  def __post_init__(self):
    super().__post_init__()
    stream, depths = self.stream, tuple(self.depths)
    self.options["depths"] = depths
    if stream.names != self.objective.names:
      raise UsageError(
        "TagEvaluator: its stream and its objective have other labels: give both the same folders"
      )
    if self.baselines is not None and self.baselines.source.split == stream.source.split:
      raise UsageError(
        f"TagEvaluator.baselines: they would be made from the split '{stream.source.split}' that is scored: give the"
        " training split"
      )
    if unknown := [language for language in self.languages if language not in stream.names]:
      raise UsageError(
        f"TagEvaluator.languages: no labels in {', '.join(unknown)}: choose of {', '.join(stream.names)}"
      )
    self.languages = tuple(self.languages) or tuple(stream.names)
    for language in self.languages:
      if len(stream.names[language]) < max(depths, default=0):
        raise UsageError(
          f"TagEvaluator.depths: P@{max(depths)} needs {max(depths)} labels or more, and "
          f"{stream.labels[language]}/labels.txt has {len(stream.names[language])}: choose a smaller depth"
        )
    self._predict = jax.jit(_predicting(self.objective, with_vectors=self.baselines is not None))

  def small(self, images: int) -> "TagEvaluator":
    """An evaluator of a few images, without baselines and files."""
    evaluator = copy.copy(self)
    evaluator.stream, evaluator.num_pictures = self.stream.resized(images), images
    evaluator.baselines, evaluator.out_dir = None, ""
    return evaluator

  def run(self, params: Any, step: int | None) -> Iterator[tuple[str, str, float]]:
    """Yields `table_rows.rows`, also for each baseline."""
    del step
    sharded = sharded_params.for_evaluation(params, jax.devices())
    count = min(self.num_pictures or len(self.stream.source), len(self.stream.source))
    keys = self.stream.keys(count)
    weights, vectors, *best = of_split(self.stream, count, self._predict, sharded, f"{self.prefix}tags")
    # An image with labels that has weight 0 could not be decoded.
    labelled = self.stream.truth.columns
    kept = [
      key for key, weight in zip(keys, weights, strict=False) if weight or not len(labelled.get(key, ()))
    ]
    truth = {
      language: tags for language, tags in _truth(self.stream, kept).items() if language in self.languages
    }
    predictions: tag_files.Scores = {}
    for language, scores, places in zip(self.stream.names, best[::2], best[1::2], strict=True):
      names = self.stream.names[language]
      predictions[language] = {
        key: image_tags.named(names, of_image, numbers)
        for key, of_image, numbers in zip(keys, scores, places, strict=False)
      }
    by_tagger = {"": _of_pictures(predictions, truth)}
    if self.baselines is not None:
      for name, predicted in self._baselines(sharded, keys, vectors[:count], truth).items():
        by_tagger[name] = _of_pictures(predicted, truth)
    results = {
      name: tags_lib.score_tags(truth, predicted, **self.options) for name, predicted in by_tagger.items()
    }
    if self.writes:
      self._write(by_tagger, results)
    for name, result in results.items():
      yield from table_rows.rows(result.table, f"{self.prefix}{name}/" if name else self.prefix)

  def _baselines(
    self, sharded: Any, keys: Sequence[str], vectors: np.ndarray, truth: tag_baselines.Tags
  ) -> dict[str, tag_files.Scores]:
    stream = self.baselines
    train_keys = stream.keys(len(stream.source))
    weights, train_vectors, *_ = of_split(
      stream, len(train_keys), self._predict, sharded, f"{self.prefix}training pictures"
    )
    kept = np.flatnonzero(weights[: len(train_keys)])
    train_keys = [train_keys[place] for place in kept]
    train = {language: tags for language, tags in _truth(stream, train_keys).items() if language in truth}
    frequent = tag_baselines.most_frequent(train, keys, _MOST)
    nearest = tag_baselines.nearest_picture(train, train_keys, train_vectors[kept], keys, vectors, _MOST)
    return {"most_frequent": frequent, "nearest_picture": nearest}

  def _write(self, by_tagger: Mapping[str, tag_files.Scores], results: Mapping[str, System]) -> None:
    result = results[""]
    primary, beside = result.table.primary, {}
    for name, of_baseline in results.items():
      if name:
        scores = {language: row[primary] for language, row in of_baseline.table.rows.items()}
        heading = baselines_lib.heading(name.replace("_", " "), primary)
        beside[heading] = score_table.column(result.table.rows, scores)
    table = dataclasses.replace(result.table, beside=beside)
    with addresses.local_folder(self.out_dir) as out, outputs.together(out):
      for name, predicted in by_tagger.items():
        file = f"baseline_{name}.jsonl" if name else PREDICTIONS
        tag_files.write(out / file, predicted)
      page.write_results(out, dataclasses.replace(result, table=table))
    print(table.terminal(self.out_dir), flush=True)


def _predicting(objective: Any, with_vectors: bool) -> Callable[[Any, Any], tuple[jax.Array, ...]]:
  """Returns a function (parameters, batch) -> weights [B], vectors [B, D], and the best labels of each language.

  These are scores and numbers, both [B, 10]. Without vectors, D is 0.
  """
  module: Any = objective.module

  def predict(params, batch):
    inputs = objective.inputs(batch)
    vectors = inputs[:, :0]
    if with_vectors:
      vectors = module.apply({"params": params}, inputs, method="vector")
    logits = module.apply({"params": params}, inputs)
    best = []
    for part in columns(module.tagger.sizes).values():
      best += jax.lax.top_k(jax.nn.sigmoid(logits[:, part]), min(_MOST, part.stop - part.start))
    return batch["weights"], vectors, *best

  return predict


def _of_pictures(scores: tag_files.Scores, truth: tag_baselines.Tags) -> tag_files.Scores:
  """The scores of the images that `truth` has in each language."""
  return {
    language: {key: of_language[key] for key in truth[language]}
    for language, of_language in scores.items()
    if language in truth
  }


def _truth(stream: Any, keys: Sequence[str]) -> dict[str, dict[str, list[str]]]:
  """Language code -> image key -> labels, of those images that the language's file of labels lists."""
  parts = columns([(language, len(names)) for language, names in stream.names.items()])
  truth: dict[str, dict[str, list[str]]] = {}
  for language, part in parts.items():
    names, listed = stream.names[language], stream.truth.known[language]
    truth[language] = {
      key: [
        names[place - part.start]
        for place in stream.truth.columns[key].tolist()
        if part.start <= place < part.stop
      ]
      for key in keys
      if key in listed
    }
  return truth
