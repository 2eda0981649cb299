"""The report of several systems: their folders read back, with the references they were scored against."""

import os
import pathlib
from collections.abc import Mapping

from xmcap.errors import UsageError
from xmcap.scoring import predictions as predictions_lib
from xmcap.scoring import references as references_lib
from xmcap.scoring import subsets
from xmcap.scoring.comparison import Comparison
from xmcap.scoring.result import Result
from xmcap.scoring.signature import Signature
from xmcap.scoring.significance import System


def write(
  out: str | os.PathLike,
  systems: Mapping[str, System],
  folders: Mapping[str, str | os.PathLike],
  references: str | os.PathLike,
  comparison: Comparison,
  *,
  language: str | None = None,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
) -> None:
  """Writes `report.html` of systems side by side into a folder.

  Args:
    out: the folder.
    systems: name -> what `read_system` read.
    folders: name -> where it was read from; `predictions.jsonl` there holds the captions.
    references: what they were scored against.
    comparison: their differences.
    language, images_dir, pictures: as in `score_files`.

  Raises:
    UsageError: a file cannot be read, or lacks what was scored.
    XmcapError: the folder cannot be written.
  """
  from xmcap.scoring import report

  report.pictures.check(pictures, images_dir)
  held = references_lib.read_references(references, language=language)
  results = {}
  for name, system in systems.items():
    scored = {key for of_language in system.scores.values() for key in of_language.keys}
    path = pathlib.Path(folders[name]) / "predictions.jsonl"
    predicted = predictions_lib.read_predictions(path)
    # Where a file in its own folder was scored, what it lacked was not filled in there.
    filled = Signature.parse(system.table.signature).parts.get("missing") == "empty"
    for code, of_language in system.scores.items():
      for key in of_language.keys:
        if code not in held.get(key, {}):
          raise UsageError(
            f"{references}: no {code} reference of {key}, which {folders[name]} was scored against"
          )
        if code in predicted.get(key, {}):
          continue
        if filled:
          predicted.setdefault(key, {})[code] = ""
        else:
          raise UsageError(f"{path}: no {code} caption of {key}; score {name} again")
    results[name] = Result(system.table, system.scores, subsets.take(held, scored), predicted)
  report.write_report(
    pathlib.Path(out) / "report.html",
    results,
    images_dir=images_dir,
    pictures=pictures,
    comparison=comparison,
  )
