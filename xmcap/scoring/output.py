"""Files in, files out: reads captions, scores them, and writes everything there is to see about the scores."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import (
  document_frequency_files,
  files,
  grid,
  health,
  inputs,
  published,
  significance,
  tables,
)
from xmcap.scoring import language as language_lib
from xmcap.scoring import predictions as predictions_lib
from xmcap.scoring import references as references_lib
from xmcap.scoring import tokenizers as tokenizers_lib
from xmcap.scoring.result import SCORES_FILE, Result, write_scores
from xmcap.scoring.score import score
from xmcap.scoring.workers import Workers

PAPER = "paper"
"""The baseline that stands for the four models of the XM3600 paper."""


def score_files(
  references: str | os.PathLike,
  predictions: str | os.PathLike,
  out: str | os.PathLike,
  languages: Sequence[str] | None = None,
  *,
  language: str | None = None,
  document_frequencies: str | os.PathLike = "",
  save_document_frequencies: str | os.PathLike = "",
  baseline: str | os.PathLike = "",
  only_tables: bool = False,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  processes: int = 1,
  **options,
) -> Result:
  """Scores a file of predictions and writes tables, scores of every image, slices, health and the report.

  Args:
    references: captions as `read_references` takes them.
    predictions: captions as `read_predictions` takes them.
    out: the folder to write to.
    languages: the codes to score; None: all that have references.
    language: the code of captions that come without one, as COCO's do; scored alone, unless `languages` says
      otherwise.
    document_frequencies: file of those to weigh n-grams by; "": those of the references.
    save_document_frequencies: file to write those of the references to; "": none.
    baseline: a folder that was written for other predictions, or `paper`; "": none.
    only_tables: whether to write the tables alone.
    images_dir: folder with `KEY.jpg` or `KEY.png`, for the report.
    pictures: how the report holds them: `embed`, `link` or `none`.
    processes: that share the work.
    options: what else `score` takes.

  Raises:
    UsageError: input that cannot be read or does not fit together, in one line that says where.
    XmcapError: `out` cannot be written, or a package is not installed.
  """
  if images_dir is not None and not pathlib.Path(images_dir).is_dir():
    raise UsageError(f"{images_dir}: no such folder of images; name the folder that holds KEY.jpg or KEY.png")
  tokenizer = options.get("tokenizer", "default")
  needs_tokenized = tokenizers_lib.get(tokenizer, "en").needs_tokenized
  # Millions of words and no cycles: looking for garbage would take half of the time.
  with inputs.uncollected(), Workers(processes) as workers:
    predicted = workers.start(predictions_lib.read_predictions, predictions, language)
    if workers.several:
      language_lib.prepare(workers, tokenizer, _named(references))
    if languages is None and language is not None:
      languages = (language,)
    held = references_lib.read_references(references, None, language, needs_tokenized)
    predicted = predicted()
    frequencies = None
    if document_frequencies:
      frequencies = document_frequency_files.read(document_frequencies, tokenizer)
    beside = read_baseline(baseline) if baseline else {}
    keep = [] if only_tables else ["words"]
    keep += ["document_frequency"] if save_document_frequencies else []
    try:
      result = score(
        held, predicted, languages, document_frequencies=frequencies, keep=keep, workers=workers, **options
      )
    except UsageError as error:
      raise UsageError(f"{predictions}, scored against {references}: {error}") from None
    result = with_beside(result, beside)
    write(result, out, only_tables=only_tables, images_dir=images_dir, pictures=pictures)
    if save_document_frequencies:
      document_frequency_files.write(save_document_frequencies, result.document_frequencies, tokenizer)
  return result


def _named(references: str | os.PathLike) -> list[str]:
  """Returns the languages that the first lines of a file name, so that what they need can be loaded early."""
  try:
    with inputs.Input(references) as source:
      return [code for code in languages_lib.LANGUAGES if f'"{code}"'.encode() in source.head]
  except UsageError:
    return []  # whoever reads the file says what is wrong


def write(
  result: Result,
  out: str | os.PathLike,
  *,
  only_tables: bool = False,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  baselines: Mapping[str, tables.Table] | None = None,
) -> None:
  """Writes a result into a folder, made if need be.

  `table.csv`, `.json`, `.md` and `.tex`; and unless `only_tables`: `scores.npz` (every image), `slices.csv`,
  `health.csv` and `health.md` (if asked for), `predictions.jsonl` (what was scored) and `report.html`.

  Raises:
    XmcapError: the folder cannot be written.
  """
  out = pathlib.Path(out)
  result.table.write(out)
  if only_tables:
    return
  # Imported here so that scoring alone does not load the pictures' library.
  from xmcap.scoring import report

  write_scores(out / SCORES_FILE, result.scores)
  files.write_text(out / "slices.csv", result.slices.as_csv())
  if result.health:
    files.write_text(out / "health.csv", health_csv(result.health))
    files.write_text(out / "health.md", health_grid(result.health).markdown())
  predictions_lib.write_predictions(
    out / "predictions.jsonl",
    (
      (key, code, result.predictions[key][code])
      for key, captions in result.references.items()
      for code in captions
      if code in result.scores
    ),
  )
  report.write_report(
    out / "report.html",
    {result.table.title or "captions": result},
    images_dir=images_dir,
    pictures=pictures,
    baselines=baselines,
  )


def read_baseline(baseline: str | os.PathLike) -> dict[str, dict[str, float]]:
  """Returns heading -> {language code: score}: of the paper's models, or of a folder that was written.

  Raises:
    UsageError: the folder holds no table.
  """
  if str(baseline) == PAPER:
    return {f"{model} (paper)": published.table_rows(model) for model in published.MODELS}
  table = significance.read_system(baseline).table
  heading = table.title or pathlib.Path(baseline).resolve().name
  return {heading: {code: row[table.primary] for code, row in table.rows.items()}}


def with_beside(result: Result, beside: Mapping[str, Mapping[str, float]]) -> Result:
  """Returns the result with columns beside its table (see `read_baseline`), and a note that says what they are."""
  if not beside:
    return result
  table = result.table
  columns = {heading: tables.column(table.rows, scores) for heading, scores in beside.items()}
  notes = list(table.notes)
  if any(heading.endswith(f"({PAPER})") for heading in columns):
    notes.append(
      "columns (paper): CIDEr printed in Tables 8 to 11 of Thapliyal et al. (2022), on all of XM3600, with "
      "words and a variant of CIDEr that were not published: compare with care"
    )
  return dataclasses.replace(
    result, table=dataclasses.replace(table, beside={**table.beside, **columns}, notes=tuple(notes))
  )


def health_grid(of_language: Mapping[str, health.Health]) -> grid.Grid:
  """Returns the health of each language for people."""
  return grid.Grid(
    ("", "language", *(measure.heading for measure in health.MEASURES.values())),
    tuple(
      (
        code,
        languages_lib.get(code).english_name,
        *(measure.format(getattr(held, name)) for name, measure in health.MEASURES.items()),
      )
      for code, held in of_language.items()
    ),
    num_labels=2,
  )


def health_csv(of_language: Mapping[str, health.Health]) -> str:
  """Returns the health of each language with every digit; empty where it cannot be said."""
  return grid.write_csv(
    ["language", *health.MEASURES], [[code, *held.as_dict().values()] for code, held in of_language.items()]
  )
