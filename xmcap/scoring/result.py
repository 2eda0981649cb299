"""The result of scoring, and a reader of `table.json`."""

import dataclasses
import functools
import os
from typing import Annotated, Literal

import msgspec

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.files import outputs
from xmcap.reading import jsonl
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import References
from xmcap.scoring import metrics
from xmcap.scoring.health import Health
from xmcap.scoring.language import Tokenized
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.statistics import means as means_lib
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table
from xmcap.scoring.tables import slices as slices_lib
from xmcap.scoring.tables.signature import Signature

# Larger than any score, and safe to convert to float.
_Count = Annotated[int, msgspec.Meta(ge=-(10**12), le=10**12)]
_Score = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]


@dataclasses.dataclass(frozen=True)
class Result(System):
  """The scores of one system's captions.

  Attributes:
    references: the references that were used (only the subset, if one was chosen).
    predictions: the scored captions, with missing ones filled in.
    health: language code -> health of its captions; {} unless requested.
    words: language code -> the words that the metrics saw; {} unless kept.
    document_frequencies: language code -> document frequencies of its references; {} unless kept.
  """

  references: References
  predictions: Predictions
  health: dict[str, Health] = dataclasses.field(default_factory=dict)
  words: dict[str, Tokenized] = dataclasses.field(default_factory=dict)
  document_frequencies: dict[str, DocumentFrequency] = dataclasses.field(default_factory=dict)

  @functools.cached_property
  def slices(self) -> slices_lib.Slices:
    """Scores by region of the image, by group of languages and by script."""
    return slices_lib.make(self.statistics, self.references.locales)


class _Interval(msgspec.Struct):
  score: _Score
  low: _Score
  high: _Score


class _TableFile(msgspec.Struct):
  """The JSON of `Table.as_json`, without the columns beside."""

  languages: Annotated[dict[str, dict[str, _Count | _Score | _Interval]], msgspec.Meta(min_length=1)]
  means: dict[str, dict[str, _Score | _Interval]] = {}
  signature: str = ""
  title: str = ""
  notes: list[str] = []
  scale: Literal[1, 100] = 1


def read_table(path: str | os.PathLike) -> score_table.Table:
  """Reads `table.json` without published scores and notes about them; UsageError if it is malformed."""
  outputs.settle(os.path.dirname(path))
  if os.path.exists(folder := os.path.dirname(path) or ".") and not os.path.exists(path):
    raise UsageError(f"{folder}: no folder of xmcap score: it has no table.json")
  content = jsonl.read_document(path, _TableFile, "not a table of xmcap score", "score again")
  for language, row in content.languages.items():
    languages_lib.check(language, str(path))
    for name in means_lib.COUNTS:
      if not isinstance(row.get(name, 0), int):
        raise UsageError(
          f"{path}: not a table of xmcap score ({language}: {name} is not an integer); score again"
        )
  try:
    signature = Signature.parse(content.signature)
  except UsageError as error:
    raise UsageError(f"{path}: {error}") from None
  rows = {
    language: {name: cell.score if isinstance(cell, _Interval) else cell for name, cell in row.items()}
    for language, row in content.languages.items()
  }
  names = [set(filter(means_lib.is_metric, row)) for row in rows.values()]
  if names.count(names[0]) < len(names) or not names[0] or not names[0] <= metrics.METRICS.keys():
    raise UsageError(
      f"{path}: languages differ in their metrics, or a metric is unknown to this version; score again"
    )
  rows = {
    language: {name: _unscaled(name, value, content.scale) for name, value in row.items()}
    for language, row in rows.items()
  }
  intervals: dict[str, dict[str, score_table.Interval]] = {}
  for name, row in {**content.languages, **content.means}.items():
    for metric, cell in row.items():
      if isinstance(cell, _Interval):
        low, high = (_unscaled(metric, end, content.scale) for end in (cell.low, cell.high))
        intervals.setdefault(name, {})[metric] = low, high
  table = score_table.Table.of_rows(
    str(signature), rows, content.title, intervals=intervals, notes=tuple(content.notes), scale=content.scale
  )
  return dataclasses.replace(table, notes=table.own_notes)


def _unscaled(name: str, value: float, scale: int) -> float:
  """Returns a value of a file without the scale of its table; a count has none."""
  metric = metrics.METRICS.get(name)
  return value if metric is None else value / metric.factor(scale)
