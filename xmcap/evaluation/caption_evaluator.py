"""The evaluator of captions, whoever wrote them; imports jax only where it decodes with weights."""

import contextlib
import copy
import dataclasses
import itertools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gin
import numpy as np

from xmcap.data import images
from xmcap.errors import UsageError
from xmcap.evaluation import samples, table_rows, yardstick
from xmcap.evaluation.baselines import Baselines
from xmcap.files import addresses, files, outputs
from xmcap.pages import output
from xmcap.progress import Progress
from xmcap.reading import archives, subsets
from xmcap.reading import predictions as predictions_lib
from xmcap.reading import references as references_lib
from xmcap.scoring import baselines as baselines_lib
from xmcap.scoring.options import ScoringOptions
from xmcap.scoring.score import score_captions
from xmcap.scoring.tables import score_table
from xmcap.training.deferred import Deferred, Row

Captioner = Callable[["CaptionEvaluator"], predictions_lib.CheckedPredictions]
"""Captions of an evaluator's pictures that need no weights: of an endpoint, a function or a file."""

_DECODED = "decoded.jsonl"


def is_first() -> bool:
  """Whether this process prints and writes: the first of a run; one that has not imported jax is alone."""
  jax = sys.modules.get("jax")
  return jax is None or jax.process_index() == 0


