"""Tables of captions for a spreadsheet or a script: captions.csv with scores and faults, and a row for each picture."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from xmcap import spreadsheet
from xmcap.progress import Say
from xmcap.scoring.health import Health
from xmcap.scoring.health.faults import FAULTS
from xmcap.scoring.result import Result

_DECIMALS = 4


def lines(result: Result) -> Iterator[str]:
  """Yields the CSV in pieces, a row for each language and image.

  Texts are those of `spreadsheet`. The faults are names of `FAULTS`, separated by `;`, of captions whose health was
  measured. Scores are those of the image at the table's scale, rounded: scores.npz has all digits.
  """
  table = result.table
  headings = ["image/key", "language", "caption", *table.metrics, *(["faults"] if result.health else [])]
  yield spreadsheet.header(headings)
  cells: dict[str, str] = {}
  for language, of_language in result.statistics.items():
    keys = of_language.keys
    cells |= {key: spreadsheet.cell(key) for key in keys if key not in cells}
    columns: list[Iterable[str]] = [
      map(cells.__getitem__, keys),
      itertools.repeat(language, len(keys)),
      [spreadsheet.cell(result.predictions[key][language]) for key in keys],
    ]
    for metric in table.metrics:
      scores = np.round(table.factor(metric) * of_language.image_scores(metric), _DECIMALS)
      columns.append(map(repr, scores.tolist()))
    if result.health:
      columns.append(map(spreadsheet.cell, _faults(result.health[language], len(keys))))
    yield "\n".join([*map(",".join, zip(*columns, strict=True)), ""])


def wide(
  languages: Sequence[str], captions: Iterable[tuple[str, Mapping[str, str]]], say: Say
) -> Iterator[str]:
  """Yields a CSV with a row for each image (key, {language: caption}) and a column for each language.

  Texts are those of `spreadsheet`; `say` gets a line on how many cells have an apostrophe.
  """
  protected = 0
  yield spreadsheet.header(["image/key", *languages])
  for key, of_image in captions:
    texts = [key, *(of_image.get(language, "") for language in languages)]
    protected += sum(spreadsheet.shown(text) != text for text in texts)
    yield ",".join(map(spreadsheet.cell, texts)) + "\n"
  if protected:
    why = "begin as formulas do, and have an apostrophe before them"
    say(f"{protected:,} cells {why}, which xmcap takes off again; --raw writes none")


def _faults(health: Health, count: int) -> list[str]:
  names = [""] * count
  for fault in FAULTS:
    for row in health.rows[fault].tolist() if fault in health.rows else ():
      names[row] += f";{fault}" if names[row] else fault
  return names
