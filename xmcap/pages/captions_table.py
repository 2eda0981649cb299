"""captions.csv: every scored caption with its scores and faults, for a spreadsheet or a script."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from xmcap.scoring.health import Health
from xmcap.scoring.health.faults import FAULTS
from xmcap.scoring.result import Result

# A spreadsheet takes a cell that begins so for a formula, which may even send the table somewhere (OWASP, "CSV
# Injection"); the last four are the wide forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_DECIMALS = 4


def lines(result: Result) -> Iterator[str]:
  """Yields the CSV in pieces, a row for each language and image.

  It begins with a byte order mark, without which Excel does not read UTF-8. A key or caption that a spreadsheet would
  take for a formula has an apostrophe before it. The faults are names of `FAULTS`, separated by `;`, of captions whose
  health was measured. Scores are those of the image at the table's scale, rounded: scores.npz has all digits.
  """
  table = result.table
  headings = ["image/key", "language", "caption", *table.metrics, *(["faults"] if result.health else [])]
  yield "\ufeff" + ",".join(headings) + "\n"
  cells: dict[str, str] = {}
  for language, of_language in result.statistics.items():
    keys = of_language.keys
    cells |= {key: _cell(key) for key in keys if key not in cells}
    columns: list[Iterable[str]] = [
      map(cells.__getitem__, keys),
      itertools.repeat(language, len(keys)),
      [_cell(result.predictions[key][language]) for key in keys],
    ]
    for metric in table.metrics:
      scores = np.round(table.factor(metric) * of_language.image_scores(metric), _DECIMALS)
      columns.append(map(repr, scores.tolist()))
    if result.health:
      columns.append(_faults(result.health[language], len(keys)))
    # Faster than the module csv, in which every cell is looked at for what needs quotation marks.
    yield "\n".join([*map(",".join, zip(*columns, strict=True)), ""])


def _cell(text: str) -> str:
  text = text.replace('"', '""')
  return f'"\'{text}"' if text.startswith(_FORMULA) else f'"{text}"'


def _faults(health: Health, count: int) -> list[str]:
  names = [""] * count
  for fault in FAULTS:
    for row in health.rows[fault].tolist() if fault in health.rows else ():
      names[row] += f";{fault}" if names[row] else fault
  return names
