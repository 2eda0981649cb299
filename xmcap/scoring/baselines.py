"""Scores beside those of a table: from another `xmcap score` folder, or as printed in papers."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from xmcap import papers, wording
from xmcap.errors import UsageError
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import protocols
from xmcap.scoring.result import Result, read_table
from xmcap.scoring.statistics import means
from xmcap.scoring.statistics.sufficient import image_keys
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table
from xmcap.scoring.tables.signature import Signature, shortened

PAPER = "paper"
"""Name of the baseline that means the four models of the XM3600 paper."""

_OF_THE_PAPER = (PAPER, "xm3600")
_UNREAD = "mblip"  # a protocol whose paper has numbers that `published` lacks
_NOT_PUBLIC = "gemini"  # a baseline whose protocol nobody can follow, so that it may stand beside any
NAMES = (*_OF_THE_PAPER, *papers.ROWS, _NOT_PUBLIC)
"""The baselines that are printed in papers."""

_COLUMN_NOTES = {
  "paper": "CIDEr from Tables 8 to 11 of Thapliyal et al. (2022), on all of XM3600, with a tokeniser and a variant of "
  "CIDEr that were not published: compare with care",
  "centurio": "CIDEr-D of four of the 27 systems of Table 26 of Centurio's paper, on 500 pictures of XM3600",
  "gemini": "CIDEr from Table 9 of the Gemini 1.0 report, four shots, with words and a variant of CIDEr that are not "
  "public: compare with care",
}


def check_images(baseline: str | os.PathLike, keys: Iterable[str]) -> None:
  """Raises UsageError if the baseline is one of `NAMES` but the references are not those of XM3600.

  `keys` are the image keys of all references, even if only a subset is scored.
  """
  if str(baseline) in NAMES and not papers.is_xm3600(keys):
    raise UsageError(
      f"the baseline '{baseline}' has scores on the 3,600 pictures of XM3600, and the references are for other "
      "pictures: leave it out, or score against captions.jsonl of XM3600"
    )


def check_protocol(baseline: str | os.PathLike, followed: str) -> None:
  """Raises UsageError if the scores of the baseline follow another protocol than the one that is followed."""
  name, own = str(baseline), followed or protocols.DEFAULT
  if name == _UNREAD and not pathlib.Path(name).exists():
    raise UsageError(
      f"--baseline={name}: its printed scores are not among xmcap's; there are {', '.join(NAMES)}"
    )
  if name == _NOT_PUBLIC:
    return
  if name in papers.ROWS:
    theirs = (name,)
  elif name in _OF_THE_PAPER:
    theirs = ("xm3600", protocols.DEFAULT)
  else:
    theirs = (Signature.parse(read_table(pathlib.Path(name, "table.json")).signature).protocol,)
  if own not in theirs:
    raise UsageError(
      f"--baseline={name} follows the protocol {theirs[0]}, and this table {own}: score both with the same --protocol"
    )


def heading(name: str, metric: str) -> str:
  """Returns the heading of a column with another system's scores."""
  return f"{name} ({metrics_lib.METRICS[metric].heading})"


R = TypeVar("R", Result, System)


class BaselineColumn(dict[str, float]):
  """Scores by language code, with the metric's name and the signature and notes of the table that they come from.

  `intervals` are those of the languages and means of the table, by the languages that each is of.
  """

  def __init__(self, table: score_table.Table, metric: str):
    super().__init__({language: row[metric] for language, row in table.rows.items()})
    self.metric, self.signature, self.notes = metric, table.signature, table.notes
    self.intervals = {
      members: table.intervals[name][metric]
      for name, members in _members(table.rows).items()
      if metric in table.intervals.get(name, {})
    }


class Printed(dict[str, float]):
  """Scores by language code as a paper prints them, with a note about them."""

  def __init__(self, scores: Mapping[str, float], note: str):
    super().__init__(scores)
    self.note = note


def read_baseline(baseline: str | os.PathLike, metric: str | None = None) -> dict[str, Mapping[str, float]]:
  """Returns heading -> {language code: score} for the models of a paper or for a folder of scores.

  Args:
    baseline: one of `NAMES`, or a folder with `table.json`; without a column if its papers print only means.
    metric: the metric to read from the folder; None: the primary metric of its table.

  Raises:
    UsageError: the folder has no table, or its table lacks the metric.
  """
  name = PAPER if str(baseline) in _OF_THE_PAPER else str(baseline)
  if name in NAMES:
    if name == PAPER:
      rows = {model: papers.table_rows(model) for model in papers.MODELS}
    else:
      rows = papers.language_rows(name) if name in papers.LANGUAGE_ROWS else {}
    return {f"{model} ({PAPER})": Printed(scores, _COLUMN_NOTES[name]) for model, scores in rows.items()}
  table = read_table(pathlib.Path(baseline, "table.json"))
  metric = metric or table.primary
  if metric not in table.metrics:
    raise UsageError(
      f"--baseline={baseline}: was scored in {wording.first_few(table.metrics)}, not in {metric}: score it again so, "
      "or give scores of the same command"
    )
  name = table.title or pathlib.Path(baseline).resolve().name
  return {heading(name, metric): BaselineColumn(table, metric)}


def _members(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  """Returns language code or mean -> the languages that its score is of."""
  return {**{language: (language,) for language in rows}, **means.mean_groups(rows)}


def with_beside(result: R, columns: Mapping[str, Mapping[str, float]]) -> R:
  """Returns the result with extra columns (heading -> {language code: score}) in its table, and notes about them."""
  if not columns:
    return result
  table = result.table
  beside = {heading: score_table.column(table.rows, scores) for heading, scores in columns.items()}
  intervals = {
    heading: {
      name: scores.intervals[members]
      for name, members in _members(table.rows).items()
      if members in scores.intervals
    }
    for heading, scores in columns.items()
    if isinstance(scores, BaselineColumn)
  }
  notes = [note for heading, scores in columns.items() for note in _notes(table.signature, heading, scores)]
  return dataclasses.replace(
    result,
    table=dataclasses.replace(
      table,
      beside={**table.beside, **beside},
      beside_intervals={**table.beside_intervals, **intervals},
      notes=(*table.notes, *dict.fromkeys(notes)),
    ),
  )


def with_published(result: Result, baseline: str | os.PathLike) -> Result:
  """Returns the result with the rows of papers in its table if the baseline is one of `papers.ROWS`."""
  name, table = str(baseline), result.table
  if name not in papers.ROWS:
    return result
  note = f"rows of papers: CIDEr-D by the protocol {name}, as printed"
  if not papers.is_xm3600(image_keys(result.statistics)):
    note += "; this table is of other pictures, so compare with care"
  if "all but en" not in table.means:
    note += "; this table lacks languages, so it has no mean over all but en"
  return dataclasses.replace(
    result,
    table=dataclasses.replace(table, published=papers.protocol_rows(name), notes=(*table.notes, note)),
  )


def _notes(signature: str, heading: str, scores: Mapping[str, float]) -> list[str]:
  if isinstance(scores, Printed):
    return [f"{score_table.OF_COLUMNS}({PAPER}): {scores.note}"]
  if not isinstance(scores, BaselineColumn):
    return []
  about = f"{score_table.OF_COLUMNS}{heading}:"
  notes = [f"{about} {note}" for note in scores.notes]
  differences = Signature.parse(scores.signature).differences(Signature.parse(signature), (scores.metric,))
  if differences:
    notes.append(f"{about} scored in another way, so compare with care; {'; '.join(shortened(differences))}")
  return notes
