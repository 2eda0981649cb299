"""Writes the report of several systems, from their output folders and the references."""

import os
import pathlib
from collections.abc import Mapping

from xmcap.errors import UsageError
from xmcap.reading import failed_requests, joining, subsets
from xmcap.reading.predictions import Predictions, read_predictions
from xmcap.reading.references import References, read_references
from xmcap.scoring.comparing.comparison import Comparison
from xmcap.scoring.result import Result
from xmcap.scoring.statistics.sufficient import image_keys
from xmcap.scoring.system import System
from xmcap.scoring.tables.signature import Signature


def write(
  out: str | os.PathLike,
  systems: Mapping[str, System],
  folders: Mapping[str, str | os.PathLike],
  references: joining.Paths,
  comparison: Comparison,
  *,
  language: str | None = None,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
) -> None:
  """Writes `report.html` of systems side by side into a folder.

  `systems` are those that `read_system` read from the `folders`, which have the captions in `predictions.jsonl`. The
  options are those of `score_files`.

  Raises:
    UsageError: a file cannot be read, or lacks a scored caption or reference.
    XmcapError: the folder cannot be written.
  """
  from xmcap.pages import report
  from xmcap.pages.report import pictures as pictures_lib

  pictures_lib.check(pictures, images_dir)
  captions = read_references(references, language=language)
  names = joining.named(joining.listed(references))
  results = {}
  for name, system in systems.items():
    path = pathlib.Path(folders[name], "predictions.jsonl")
    predicted, _ = failed_requests.split(captions, read_predictions(path))
    _check_scored(system, captions, predicted, names, path)
    scored = subsets.take(captions, image_keys(system.statistics))
    results[name] = Result(system.table, system.statistics, scored, predicted)
  report.write_report(
    pathlib.Path(out) / "report.html",
    results,
    images_dir=images_dir,
    pictures=pictures,
    comparison=comparison,
  )


def _check_scored(
  system: System,
  references: References,
  predicted: Predictions,
  references_files: str,
  predictions_file: pathlib.Path,
) -> None:
  """Checks that all scored captions and references exist; fills in predictions that were scored as empty."""
  empty_if_missing = Signature.parse(system.table.signature).parts.get("missing") == "empty"
  for language, of_language in system.statistics.items():
    for key in of_language.keys:
      if language not in references.get(key, {}):
        raise UsageError(
          f"{references_files}: no {language} reference of {key}, which {predictions_file.parent} was scored against"
        )
      if language in predicted.get(key, {}):
        continue
      if not empty_if_missing:
        raise UsageError(f"{predictions_file}: no {language} caption of {key}; score the folder again")
      predicted.setdefault(key, {})[language] = ""
