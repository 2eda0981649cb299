"""Predictions and references in, a table of scores out."""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import xmcap
from xmcap.errors import UsageError
from xmcap.scoring import metrics, tokenizers
from xmcap.scoring import predictions as predictions_lib
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References, read_references
from xmcap.scoring.scores import Scores
from xmcap.scoring.tables import Table

_TOKENIZER = "default"


def score(
  references: References, predictions: Predictions, languages: Sequence[str] | None = None, title: str = ""
) -> Table:
  """Scores captions of images against their references, language by language.

  Args:
    references: image key -> language -> reference captions.
    predictions: image key -> language -> caption, one for each pair that has references.
    languages: the codes to score; None: all that have references.
    title: what is scored, for people.

  Raises:
    UsageError: predictions are missing or left over, or there is nothing to score.
    XmcapError: a word segmenter is not installed.
  """
  return table_of(score_images(references, predictions, languages), references, title)


def score_images(
  references: References, predictions: Predictions, languages: Sequence[str] | None = None
) -> dict[str, Scores]:
  """As `score`, but returns the scores of every image: language -> `Scores`, in the order of the codes."""
  scores = {}
  for language in predictions_lib.check_predictions(references, predictions, languages):
    tokenize = tokenizers.get(_TOKENIZER, language)
    keys = tuple(key for key, captions in references.items() if captions.get(language))
    corpus = metrics.Corpus(
      [tokenize(predictions[key][language]) for key in keys],
      [[tokenize(text) for text in references[key][language]] for key in keys],
    )
    scores[language] = Scores(
      keys, {metric.name: metric.statistics(corpus) for metric in metrics.METRICS.values()}
    )
  return scores


def table_of(scores: Mapping[str, Scores], references: References, title: str = "") -> Table:
  """Aggregates image scores (of `score_images`, with the same references) into the table."""
  rows = {code: of_language.row() for code, of_language in scores.items()}
  return Table.of_rows(_signature(references, tuple(scores)), rows, title)


def score_files(
  references: str | os.PathLike,
  predictions: str | os.PathLike,
  out: str | os.PathLike,
  languages: Sequence[str] | None = None,
  title: str = "",
  images_dir: str | os.PathLike | None = None,
  baselines: Mapping[str, Table] | None = None,
) -> Table:
  """Scores a file of predictions and writes everything there is to see about them.

  Args:
    references: JSONL in the XM3600 layout.
    predictions: JSONL, a line a caption.
    out: folder for `table.csv`, `.json`, `.md`, `.tex`, `report.html` and `predictions.jsonl`, the
      predictions that were scored.
    languages: the codes to score; None: all that have references.
    title: what is scored, for people.
    images_dir: folder with `KEY.jpg` or `KEY.png`, for the report's gallery.
    baselines: name -> table of other predictions of the same images, to be shown beside.

  Raises:
    UsageError: input that cannot be read or does not fit together, in one line that says where.
    XmcapError: `out` cannot be written, or a word segmenter is not installed.
  """
  if images_dir is not None and not pathlib.Path(images_dir).is_dir():
    raise UsageError(f"{images_dir}: no such folder of images; name the folder that holds KEY.jpg or KEY.png")
  held = read_references(references)
  predicted = predictions_lib.read_predictions(predictions)
  try:
    table = score_and_write(held, predicted, out, languages, title, images_dir, baselines)
  except UsageError as error:
    raise UsageError(f"{predictions}, scored against {references}: {error}") from None
  copy = pathlib.Path(out) / "predictions.jsonl"
  # A user's own file may hold more than was scored now.
  if not (copy.exists() and copy.samefile(predictions)):
    predictions_lib.write_predictions(
      copy,
      (
        (key, language, caption)
        for key, captions in predicted.items()
        for language, caption in captions.items()
        if language in table.rows
      ),
    )
  return table


def score_and_write(
  references: References,
  predictions: Predictions,
  out: str | os.PathLike,
  languages: Sequence[str] | None = None,
  title: str = "",
  images_dir: str | os.PathLike | None = None,
  baselines: Mapping[str, Table] | None = None,
) -> Table:
  """As `score_files`, from captions that are in memory: scores them and writes the tables and the report."""
  # Imported here so that scoring alone does not load the pictures' library.
  from xmcap.scoring import report

  scores = score_images(references, predictions, languages)
  table = table_of(scores, references, title)
  table.write(out)
  report.write_report(
    pathlib.Path(out) / "report.html",
    table,
    scores,
    references,
    predictions,
    images_dir=images_dir,
    baselines=baselines,
  )
  return table


def _signature(references: References, scored: tuple[str, ...]) -> str:
  used = {
    key: {code: captions[code] for code in scored if captions.get(code)}
    for key, captions in references.items()
  }
  used = {key: captions for key, captions in used.items() if captions}
  # Document frequencies and the mean do not depend on the order of the images, so neither does the hash.
  text = json.dumps(used, ensure_ascii=False, sort_keys=True).encode("utf-8")
  num_references = sum(len(texts) for captions in used.values() for texts in captions.values())
  versions: dict[str, list[str]] = {}
  for code in scored:
    versions.setdefault(tokenizers.get(_TOKENIZER, code).version, []).append(code)
  words = ",".join(
    f"{version}[{'all' if len(versions) == 1 else ' '.join(codes)}]"
    for version, codes in sorted(versions.items(), key=lambda item: (-len(item[1]), item[0]))
  )
  return "|".join(
    [
      "+".join(metric.signature for metric in metrics.METRICS.values()),
      f"tokenizer:{_TOKENIZER}-{words}",
      f"languages:{' '.join(scored)}",
      f"images:{len(used)}",
      f"references:{num_references}#{hashlib.sha256(text).hexdigest()[:16]}",
      "missing:refused",
      f"xmcap:{xmcap.__version__}",
    ]
  )
