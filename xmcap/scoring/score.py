"""Predictions and references in, scores with everything that stands behind them out."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence

import xmcap
from xmcap.errors import UsageError
from xmcap.scoring import captions as captions_lib
from xmcap.scoring import health as health_lib
from xmcap.scoring import language, options, resampling, subsets, tables, tokenizers
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import predictions as predictions_lib
from xmcap.scoring import references as references_lib
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References
from xmcap.scoring.result import Result
from xmcap.scoring.scores import Scores
from xmcap.scoring.signature import METRIC, Signature, of_images
from xmcap.scoring.workers import Workers

METRICS = ("cider", "cider_d")
"""What is measured unless a user says otherwise."""


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
  bootstrap: int = 0,
  seed: int = 0,
  health: bool = False,
  keep: str | Sequence[str] = (),
  workers: Workers | None = None,
) -> Result:
  """Scores captions of images against their references, language by language.

  Args:
    references: image key -> language -> reference captions.
    predictions: image key -> language -> caption, one for each pair that has references.
    languages: the codes to score, or a text as in `--languages`; None: all that have references.
    title: what is scored, for people.
    metrics: names of `xmcap.scoring.metrics.METRICS`, or a text as in `--metrics`.
    tokenizer: a name of `xmcap.scoring.tokenizers.TOKENIZERS`.
    document_frequencies: language code -> those that n-grams are weighed by (CIDEr only); None: those of the
      references that are scored against.
    subset: a file of image keys, or `xm600:SEED`; "": all images.
    missing: `refuse`: a missing prediction is an error; `empty`: it is scored as an empty caption, and a note
      of the table says how many were.
    bootstrap: number of resamples of 95% intervals; 0: none.
    seed: of the resamples.
    health: whether to look at the captions' health.
    keep: what the result shall hold beside the scores: `words`, `document_frequency`.
    workers: processes that share the languages; None: this one alone.

  Raises:
    Unmatched: predictions are missing or left over, or there is nothing to score; a UsageError.
    UsageError: an option has no such value, or the captions are no dictionaries of texts.
    XmcapError: a word segmenter or another package is not installed.
  """
  options.check(languages, metrics, tokenizer, subset, missing, bootstrap, seed, keep, title)
  languages, metrics, keep = (
    options.language_codes(languages),
    options.metric_names(metrics),
    options.kept(keep),
  )
  if not isinstance(references, References):
    captions_lib.check_references(references)
  captions_lib.check_predictions(predictions)
  chosen = None
  if subset:
    chosen = subsets.choose(subset, references)
    predictions = subsets.take_predictions(predictions, references, chosen.keys)
    references = subsets.take(references, chosen.keys)
  scored = predictions_lib.check_predictions(references, predictions, languages, missing)
  filled: dict[str, int] = {}
  if missing == "empty":
    predictions, filled = predictions_lib.fill_missing(references, predictions, scored)
  _check_frequencies(document_frequencies, scored)
  tokenized = _tokenized(references, tokenizer, scored[0])

  columns = _columns(references, predictions, scored)

  def job(code: str) -> language.Job:
    keys, hypotheses, texts = columns[code]
    return language.Job(
      code,
      keys,
      hypotheses,
      texts,
      None if tokenized is None else [tokenized[key][code] for key in keys],
      metrics=metrics,
      tokenizer=tokenizer,
      document_frequency=None if document_frequencies is None else document_frequencies[code],
      health=health,
      keep=keep,
    )

  cost = functools.partial(language.cost, tokenizer=tokenizer)
  found = (workers or Workers()).map(language.score_language, scored, cost, job)
  of_language = {
    code: dataclasses.replace(result, scores=dataclasses.replace(result.scores, keys=tuple(columns[code][0])))
    for code, result in zip(scored, found, strict=True)
  }
  scores = {code: result.scores for code, result in of_language.items()}

  signature = _signature(
    (metrics, tokenizer),
    of_language,
    missing,
    chosen.label if chosen else "all",
    (bootstrap, seed),
    bool(document_frequencies),
  )
  samples = resampling.bootstrap(scores, bootstrap, seed) if bootstrap else {}
  table = tables.Table.of_rows(
    str(signature),
    {code: of_scores.row() for code, of_scores in scores.items()},
    title,
    intervals=resampling.intervals(samples),
    notes=(*_notes(filled), *_single_image_notes(scores, metrics, document_frequencies)),
  )
  return Result(
    table,
    scores,
    references if isinstance(references, References) else References(references),
    predictions,
    _health(of_language, predictions) if health else {},
    {code: result.words for code, result in of_language.items() if result.words is not None},
    {
      code: result.document_frequency
      for code, result in of_language.items()
      if result.document_frequency is not None
    },
  )


def _columns(
  references: Mapping[str, Mapping[str, Sequence[str]]], predictions: Predictions, scored: Sequence[str]
) -> dict[str, tuple[list[str], list[str], list[Sequence[str]]]]:
  """Returns language -> image keys, hypotheses, references, in one pass over images that lie far apart in memory."""
  columns: dict[str, tuple[list[str], list[str], list[Sequence[str]]]] = {
    code: ([], [], []) for code in scored
  }
  for key, captions in references.items():
    given = predictions.get(key, {})
    for code, texts in captions.items():
      if texts and code in columns:
        keys, hypotheses, held = columns[code]
        keys.append(key)
        hypotheses.append(given[code])
        held.append(texts)
  return columns


def _tokenized(references: Mapping, tokenizer: str, language: str) -> Mapping | None:
  """Returns the words that the release gives, where the tokeniser asks for them."""
  if not tokenizers.get(tokenizer, language).needs_tokenized:
    return None
  tokenized = references_lib.tokenized_of(references)
  if not tokenized:
    raise UsageError("--tokenizer=given needs references that hold caption/tokenized, as XM3600's do")
  return tokenized


def _check_frequencies(
  document_frequencies: Mapping[str, DocumentFrequency] | None, scored: Sequence[str]
) -> None:
  for code in scored:
    if document_frequencies is not None and code not in document_frequencies:
      raise UsageError(f"the file of document frequencies has none of '{code}'; score other --languages")


def _notes(filled: Mapping[str, int]) -> list[str]:
  if not filled:
    return []
  total = sum(filled.values())
  where = ", ".join(f"{code} {count:,}" for code, count in filled.items())
  return [f"{total:,} missing prediction{'' if total == 1 else 's'} scored as empty captions: {where}"]


def _single_image_notes(
  scores: Mapping[str, Scores],
  metrics: Sequence[str],
  document_frequencies: Mapping[str, DocumentFrequency] | None,
) -> list[str]:
  single = [code for code, held in scores.items() if len(held.keys) == 1]
  if not single or document_frequencies is not None or not {"cider", "cider_d"} & set(metrics):
    return []
  return [
    f"CIDEr over a single image is 0 by definition, as each n-gram is in every image: {', '.join(single)}; give "
    "document frequencies of more images with --df"
  ]


def _health(
  of_language: Mapping[str, language.Scored], predictions: Predictions
) -> dict[str, health_lib.Health]:
  captions = {
    code: {key: predictions[key][code] for key in result.scores.keys} for code, result in of_language.items()
  }
  copies = health_lib.copies(captions)
  return {code: dataclasses.replace(result.health, copy=copies[code]) for code, result in of_language.items()}


def _signature(
  measured: tuple[tuple[str, ...], str],
  of_language: Mapping[str, language.Scored],
  missing: str,
  subset: str,
  bootstrap: tuple[int, int],
  from_file: bool,
) -> Signature:
  names, tokenizer = measured
  scored = tuple(of_language)
  keys = {key for result in of_language.values() for key in result.scores.keys}
  num_references = sum(result.scores.num_references for result in of_language.values())
  versions: dict[str, list[str]] = {}
  for code, result in of_language.items():
    versions.setdefault(result.tokenizer, []).append(code)
  words = ",".join(
    f"{version}[{'all' if len(versions) == 1 else ' '.join(codes)}]"
    for version, codes in sorted(versions.items(), key=lambda item: (-len(item[1]), item[0]))
  )
  frequencies = "".join(f"{code}:{result.fingerprint}\n" for code, result in of_language.items())
  references = "".join(f"{code}:{result.references}\n" for code, result in of_language.items())
  parts = {f"{METRIC}{name}": metrics_lib.METRICS[name].signature for name in names}
  parts |= {
    "document_frequency": f"{'file' if from_file else 'corpus'}#{_hash(frequencies)}",
    "tokenizer": f"{tokenizer}-{words}",
    "normalization": tokenizers.get(tokenizer, scored[0]).normalization,
    "languages": " ".join(scored),
    "images": of_images(keys),
    "references": f"{num_references}#{_hash(references)}",
    "subset": subset,
    "missing": missing,
  }
  if bootstrap[0]:
    parts["bootstrap"] = f"{bootstrap[0]},seed={bootstrap[1]},level=95%,document_frequency=fixed"
  return Signature({**parts, "xmcap": xmcap.__version__})


def _hash(text: str) -> str:
  return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