@gin.configurable
class CaptionEvaluator:
  """Captions a split and scores the captions, as `xmcap score` would.

  If the model writes stabilizers, there is a row `distinct_stabilizers`, their mean number for an image, and
  `out_dir` has `stabilizers.jsonl`, each caption's stabilizer, in the layout of predictions.

  Args:
    predictor: a `Predictor`, which decodes with the parameters that `run` gets, or a `Captioner`, which needs none.
    references: captions.jsonl in the XM3600 layout, or a folder of records that `xmcap data build` wrote.
    images_dir: folder of KEY.jpg or KEY.png; by default `images` beside the references. Not used for records, which
      hold their images.
    languages: codes; (): all languages of the references.
    limit: use only this many images, from the first on; 0: all.
    out_dir: folder for tables, report and predictions; "": nothing is written, as is usual during training.
    title: title of the tables and the report.
    baselines: `Baselines` to compare with; None: none.
    metrics: names, as for `xmcap score --metrics`; (): those of the protocol.
    bootstrap: resamples for the 95% intervals in `out_dir`; 0: none.
    subset: `xm600:SEED` or a file of keys; "": all images.
    clean: kinds of residue to remove from the captions, as for `xmcap score --clean`; "": none.
    beside: as `xmcap score --baseline`, such as `paper` or a folder, whose scores are shown for comparison; "": none.
    split: split of the records.
    sources: sources of the references in records, of `human`, `mt` and `translated`; (): all.
    name: prefix of the names of the rows, such as `xm3600`.
    protocol: as `xmcap score --protocol`, such as `paligemma`; "": xmcap's own. The rows have no scale.
    missing: as `xmcap score --missing`: what is done where a `Captioner` has no caption.
  """

  def __init__(
    self,
    predictor: Any = gin.REQUIRED,
    references: str = gin.REQUIRED,
    images_dir: str = "",
    languages: Sequence[str] = (),
    limit: int = 0,
    out_dir: str = "",
    title: str = "",
    baselines: Baselines | None = None,
    metrics: Sequence[str] = (),
    bootstrap: int = 0,
    subset: str = "",
    clean: str = "",
    beside: str = "",
    split: str = "test",
    sources: Sequence[str] = (),
    name: str = "",
    protocol: str = "",
    missing: str = "refuse",
  ):
    if not references:
      raise UsageError(
        "CaptionEvaluator.references is empty: give --gin.REFERENCES=DIR/captions.jsonl (XM3600's layout, beside"
        " images/), or a folder of records"
      )
    self.predictor = predictor
    self.path = references
    self.name = name
    self.prefix = f"{name}/" if name else ""
    is_records = addresses.is_file(addresses.join(references, "dataset_info.json"))
    if sources and not is_records:
      raise UsageError(
        f"CaptionEvaluator.sources: {references} is not a folder of records, and nothing else has sources: leave it out"
      )
    self.records = None
    if is_records:
      from xmcap.data.records import SOURCES  # needs the extra train
      from xmcap.evaluation.record_references import RecordReferences

      if not set(sources) <= set(SOURCES):
        raise UsageError(f"CaptionEvaluator.sources is {tuple(sources)}: choose of {', '.join(SOURCES)}")
      self.records = RecordReferences(references, split, languages, sources)
    self.images_dir = images_dir or addresses.join(addresses.parent(references), "images")
    self.out_dir = out_dir
    if out_dir:
      written = [*output.files_of(out_dir), pathlib.Path(out_dir, _DECODED)]
      outputs.keep_apart({"CaptionEvaluator.out_dir": written}, {"CaptionEvaluator.references": references})
    self.title = title
    self.samples: dict[str, Any] = {}
    self.baselines = baselines
    options = ScoringOptions(
      languages=tuple(languages) or None,
      protocol=protocol or None,
      metrics=tuple(metrics) or None,
      subset=subset,
      clean=clean,
      missing=missing,
      bootstrap=bootstrap,
      health=bool(out_dir),
    )
    settled = options.settled
    # The references are those of the languages, and the first `limit` of a subset are none that the signature can name.
    self.options = dataclasses.replace(options, languages=None, subset="" if limit else subset)
    self.beside_name = beside
    if beside:
      baselines_lib.check_protocol(beside, settled.protocol)
    # Only of the primary metric, of which the table shows differences.
    self.beside = baselines_lib.read_baseline(beside, score_table.primary(settled.metrics)) if beside else {}
    self.all = self.records.references if self.records else _read_references(references, languages)
    baselines_lib.check_images(beside, self.all)
    keys = subsets.choose(subset, self.all)[0] if subset else tuple(self.all)
    self.references = subsets.take(self.all, keys[: limit or None])
    self._chosen = frozenset(languages)
    present = {language for captions in self.references.values() for language in captions}
    self.languages = tuple(languages) or tuple(sorted(present))
    if not present:
      raise UsageError(f"{references}: no captions in {' '.join(self.languages)}: nothing to evaluate")

  def small(self, pictures: int) -> "CaptionEvaluator":
    """An evaluator of a few images and two languages that writes nothing; UsageError if any image is missing."""
    if not self.records:
      present = set(addresses.names(self.images_dir))
      for key in self.references:
        if not any(f"{key}{suffix}" in present for suffix in archives.PICTURES):
          raise self._no_picture(key)
    evaluator = copy.copy(self)
    evaluator.out_dir, evaluator.baselines = "", None
    evaluator.options = dataclasses.replace(self.options, subset="", bootstrap=0, health=False)
    first = next(captions for captions in self.references.values() if captions)
    evaluator.languages = tuple(language for language in self.languages if language in first)[:2]
    few = {
      key: {language: captions[language] for language in evaluator.languages}
      for key, captions in self.references.items()
      if all(language in captions for language in evaluator.languages)
    }
    evaluator.references = references_lib.References(dict(itertools.islice(few.items(), pictures)))
    return evaluator

  def run(self, params: Any, step: int | None) -> Iterator[Row | Deferred]:
    """Yields (language, metric, score), and the language `mean`; deferred, unless tables are written.

    Args:
      params: parameters of the predictor's model; None if it is a `Captioner`.
      step: of the parameters, in training; None: no samples are kept.
    """
    if params is None:
      predictions, stabilizers = self._asked(), None
    else:
      predictions, stabilizers = self._predict(params)
    if step is not None and is_first():
      self.samples = samples.of_predictions(predictions, self.references, self.languages, self._pixels)
    if self.out_dir:
      # All processes score, so that none waits for another; process 0 writes.
      table = (
        self._write(predictions, stabilizers, decoded=params is not None)
        if is_first()
        else score_captions(self.references, predictions, self.options).table
      )
      yield from table_rows.rows(table, self.prefix)
    else:
      yield Deferred(table_rows.of_captions, (self.references, predictions, self.options, self.prefix))
    if stabilizers and (marks := self.predictor.generator.marks):
      yield from marks.rows(stabilizers, self.prefix)

  def _asked(self) -> predictions_lib.CheckedPredictions:
    """The captions of a `Captioner`, as `xmcap score` takes those of a file: what has no references stays."""
    captions = self.predictor(self)
    others = self.all.keys() - self.references.keys()  # of pictures that a subset or a limit leaves out

    def taken(by_key: Any) -> Any:
      of_keys = {
        key: {code: text for code, text in of_key.items() if not self._chosen or code in self._chosen}
        for key, of_key in by_key.items()
        if key not in others
      }
      return {key: of_key for key, of_key in of_keys.items() if of_key}

    predictions = predictions_lib.CheckedPredictions(taken(captions))
    predictions.notes, predictions.longest = captions.notes, captions.longest
    predictions.failed, predictions.captioner = taken(captions.failed), captions.captioner
    return predictions

  def _predict(self, params: Any) -> tuple[predictions_lib.Predictions, predictions_lib.Predictions]:
    """The captions of each image in the languages of its references, and their stabilizers, if there are any."""
    import jax

    keys = list(self.references)
    # If each process has all parameters, it decodes a share of the images; otherwise all processes share each batch.
    is_whole = all(getattr(leaf, "is_fully_addressable", True) for leaf in jax.tree.leaves(params))
    is_shared = is_whole and jax.process_count() > 1
    numbers = range(len(keys))
    numbers = numbers[jax.process_index() :: jax.process_count()] if is_shared else numbers
    share = [keys[number] for number in numbers]
    own_tags = self.records.tags if self.records else None
    captioned = self.predictor(params, share, self._pixels, self.languages, numbers, own_tags)
    progress = Progress(_say, f"pictures decoded in {len(self.languages)} languages", len(share))
    predictions = {}
    for done, (key, captions) in enumerate(captioned, 1):
      predictions[key] = {
        language: captions[language] for language in self.languages if language in self.references[key]
      }
      if done < len(share):  # the scores follow the last image
        progress(done)
    of_predictor = getattr(self.predictor, "stabilizers", {})
    stabilizers = {
      key: {language: of_predictor[key][language] for language in predictions[key]} for key in of_predictor
    }
    if is_shared:
      predictions, stabilizers = _gathered(predictions), _gathered(stabilizers)
    # Captions of a model that runs here: none is a request that failed.
    return predictions_lib.CheckedPredictions({key: predictions[key] for key in keys}), {
      key: stabilizers[key] for key in keys if key in stabilizers
    }

  def _write(
    self,
    predictions: predictions_lib.Predictions,
    stabilizers: predictions_lib.Predictions | None = None,
    decoded: bool = True,
  ) -> score_table.Table:
    with addresses.local_folder(self.out_dir) as out:
      if decoded:  # kept before scoring, so that an error there loses no captions
        predictions_lib.write_predictions(out / _DECODED, predictions.items())
      table = self._write_to(out, predictions)
      if stabilizers and (marks := self.predictor.generator.marks):
        predictions_lib.write_predictions(out / marks.kept_as, stabilizers.items())
        _say(marks.text(stabilizers))
    _say(f"tables and report are in {self.out_dir}: open {addresses.join(self.out_dir, 'report.html')}")
    return table

  def _write_to(self, out: pathlib.Path, predictions: predictions_lib.Predictions) -> score_table.Table:
    with outputs.together(out):
      beside, measured, trivial = dict(self.beside), None, {}
      if self.baselines is not None:
        compared = f"compared by {self.baselines.compares}"
        _say(f"baselines: reading {len(self.baselines.source):,} training pictures, {compared}")
        measured = self.baselines.measure(self.references, self.read, predictions)
        for name, guesses in measured.predictions.items():
          file = out / f"baseline_{name.replace(' ', '_')}.jsonl"
          predictions_lib.write_predictions(file, guesses.items())
          options = dataclasses.replace(self.options, title=name, bootstrap=0, health=False)
          trivial[name] = score_captions(
            self.references, predictions_lib.CheckedPredictions(guesses), options
          )
          table = trivial[name].table
          scores = {language: row[table.primary] for language, row in table.rows.items()}
          beside[baselines_lib.heading(name, table.primary)] = scores
      options = dataclasses.replace(self.options, title=self.title, keep=("words",))
      result = score_captions(self.references, predictions, options)
      result = baselines_lib.with_published(baselines_lib.with_beside(result, beside), self.beside_name)
      if measured is not None:
        result = yardstick.with_notes(result, trivial, measured)
      is_local = not self.records and not addresses.is_remote(self.images_dir)
      # Captions of a file may be scored without the pictures.
      here = self.images_dir if is_local and os.path.isdir(self.images_dir) else None
      images_dir, read = (here, None) if is_local else (None, self.read)
      output.write(
        result,
        out,
        images_dir=images_dir,
        read_picture=read,
        baselines={name: baseline.table for name, baseline in trivial.items()},
      )
      files.remove(out / _DECODED)
    print(result.table.terminal(self.out_dir), flush=True)
    return result.table

  def read(self, key: str) -> bytes:
    """The bytes of the file of a picture."""
    if self.records:
      return self.records.read(key)
    for suffix in archives.PICTURES:
      with contextlib.suppress(FileNotFoundError):
        return addresses.read_bytes(addresses.join(self.images_dir, f"{key}{suffix}"))
    raise self._no_picture(key)

  def _no_picture(self, key: str) -> UsageError:
    return UsageError(f"{self.images_dir}: no picture {key}.jpg or .png, for which {self.path} has captions")

  def _pixels(self, key: str) -> np.ndarray:
    return images.load(self.read(key), key, self.predictor.image_size)


def _read_references(address: str, languages: Sequence[str]) -> references_lib.References:
  try:
    with addresses.local_copy(address) as path:
      return references_lib.read_references(path, languages or None)
  except FileNotFoundError:
    raise UsageError(f"{address}: no such file: give existing references") from None


def _gathered(predictions: predictions_lib.Predictions) -> predictions_lib.Predictions:
  """Gathers the predictions of all processes on every process."""
  from jax.experimental import multihost_utils

  mine = np.frombuffer(json.dumps(predictions).encode(), np.uint8)
  lengths = np.asarray(multihost_utils.process_allgather(np.array(len(mine))))
  padded = np.zeros(int(lengths.max()), np.uint8)
  padded[: len(mine)] = mine
  gathered = {}
  rows = np.asarray(multihost_utils.process_allgather(padded))
  for row, length in zip(rows, lengths.reshape(-1), strict=True):
    gathered |= json.loads(row[:length].tobytes())
  return gathered


def _say(line: str) -> None:
  if is_first():
    print(line, flush=True)
