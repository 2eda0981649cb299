"""The result of scoring, and tables read back from `table.json`."""

import dataclasses
import functools
import os

from xmcap.errors import UsageError
from xmcap.scoring import files, metrics, tables
from xmcap.scoring import slices as slices_lib
from xmcap.scoring.health import Health
from xmcap.scoring.language import Tokenized
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References, locales_of
from xmcap.scoring.signature import Signature
from xmcap.scoring.statistics import Statistics
from xmcap.storage import outputs, strict_json
from xmcap.terminal import shown

MAX_TABLE = 16 << 20
"""Bytes of the largest `table.json` that is read; one of 36 languages in all metrics takes 30 thousand."""

_LARGEST = 1e12  # beyond any score, and safe to turn into a float


@dataclasses.dataclass(frozen=True)
class Result:
  """The scores of one system's captions.

  Attributes:
    table: the scores of the languages, their means, and the signature.
    statistics: language code -> statistics of its images.
    references: what was scored against (the subset, where one was chosen).
    predictions: what was scored, missing ones filled in.
    health: language code -> health of its captions; {} unless asked for.
    words: language code -> the words that the metrics saw; {} unless kept.
    document_frequencies: language code -> those of its references; {} unless kept.
  """

  table: tables.Table
  statistics: dict[str, Statistics]
  references: References
  predictions: Predictions
  health: dict[str, Health] = dataclasses.field(default_factory=dict)
  words: dict[str, Tokenized] = dataclasses.field(default_factory=dict)
  document_frequencies: dict[str, DocumentFrequency] = dataclasses.field(default_factory=dict)

  @functools.cached_property
  def slices(self) -> slices_lib.Slices:
    """Scores by region of the image, by group of languages and by script."""
    return slices_lib.of(self.statistics, locales_of(self.references))


def read_table(path: str | os.PathLike) -> tables.Table:
  """Reads `table.json`, but for columns beside and notes on them; UsageError if it is none."""
  value = _read_object(path)
  signature, title, notes = value.get("signature"), value.get("title", ""), value.get("notes", [])
  rows = _rows(value, path)
  columns = {frozenset(row) for row in rows.values()}
  names = set().union(*columns)
  is_table = (
    isinstance(signature, str)
    and isinstance(title, str)
    and isinstance(notes, list)
    and all(isinstance(note, str) for note in notes)
    and len(columns) == 1
    and names > names & {*tables.COUNTS}
  )
  if not is_table:
    raise UsageError(f"{path}: no table of xmcap score; write it anew")
  if not names <= {*tables.COUNTS, *metrics.METRICS}:
    raise UsageError(f"{path}: a metric that this version does not know; score again")
  _signature(value, path)
  table = tables.Table.of_rows(signature, rows, title, intervals=_intervals(value, path), notes=tuple(notes))
  return dataclasses.replace(table, notes=table.own_notes)


def read_signature(path: str | os.PathLike) -> Signature:
  """Returns the signature of `table.json`; UsageError if there is none."""
  return _signature(_read_object(path), path)


def read_rows(path: str | os.PathLike) -> dict[str, dict[str, float]]:
  """Returns language code -> {name: number} of `table.json`; UsageError if it holds something else."""
  return _rows(_read_object(path), path)


def _signature(value: dict, path: str | os.PathLike) -> Signature:
  try:
    return Signature.parse(str(value.get("signature", "")))
  except UsageError as error:
    raise UsageError(f"{path}: {error}") from None


def _rows(value: dict, path: str | os.PathLike) -> dict[str, dict[str, float]]:
  of_languages = value.get("languages")
  if not isinstance(of_languages, dict) or not of_languages:
    raise UsageError(f"{path}: no object 'languages' with scores; name a folder that xmcap score wrote")
  rows: dict[str, dict[str, float]] = {}
  for language, row in of_languages.items():
    files.check_language(language, str(path))
    if not isinstance(row, dict):
      raise UsageError(f"{path}, '{language}': not an object of scores; write it anew with xmcap score")
    rows[language] = {}
    for name, cell in row.items():
      score = cell.get("score") if isinstance(cell, dict) else cell
      if not _is_number(score) or (name in tables.COUNTS and not isinstance(score, int)):
        raise UsageError(
          f"{path}, '{language}': '{shown(name)}' is no number; write it anew with xmcap score"
        )
      rows[language][name] = score
  return rows


def _intervals(value: dict, path: str | os.PathLike) -> dict[str, dict[str, tables.Interval]]:
  """Returns language code or mean -> metric -> interval, of scores that have one."""
  intervals: dict[str, dict[str, tables.Interval]] = {}
  means = value.get("means", {})
  if not isinstance(means, dict) or not all(isinstance(row, dict) for row in means.values()):
    raise UsageError(f"{path}, 'means': not an object of scores; write it anew with xmcap score")
  for name, row in {**value["languages"], **means}.items():
    for metric, cell in row.items():
      if isinstance(cell, dict):
        ends = cell.get("low"), cell.get("high")
        if not all(map(_is_number, ends)):
          raise UsageError(
            f"{path}, '{shown(name)}': '{shown(metric)}' has no interval; write it anew with xmcap score"
          )
        intervals.setdefault(name, {})[metric] = ends
  return intervals


def _is_number(value: object) -> bool:
  return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _read_object(path: str | os.PathLike) -> dict:
  outputs.settle(os.path.dirname(path))
  try:
    with open(path, "rb") as file:
      content = file.read(MAX_TABLE + 1)
  except OSError as error:
    raise UsageError(
      f"{path}: cannot be read ({error.strerror or error}); name a folder that xmcap score wrote"
    ) from None
  if len(content) > MAX_TABLE:
    raise UsageError(f"{path}: over {MAX_TABLE >> 20} MiB; name a folder that xmcap score wrote")
  value = strict_json.parse(content, str(path))
  return value if isinstance(value, dict) else {}
