"""Scores predictions against references: returns the table and the statistics behind it."""

import dataclasses
import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import processes as processes_lib
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.reading import captions as captions_lib
from xmcap.reading import failed_requests, inputs, subsets
from xmcap.reading.predictions import CheckedPredictions, Predictions
from xmcap.reading.references import References, of_split
from xmcap.scoring import health as health_lib
from xmcap.scoring import language as language_lib
from xmcap.scoring import scored_predictions, table_parts, tokenizers
from xmcap.scoring import vectors as vectors_lib
from xmcap.scoring.health import faults
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.options import ScoringOptions
from xmcap.scoring.result import Result
from xmcap.scoring.system import make_table
from xmcap.scoring.tables import language_fidelity
from xmcap.scoring.tables.score_table import TablePart


@checked
def score(
  references: Mapping[str, Mapping[str, Sequence[str]]],
  predictions: Predictions,
  languages: str | Sequence[str] | None = None,
  *,
  title: str = "",
  protocol: str | None = None,
  metrics: str | Sequence[str] | None = None,
  tokenizer: str | None = None,
  normalize: str = "",
  document_frequencies: Mapping[str, DocumentFrequency] | None = None,
  subset: str | os.PathLike = "",
  missing: str = "refuse",
  clean: str | Sequence[str] = "",
  bootstrap: int = 0,
  seed: int = 0,
  scale: int | None = None,
  wrong_language: str = "keep",
  health: bool = False,
  vectors: str | os.PathLike | vectors_lib.Vectors = "",
  keep: str | Collection[str] = (),
  processes: int = 1,
) -> Result:
  """Scores captions of images against their references, language by language.

  Args:
    references: image key -> language -> reference captions.
    predictions: image key -> language -> caption, one for each pair that has references.
    languages: codes to score, or a string as for `--languages`; None: all that have references.
    title: title of the table.
    protocol: a name from `xmcap.scoring.protocols.names()`; None: xmcap's own, with which any other option goes.
    metrics: names from `xmcap.scoring.metrics.CAPTION_METRICS`, or a string as for `--metrics`; None: the protocol's.
    tokenizer: a name from `xmcap.scoring.tokenizers.TOKENIZERS`; None: the protocol's.
    normalize: `orthography` unifies letters with two spellings (`tokenizers.orthography.RULES`); `sentence` makes
      English sentences (`tokenizers.sentence`); "": a note counts the captions that `orthography` would change.
    document_frequencies: language code -> document frequencies for weighting n-grams (CIDEr only); None: those of the
      references.
    subset: a file of image keys, or `xm600:SEED`; "": all images.
    missing: `refuse`: a missing prediction is an error; `empty`: it is scored as an empty caption, and a note of the
      table gives their number.
    clean: kinds of residue from `xmcap.scoring.residue.KINDS` that are removed from the predictions before everything
      else, or a string as for `--clean`; a note of the table gives what was removed.
    bootstrap: number of resamples for 95% intervals; 0: none.
    seed: seed of the resamples.
    scale: factor at which the table shows and writes scores, 1 or 100; None: the protocol's. `rows` have none.
    wrong_language: `keep`, or `zero`: a caption in another language is scored as an empty caption, and a note of the
      table gives their number. The words of all references, also of languages that are not scored, help to tell.
    health: whether to measure language health, and to show language fidelity beside the scores.
    vectors: a folder of embeddings (see `scoring.vectors`), for the metrics that compare them; "": none.
    keep: what the result keeps besides the statistics: `words`, `document_frequency`.
    processes: number of processes that share the languages.

  Raises:
    Unmatched: predictions are missing or have no references, or there is nothing to score; a UsageError.
    UsageError: an option has an invalid value, or the captions are not dictionaries of strings.
    XmcapError: a word segmenter or another package is not installed.
  """
  options = ScoringOptions(
    languages=languages,
    title=title,
    protocol=protocol,
    metrics=metrics,
    tokenizer=tokenizer,
    normalize=normalize,
    document_frequencies=document_frequencies,
    subset=subset,
    missing=missing,
    clean=clean,
    bootstrap=bootstrap,
    seed=seed,
    scale=scale,
    wrong_language=wrong_language,
    health=health,
    vectors=vectors,
    keep=keep,
    processes=processes,
  )
  return score_captions(references, predictions, options)


