"""An evaluator's rows of a table of scores; imports no jax, as a process that only scores does not need it."""

from collections.abc import Iterator

from xmcap.reading.predictions import Predictions
from xmcap.reading.references import References
from xmcap.scoring.options import ScoringOptions
from xmcap.scoring.score import score_captions
from xmcap.scoring.tables.score_table import Table


def of_captions(
  references: References, predictions: Predictions, options: ScoringOptions, prefix: str
) -> Iterator[tuple[str, str, float]]:
  """Scores captions, and yields `rows` of their table."""
  yield from rows(score_captions(references, predictions, options).table, prefix)


def rows(table: Table, prefix: str) -> Iterator[tuple[str, str, float]]:
  """Yields (language, metric, score) with a prefix before the metric, and the table's mean as the language `mean`."""
  for language, row in {**table.rows, "mean": table.mean}.items():
    for name in table.metrics:
      yield language, f"{prefix}{name}", row[name]
