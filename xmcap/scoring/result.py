"""What scoring returns: the table, and all that stands behind it."""

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
from xmcap.scoring.scores import Scores
from xmcap.scoring.signature import Signature
from xmcap.storage import outputs, strict_json

MAX_TABLE = 16 << 20
"""Bytes of the largest `table.json` that is read; one of 36 languages in all metrics takes 30 thousand."""

_LARGEST = 1e12


@dataclasses.dataclass(frozen=True)
class Result:
  """The scores of one system's captions.

  Attributes:
    table: the scores of the languages, their means, and the signature.
    scores: language code -> scores of its images.
    references: what was scored against, as given (the subset, where one was chosen).
    predictions: what was scored, missing ones filled in.
    health: language code -> health of its captions; {} unless asked for.
    words: language code -> the words that the metrics saw; {} unless kept.
    document_frequencies: language code -> those of its references; {} unless kept.
  """

  table: tables.Table
  scores: dict[str, Scores]
  references: References
  predictions: Predictions
  health: dict[str, Health] = dataclasses.field(default_factory=dict)
  words: dict[str, Tokenized] = dataclasses.field(default_factory=dict)
  document_frequencies: dict[str, DocumentFrequency] = dataclasses.field(default_factory=dict)

  @functools.cached_property
  def slices(self) -> slices_lib.Slices:
    """Scores by region of the image, by group of languages and by script."""
    return slices_lib.of(self.scores, locales_of(self.references))


def read_table(path: str | os.PathLike) -> tables.Table:
  """Reads `table.json`: its signature, title, scores, intervals and notes, but no columns beside nor notes on them.

  Raises:
    UsageError: the file cannot be read, or holds something else.
  """
  value = _read_object(path)
  signature, title, notes = value.get("signature"), value.get("title", ""), value.get("notes", [])
  rows = _rows(value, path)
  names = {frozenset(row) for row in rows.values()}
  if (
    not isinstance(signature, str)
    or not isinstance(title, str)
    or not isinstance(notes, list)
    or not all(isinstance(note, str) for note in notes)
    or len(names) > 1
    or not names.pop() - {*tables.COUNTS}
  ):
    raise UsageError(f"{path}: no table of xmcap score; write it anew")
  if any(name not in {*tables.COUNTS, *metrics.METRICS} for row in rows.values() for name in row):
    raise UsageError(f"{path}: a metric that this version does not know; score again")
  _signature(value, path)
  table = tables.Table.of_rows(signature, rows, title, intervals=_intervals(value, path), notes=tuple(notes))
  return dataclasses.replace(table, notes=table.own_notes)


def read_signature(path: str | os.PathLike) -> Signature:
  """Returns the signature of `table.json`.

  Raises:
    UsageError: the file cannot be read, or holds none.
  """
  return _signature(_read_object(path), path)


def _signature(value: dict, path: str | os.PathLike) -> Signature:
  try:
    return Signature.parse(str(value.get("signature", "")))
  except UsageError as error:
    raise UsageError(f"{path}: {error}") from None


def read_rows(path: str | os.PathLike) -> dict[str, dict[str, float]]:
  """Returns language code -> {name: number} of `table.json`; a score with an interval is the score.

  Raises:
    UsageError: the file cannot be read, or holds something else; the message says what, and where.
  """
  return _rows(_read_object(path), path)


def _rows(value: dict, path: str | os.PathLike) -> dict[str, dict[str, float]]:
  languages_of = value.get("languages")
  if not isinstance(languages_of, dict) or not languages_of:
    raise UsageError(f"{path}: no object 'languages' with scores; name a folder that xmcap score wrote")
  rows: dict[str, dict[str, float]] = {}
  for language, row in languages_of.items():
    files.check_language(language, str(path))
    if not isinstance(row, dict):
      raise UsageError(f"{path}, '{language}': not an object of scores; write it anew with xmcap score")
    rows[language] = {}
    for name, cell in row.items():
      score = cell.get("score") if isinstance(cell, dict) else cell
      if not _is_number(score) or (name in tables.COUNTS and not isinstance(score, int)):
        raise UsageError(
          f"{path}, '{language}': '{files.shown(name)}' is no number; write it anew with xmcap score"
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
            f"{path}, '{files.shown(name)}': '{files.shown(metric)}' has no interval; write it anew with xmcap score"
          )
        intervals.setdefault(name, {})[metric] = ends
  return intervals


def _is_number(value: object) -> bool:
  # No score is near the limit, which keeps whole numbers to those that a float can be made of.
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
