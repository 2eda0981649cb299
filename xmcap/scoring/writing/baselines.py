"""Baseline columns of a table: scores from another `xmcap score` folder, or those printed in the XM3600 paper."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping

from xmcap.errors import UsageError
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import published
from xmcap.scoring.result import Result, read_table
from xmcap.scoring.writing import tables
from xmcap.scoring.writing.signature import Signature, shortened

PAPER = "paper"
"""Name of the baseline that means the four models of the XM3600 paper."""


def check_pictures(baseline: str | os.PathLike, keys: Iterable[str]) -> None:
  """Raises UsageError if the baseline is the paper but the references are not those of XM3600.

  `keys` are the image keys of all references, even if only a subset is scored.
  """
  if str(baseline) == PAPER and not published.is_xm3600(keys):
    raise UsageError(
      "the baseline 'paper' has scores on the 3,600 pictures of XM3600, and the references are for other pictures: "
      "leave it out, or score against captions.jsonl of XM3600"
    )


def heading(name: str, metric: str) -> str:
  """Returns the heading of a column with another system's scores."""
  return f"{name} ({metrics_lib.METRICS[metric].heading})"


class Column(dict[str, float]):
  """Scores by language code, with the metric's name and the signature and notes of the table that they come from."""

  def __init__(self, scores: Mapping[str, float], metric: str, signature: str, notes: tuple[str, ...] = ()):
    super().__init__(scores)
    self.metric, self.signature, self.notes = metric, signature, notes


def read_baseline(baseline: str | os.PathLike, metric: str | None = None) -> dict[str, Mapping[str, float]]:
  """Returns heading -> {language code: score} for the paper's models or for a folder of scores.

  Args:
    baseline: `paper`, or a folder with `table.json`.
    metric: the metric to read from the folder; None: the primary metric of its table.

  Raises:
    UsageError: the folder has no table, or its table lacks the metric.
  """
  if str(baseline) == PAPER:
    return {f"{model} (paper)": published.table_rows(model) for model in published.MODELS}
  table = read_table(pathlib.Path(baseline, "table.json"))
  metric = metric or table.primary
  if metric not in table.metrics:
    raise UsageError(
      f"--baseline={baseline}: was not scored in {metric}; score it again with --metrics="
      f"{','.join([*table.metrics, metric])}"
    )
  name = table.title or pathlib.Path(baseline).resolve().name
  scores = {code: row[metric] for code, row in table.rows.items()}
  return {heading(name, metric): Column(scores, metric, table.signature, table.notes)}


def with_beside(result: Result, columns: Mapping[str, Mapping[str, float]]) -> Result:
  """Returns the result with extra columns (heading -> {language code: score}) in its table, and notes about them."""
  if not columns:
    return result
  table = result.table
  beside = {heading: tables.column(table.rows, scores) for heading, scores in columns.items()}
  notes = [note for heading, scores in columns.items() for note in _notes(table.signature, heading, scores)]
  if any(heading.endswith(f"({PAPER})") for heading in columns):
    notes.append(
      f"{tables.OF_COLUMNS}(paper): CIDEr from Tables 8 to 11 of Thapliyal et al. (2022), on all of XM3600, with a "
      "tokeniser and a variant of CIDEr that were not published: compare with care"
    )
  return dataclasses.replace(
    result,
    table=dataclasses.replace(table, beside={**table.beside, **beside}, notes=(*table.notes, *notes)),
  )


def _notes(signature: str, heading: str, scores: Mapping[str, float]) -> list[str]:
  if not isinstance(scores, Column):
    return []
  about = f"{tables.OF_COLUMNS}{heading}:"
  notes = [f"{about} {note}" for note in scores.notes]
  differences = Signature.parse(scores.signature).differences(Signature.parse(signature), (scores.metric,))
  if differences:
    notes.append(f"{about} scored in another way, so compare with care; {'; '.join(shortened(differences))}")
  return notes
