"""Scores predictions against references: returns the table and the statistics behind it."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files, options, residue, tokenizers, workers
from xmcap.scoring import health as health_lib
from xmcap.scoring import language as language_lib
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.reading import captions as captions_lib
from xmcap.scoring.reading import inputs
from xmcap.scoring.reading import predictions as predictions_lib
from xmcap.scoring.reading.predictions import CheckedPredictions, Predictions
from xmcap.scoring.reading.references import References
from xmcap.scoring.result import Result
from xmcap.scoring.statistics import subsets
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import make_table
from xmcap.scoring.writing.signature import digest, of_images

METRICS = ("cider", "cider_d")
"""The default metrics of a table."""


def score(
  references: Mapping[str, Mapping[str, Sequence[str]]],
  predictions: Predictions,
  languages: str | Sequence[str] | None = None,
  *,
  title: str = "",
  metrics: str | Sequence[str] = METRICS,
  tokenizer: str = "default",
  document_frequencies: Mapping[str, DocumentFrequency] | None = None,
  subset: str = "",
  missing: str = "refuse",
  clean: str | Sequence[str] = "",
  bootstrap: int = 0,
  seed: int = 0,
  health: bool = False,
  keep: Collection[str] = (),
  processes: int = 1,
) -> Result:
  """Scores captions of images against their references, language by language.

  Args:
    references: image key -> language -> reference captions.
    predictions: image key -> language -> caption, one for each pair that has references.
    languages: codes to score, or a string as for `--languages`; None: all that have references.
    title: title of the table.
    metrics: names from `xmcap.scoring.metrics.CAPTION_METRICS`, or a string as for `--metrics`.
    tokenizer: a name from `xmcap.scoring.tokenizers.TOKENIZERS`.
    document_frequencies: language code -> document frequencies for weighting n-grams (CIDEr only); None: those of the
      references.
    subset: a file of image keys, or `xm600:SEED`; "": all images.
    missing: `refuse`: a missing prediction is an error; `empty`: it is scored as an empty caption, and a note of the
      table gives their number.
    clean: kinds of residue from `xmcap.scoring.residue.KINDS` that are removed from the predictions before everything
      else, or a string as for `--clean`; a note of the table gives what was removed.
    bootstrap: number of resamples for 95% intervals; 0: none.
    seed: seed of the resamples.
    health: whether to measure language health.
    keep: what the result keeps besides the statistics: `words`, `document_frequency`.
    processes: number of processes that share the languages.

  Raises:
    Unmatched: predictions are missing or have no references, or there is nothing to score; a UsageError.
    UsageError: an option has an invalid value, or the captions are not dictionaries of strings.
    XmcapError: a word segmenter or another package is not installed.
  """
  options.check(languages, metrics, tokenizer, subset, missing, bootstrap, seed, clean)
  metrics = options.metric_names(metrics)
  if not isinstance(references, References):
    references = References(references)
  if not isinstance(predictions, CheckedPredictions):
    captions_lib.check_predictions(predictions)
  notes = list(references.notes)
  subset_label = "all"
  if subset:
    chosen, subset_label = subsets.choose(subset, references)
    predictions = subsets.take_predictions(predictions, references, chosen)
    references = subsets.take(references, chosen)
  scored = predictions_lib.match_references(
    references, predictions, options.language_codes(languages), missing
  )
  if missing == "empty":
    predictions, filled = predictions_lib.fill_missing(references, predictions, scored)
    notes += _missing_notes(filled)
  kinds = residue.parse(clean)
  if kinds:
    predictions, removed = residue.clean_all(references, predictions, scored, kinds)
    notes += removed
  captions_lib.check_lengths(references, predictions, scored)
  notes += [_further_note(code) for code in scored if code not in languages_lib.LANGUAGES]
  for name in metrics:
    known = metrics_lib.CAPTION_METRICS[name].languages or scored
    if others := [code for code in scored if code not in known]:
      raise UsageError(
        f"metric '{name}' is for {', '.join(known)} only, not for {', '.join(others)}; score "
        f"only --languages={','.join(known)}, or leave out the metric"
      )
  for code in scored:
    if document_frequencies is not None and code not in document_frequencies:
      raise UsageError(f"the file of document frequencies lacks '{code}'; score other --languages")
  needs_tokenized = tokenizers.get(tokenizer, scored[0]).needs_tokenized
  tokenized = references.tokenized if needs_tokenized else {}
  if needs_tokenized and not tokenized:
    raise UsageError("--tokenizer=given needs references with caption/tokenized, such as XM3600's")
  keys = sorted(references)

  def score_one(code: str) -> language_lib.Scored:
    of_language = [key for key in keys if references[key].get(code)]
    captions = language_lib.Captions(
      of_language,
      [predictions[key][code] for key in of_language],
      [references[key][code] for key in of_language],
      [tokenized[key][code] for key in of_language] if tokenized else [],
    )
    frequency = None if document_frequencies is None else document_frequencies[code]
    return language_lib.score_language(
      code, captions, metrics, tokenizer, frequency, health=health, keep=keep
    )

  # Languages that need a segmenter take longest, so they come first.
  slowest_first = sorted(scored, key=lambda code: code not in tokenizers.SEGMENTERS)
  with inputs.uncollected():
    found = dict(zip(slowest_first, workers.share(score_one, slowest_first, processes), strict=True))
  of_language = {code: found[code] for code in scored}
  statistics = {code: outcome.statistics for code, outcome in of_language.items()}
  if document_frequencies is None:
    notes += _single_image_notes(statistics, metrics)
  healths = _health(of_language)
  notes += health_lib.notes(healths, metrics)
  parts = {
    **_signature_of_words(of_language, tokenizer, from_file=bool(document_frequencies)),
    **_signature_of_images(of_language),
    "subset": subset_label,
    "missing": missing,
    **({"clean": ",".join(kinds)} if kinds else {}),
  }
  table = make_table(
    statistics, parts, notes, fixed="document_frequency", title=title, bootstrap=bootstrap, seed=seed
  )
  return Result(
    table,
    statistics,
    references,
    predictions,
    healths,
    {code: outcome.words for code, outcome in of_language.items() if outcome.words},
    {code: outcome.document_frequency for code, outcome in of_language.items() if outcome.document_frequency},
  )


def _further_note(code: str) -> str:
  language = languages_lib.get(code)
  words = (
    "white space"
    if language.spaces
    else "white space, but it is written without spaces: --tokenizer=char fits better"
  )
  return f"{code} ({language.english_name}) is not one of the 36 languages: its words are split at {words}"


def _missing_notes(filled: Mapping[str, int]) -> list[str]:
  if not filled:
    return []
  missing = files.count(sum(filled.values()), "missing prediction")
  where = ", ".join(f"{code} {count:,}" for code, count in filled.items())
  return [f"{missing} scored as empty captions: {where}"]


def _single_image_notes(statistics: Mapping[str, Statistics], metrics: Sequence[str]) -> list[str]:
  single = [code for code, of_language in statistics.items() if len(of_language.keys) == 1]
  if not single or not {"cider", "cider_d"} & set(metrics):
    return []
  return [
    f"CIDEr on a single image is 0 by definition, as each n-gram occurs in every image: {', '.join(single)}; give "
    "document frequencies of more images with --df"
  ]


def _health(of_language: Mapping[str, language_lib.Scored]) -> dict[str, health_lib.Health]:
  copies = health_lib.copies(
    {code: outcome.marks for code, outcome in of_language.items() if outcome.marks is not None}
  )
  return {
    code: dataclasses.replace(outcome.health, copy=copies[code])
    for code, outcome in of_language.items()
    if outcome.health is not None
  }


def _signature_of_words(
  of_language: Mapping[str, language_lib.Scored], tokenizer: str, from_file: bool
) -> dict[str, str]:
  versions: dict[str, list[str]] = {}
  for code, outcome in of_language.items():
    versions.setdefault(outcome.tokenizer, []).append(code)
  words = ",".join(
    f"{version}[{'all' if len(versions) == 1 else ' '.join(codes)}]"
    for version, codes in sorted(versions.items(), key=lambda item: (-len(item[1]), item[0]))
  )
  frequencies = "".join(f"{code}:{held.document_frequency_hash}\n" for code, held in of_language.items())
  return {
    "document_frequency": f"{'file' if from_file else 'corpus'}#{digest(frequencies)}",
    "tokenizer": f"{tokenizer}-{words}",
    "normalization": tokenizers.get(tokenizer, next(iter(of_language))).normalization,
  }


def _signature_of_images(of_language: Mapping[str, language_lib.Scored]) -> dict[str, str]:
  keys = {key for outcome in of_language.values() for key in outcome.statistics.keys}
  num_references = sum(outcome.statistics.num_counted for outcome in of_language.values())
  references = "".join(f"{code}:{outcome.references_hash}\n" for code, outcome in of_language.items())
  return {
    "languages": " ".join(of_language),
    "images": of_images(keys),
    "references": f"{num_references}#{digest(references)}",
  }