def score_captions(
  references: Mapping[str, Mapping[str, Sequence[str]]], predictions: Predictions, options: ScoringOptions
) -> Result:
  """Scores captions as `score` does."""
  settled, vectors = options.settled, options.embeddings
  # Read and match.
  if not isinstance(references, References):
    references = References(references)
  if not isinstance(predictions, CheckedPredictions):
    predictions = captions_lib.plain_predictions(predictions)
  references = of_split(references, predictions)
  of_file, captioner = getattr(predictions, "notes", ()), getattr(predictions, "captioner", "")
  predictions, failed = failed_requests.split(references, predictions)
  subset = "all"
  if options.subset:
    keys, subset = subsets.choose(options.subset, references)
    predictions = subsets.take_predictions(predictions, references, keys)
    references = subsets.take(references, keys)
  # Fill in, and clean.
  scored, predictions, of_predictions, unseen = scored_predictions.prepare(
    references, predictions, failed, options
  )
  captions_lib.check_lengths(references, predictions, scored)
  options.check_languages(scored)
  # Split and measure.
  with inputs.uncollected():
    captions = _by_language(references, predictions, scored, settled.tokenizer)
    vocabularies = None
    if options.judges_languages:
      of_languages = {language: column.references for language, column in captions.items()}
      vocabularies = language_fidelity.read(references, of_languages)
      health_lib.load()  # once, not in each process
    of_language, residual = _measure(captions, vocabularies, options)
  statistics = {language: outcome.statistics for language, outcome in of_language.items()}
  health = _health(of_language, residual, unseen)
  # Notes and signature.
  parts = [
    TablePart([*references.notes, *of_file, *of_predictions]),
    table_parts.of_languages(scored),
    table_parts.of_protocol(settled),
    table_parts.of_words(of_language, options),
    table_parts.of_images(of_language, options),
    table_parts.of_options(options, subset),
    *([TablePart(signature={"captioner": captioner})] if captioner else []),
    TablePart(health_lib.notes(health, settled.metrics, options.wrong_language)),
    *([vectors.part(settled.metrics, zero=options.empties_wrong_language)] if vectors else []),
  ]
  if vocabularies is not None and options.empties_wrong_language:
    parts.append(table_parts.of_emptied(of_language, vocabularies))
  # Table.
  table = make_table(
    statistics,
    {name: value for part in parts for name, value in part.signature.items()},
    [note for part in parts for note in part.notes],
    fixed="document_frequency",
    title=options.title,
    bootstrap=options.bootstrap,
    seed=options.seed,
  )
  table = dataclasses.replace(table, scale=settled.scale)
  return Result(
    table=language_fidelity.with_fidelity(table, health),
    statistics=statistics,
    references=references,
    predictions=predictions,
    health=health,
    words={language: outcome.words for language, outcome in of_language.items() if outcome.words},
    document_frequencies={
      language: outcome.document_frequency
      for language, outcome in of_language.items()
      if outcome.document_frequency
    },
  )


def _by_language(
  references: References, predictions: Predictions, scored: Sequence[str], tokenizer: str
) -> dict[str, language_lib.Captions]:
  """Returns the captions of each language, by one pass, which is four times as fast as one for each language."""
  splitter = tokenizers.get(tokenizer, scored[0])
  tokenized = references.tokenized if splitter.needs_tokenized else {}
  if splitter.needs_tokenized and not tokenized:
    raise UsageError("--tokenizer=given needs references with caption/tokenized, such as XM3600's")
  columns: dict[str, tuple[list, list, list, list]] = {language: ([], [], [], []) for language in scored}
  for key in sorted(references):
    predicted, words = predictions.get(key, {}), tokenized.get(key, {})
    for language, texts in references[key].items():
      if texts and language in columns:
        of_keys, hypotheses, of_images, of_words = columns[language]
        of_keys.append(key)
        hypotheses.append(predicted[language])
        of_images.append(texts)
        if tokenized:
          of_words.append(words[language])
  place = {key: place for place, key in enumerate(references)} if splitter.in_order else {}
  orders = {
    language: sorted(range(len(of_keys)), key=lambda i: place[of_keys[i]]) if splitter.in_order else ()
    for language, (of_keys, *_) in columns.items()
  }
  return {language: language_lib.Captions(*columns[language], orders[language]) for language in scored}


def _measure(
  captions: Mapping[str, language_lib.Captions],
  vocabularies: health_lib.Vocabularies | None,
  options: ScoringOptions,
) -> tuple[dict[str, language_lib.Scored], dict[str, health_lib.Residual]]:
  """Returns the outcome of each language, and if health is measured, the residue that the languages share."""
  unshared = {
    language: processes_lib.unshared(column, options.processes) for language, column in captions.items()
  }

  def work(language: str | None) -> language_lib.Scored | dict[str, health_lib.Residual]:
    if language is None:
      return _residual({language: column() for language, column in unshared.items()})
    return language_lib.score_language(language, unshared[language](), options, vocabularies)

  # The residue of all languages together takes longest, then languages that need a segmenter, so they come first.
  slowest_first = [
    *([None] if options.health else []),
    *sorted(captions, key=lambda language: language not in tokenizers.SEGMENTERS),
  ]
  outcomes: dict[str | None, Any] = dict(
    zip(slowest_first, processes_lib.map_forked(work, slowest_first, options.processes), strict=True)
  )
  of_language: dict[str, language_lib.Scored] = {}
  for language, column in captions.items():
    # The keys come back as new strings, which are as many as captions.
    statistics = dataclasses.replace(outcomes[language].statistics, keys=tuple(column.keys))
    of_language[language] = dataclasses.replace(outcomes[language], statistics=statistics)
  return of_language, outcomes.get(None, {})


def _residual(captions: Mapping[str, language_lib.Captions]) -> dict[str, health_lib.Residual]:
  return health_lib.residual(
    {language: of_language.hypotheses for language, of_language in captions.items()},
    {
      language: list(itertools.chain.from_iterable(of_language.references))
      for language, of_language in captions.items()
    },
  )


def _health(
  of_language: Mapping[str, language_lib.Scored],
  residual: Mapping[str, health_lib.Residual],
  unseen: failed_requests.Unseen,
) -> dict[str, health_lib.Health]:
  copies = health_lib.copies(
    {code: outcome.marks for code, outcome in of_language.items() if outcome.marks is not None}
  )
  healths = {}
  for code, outcome in of_language.items():
    if outcome.health is not None:
      rows = {**outcome.health.rows, "copy": copies[code].rows}
      for name, fault in faults.ANSWERS.items():
        keys = {key for language, key in unseen.get(name, ()) if language == code}
        rows[fault] = np.flatnonzero([key in keys for key in outcome.statistics.keys] if keys else [])
      health = dataclasses.replace(outcome.health, copy=copies[code].share, rows=rows)
      healths[code] = residual[code].added(health)
  return healths
