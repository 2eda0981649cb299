"""Reads captions from files, scores them, and writes the results to a folder."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence

from xmcap import grid, latex, spreadsheet
from xmcap import languages as languages_lib
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.pages import captions_table
from xmcap.pages import plot as plot_lib
from xmcap.reading import inputs, joining
from xmcap.reading import missing as missing_lib
from xmcap.reading import predictions as predictions_lib
from xmcap.reading.captions import MAX_CAPTION
from xmcap.reading.columns import ColumnNames
from xmcap.reading.references import read_references
from xmcap.scoring import baselines as baselines_lib
from xmcap.scoring import health, tokenizers
from xmcap.scoring.metrics import document_frequency_files
from xmcap.scoring.options import ScoringOptions
from xmcap.scoring.result import Result
from xmcap.scoring.score import score_captions
from xmcap.scoring.statistics.statistics_file import STATISTICS_FILE, write_statistics
from xmcap.scoring.tables import language_fidelity, score_table
from xmcap.terminal import shown

PREDICTIONS_FILE = "predictions.jsonl"

SYSTEM = "these captions"
"""Name of the scored system in a report, beside other systems."""

_TERMINAL = 100  # columns
_NOTABLE = 0.01  # a share above that of the references
_TABLES = ("table.csv", "table.json", "table.md", "table.tex")
_OF_HEALTH = ("health.csv", "health.md")
_BESIDE_TABLES = (STATISTICS_FILE, "slices.csv", "captions.csv", *_OF_HEALTH, "report.html")


@checked
def score_files(
  references: joining.Paths,
  predictions: joining.Paths,
  out: str | os.PathLike,
  languages: str | Sequence[str] | None = None,
  *,
  language: str | None = None,
  key: str | None = None,
  columns: ColumnNames | None = None,
  document_frequencies: str | os.PathLike = "",
  save_document_frequencies: str | os.PathLike = "",
  baseline: str | os.PathLike = "",
  only_tables: bool = False,
  plot: str | os.PathLike = "",
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  style: latex.Style | None = None,
  **of_score,
) -> Result:
  """Scores the predictions of a system and writes tables, statistics of every image, slices, health and the report.

  Args:
    references: file or files of captions for `read_references`.
    predictions: file or files of captions for `read_predictions`.
    out: output folder; files of an earlier run that this one does not write are removed (see `write`).
    languages: codes to score; None: all that have references.
    language: code of captions that come without one, such as COCO's; also the only language to score, unless
      `languages` is given.
    key: a regular expression whose group is the image's key in the ids of either file.
    columns: names of columns of either file; a file that lacks them is read by the usual names.
    document_frequencies: file of document frequencies for weighting n-grams; "": those of the references.
    save_document_frequencies: file for saving the document frequencies of the references; "": none.
    baseline: output folder of another scoring run, or one of `baselines.NAMES`; "": none.
    only_tables: whether to write only the tables.
    plot: a file, .svg or .pdf, for a figure of the scores (see `plot.write_scores`); "": none.
    images_dir: folder with `KEY.jpg` or `KEY.png`, for the report.
    pictures: how the report includes them: `embed`, `link` or `none`.
    style: of the table in LaTeX.
    of_score: the other options of `score`.

  Raises:
    UsageError: the input cannot be read, or references and predictions do not match.
    XmcapError: `out` cannot be written, or a package is not installed.
  """
  if languages is None and language is not None:
    languages = (language,)
  keep = [] if only_tables else ["words"]
  keep += ["document_frequency"] if save_document_frequencies else []
  options = ScoringOptions(
    languages=languages, document_frequencies=document_frequencies, keep=keep, **of_score
  )
  settled = options.settled
  references, predictions = joining.listed(references), joining.listed(predictions)
  own = pathlib.Path(out, PREDICTIONS_FILE)
  if (options.clean or len(predictions) > 1) and any(_is_same(path, own) for path in predictions):
    changed = "the cleaned" if options.clean else "all joined"
    raise UsageError(f"{own}: {changed} captions would be written over it; give another --out")
  inputs.check_pipes(
    {
      "--references": references,
      "--predictions": predictions,
      "--df": document_frequencies,
      "--subset": options.subset,
    }
  )
  if not only_tables:
    # Imported here so that scoring without a report does not load Pillow.
    from xmcap.pages.report import pictures as pictures_lib

    pictures_lib.check(pictures, images_dir)
  if plot:
    plot_lib.check(plot)
  beside = {}
  if baseline:
    baselines_lib.check_protocol(baseline, settled.protocol)
    beside = baselines_lib.read_baseline(baseline, score_table.primary(settled.metrics))
  if style:
    shares = language_fidelity.HEADINGS if options.health else ()
    style.check(score_table.latex_columns(("images", "references"), settled.metrics, shares, tuple(beside)))
  tokenizer, normalize = settled.tokenizer, options.normalize
  if document_frequencies:
    frequencies = document_frequency_files.read(document_frequencies, tokenizer, normalize=normalize)
    options = dataclasses.replace(options, document_frequencies=frequencies)
  with inputs.uncollected():
    tokenized = tokenizers.get(tokenizer, "en").needs_tokenized
    if options.judges_languages:
      health.begin()
    captions = read_references(references, None, language, tokenized, key, MAX_CAPTION, columns)
    baselines_lib.check_images(baseline, captions)
    # What --clean removes may be what makes a caption too long.
    longest = None if options.clean else MAX_CAPTION
    predicted = predictions_lib.read_predictions(predictions, language, captions, key, longest, columns)
    for name in columns.all if columns else ():
      if name not in captions.columns | predicted.columns:
        raise UsageError(f"{joining.named((*predictions, *references))}: no column '{shown(name)}'")
    try:
      result = score_captions(captions, predicted, options)
    except missing_lib.Unmatched as error:
      names = map(joining.named, (predictions, references))
      raise UsageError(f"{', scored against '.join(names)}: {error}") from None
  result = baselines_lib.with_published(baselines_lib.with_beside(result, beside), baseline)
  with outputs.together(out):
    if save_document_frequencies:
      with outputs.together(save_document_frequencies, folder=False):
        document_frequency_files.write(
          save_document_frequencies, result.document_frequencies, tokenizer, normalize=normalize
        )
    if plot:
      with outputs.together(plot, folder=False):
        plot_lib.write_scores(plot, result.table)
    write(
      result,
      out,
      only_tables=only_tables,
      style=style,
      scored=predictions[0] if len(predictions) == 1 else None,
      images_dir=images_dir,
      pictures=pictures,
      processes=options.processes,
    )
  return result


@checked
def write(
  result: Result,
  out: str | os.PathLike,
  *,
  only_tables: bool = False,
  style: latex.Style | None = None,
  scored: str | os.PathLike | None = None,
  **of_report,
) -> None:
  """Writes a result into a folder, which is made if necessary; the files appear together (see `outputs.together`).

  The files are `table.csv`, `.json`, `.md` and `.tex`, and unless `only_tables`: `scores.npz` (every image),
  `slices.csv`, `captions.csv` (see `captions_table`), `health.csv` and `health.md` (if measured), `predictions.jsonl`
  (the scored captions, as `clean` left them) and `report.html`.
  Files of an earlier result that this one lacks are removed, except `predictions.jsonl`.

  Args:
    result: the result.
    out: the folder.
    only_tables: whether to write only the tables.
    style: of the table in LaTeX.
    scored: the file that the predictions were read from. If it is `predictions.jsonl` in `out`, it is left alone, as it
      may contain more than was scored.
    of_report: options of `report.write_report`.

  Raises:
    XmcapError: the folder cannot be written.
  """
  out = pathlib.Path(out)
  with outputs.together(out), inputs.uncollected():
    if (out / "table.json").exists():  # otherwise the files are not from an earlier run
      for name in _BESIDE_TABLES:
        if only_tables or (name in _OF_HEALTH and not result.health):
          files.remove(out / name)
    result.table.write(out, style)
    if only_tables:
      return
    write_statistics(out / STATISTICS_FILE, result.statistics)
    files.write_text(out / "slices.csv", result.slices.as_csv(result.table.scale))
    files.write_lines(out / "captions.csv", captions_table.lines(result))
    if result.health:
      files.write_text(out / "health.csv", health_csv(result.health))
      files.write_text(out / "health.md", health_grid(result.health).markdown())
    if scored is None or not _is_same(scored, out / PREDICTIONS_FILE):
      scored_captions = (
        (
          key,
          {
            language: result.predictions[key][language]
            for language in captions
            if language in result.statistics
          },
        )
        for key, captions in result.references.items()
      )
      predictions_lib.write_predictions(out / PREDICTIONS_FILE, scored_captions)
    from xmcap.pages import report

    report.write_report(out / "report.html", {SYSTEM: result}, **of_report)


def files_of(out: str | os.PathLike, *scored: str | os.PathLike) -> list[pathlib.Path]:
  """Returns the files that `write` may write; without the predictions if they were read from there alone."""
  out = pathlib.Path(out)
  names = [*_TABLES, *_BESIDE_TABLES]
  if len(scored) != 1 or not _is_same(scored[0], out / PREDICTIONS_FILE):
    names.append(PREDICTIONS_FILE)
  return [out / name for name in names]


def _is_same(file: str | os.PathLike, other: str | os.PathLike) -> bool:
  try:
    return os.path.samefile(file, other)
  except OSError:
    return False


def health_grid(of_language: Mapping[str, health.Health], names: Sequence[str] = ()) -> grid.Grid:
  """Returns the health of each language as a table for display; `names` are the measures, by default all."""
  names = names or list(health.MEASURES)
  return grid.Grid(
    ("", "language", *(health.MEASURES[name].heading for name in names)),
    tuple(
      (
        language,
        languages_lib.get(language).english_name,
        *(health.MEASURES[name].format(getattr(measures, name)) for name in names),
      )
      for language, measures in of_language.items()
    ),
    num_labels=2,
  )


def health_text(of_language: Mapping[str, health.Health], written: bool = True) -> str:
  """Returns the health for a terminal: the measures that exceed the references in a language, in some 100 columns.

  `written` is whether files have the others too.
  """
  above = [
    name for name in health.MEASURES if any(map(functools.partial(_is_above, name), of_language.values()))
  ]
  shown = list(above)
  while len(health_grid(of_language, shown).text().partition("\n")[0]) > _TERMINAL and len(shown) > 1:
    shown.pop()
  more = (
    f"{', '.join(health.MEASURES[name].heading for name in above[len(shown) :])} and "
    if len(above) > len(shown)
    else ""
  )
  text = health_grid(of_language, shown).text("health.csv" if written else "") if shown else ""
  return f"{text}{more}all other measures: health.csv, report.html\n" if written else text


def _is_above(name: str, own: health.Health) -> bool:
  value = getattr(own, name)
  if not health.MEASURES[name].percent:
    return name == "length_ratio"
  return (
    not name.endswith("_references")
    and (value or 0) > (getattr(own, f"{name}_references", 0) or 0) + _NOTABLE
  )


def health_csv(of_language: Mapping[str, health.Health]) -> str:
  """Returns the health of each language as CSV in full precision; unknown values are empty."""
  return spreadsheet.table(
    ["language", *health.MEASURES, "most_frequent_caption"],
    [
      [language, *measures.as_dict().values(), measures.most_frequent_caption]
      for language, measures in of_language.items()
    ],
  )
