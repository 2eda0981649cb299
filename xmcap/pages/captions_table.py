"""Tables of captions for a spreadsheet or a script: captions.csv with scores and faults, and a row for each picture."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from xmcap.progress import Say
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


def wide(
  languages: Sequence[str], captions: Iterable[tuple[str, Mapping[str, str]]], say: Say
) -> Iterator[str]:
  """Yields a CSV with a row for each image (key, {language: caption}) and a column for each language.

  It begins and is protected as `lines`; `say` gets a line on how many cells have an apostrophe.
  """
  protected = 0
  yield "\ufeff" + ",".join(["image/key", *languages]) + "\n"
  for key, of_image in captions:
    texts = [key, *(of_image.get(language, "") for language in languages)]
    protected += sum(text.startswith(_FORMULA) for text in texts)
    yield ",".join(map(_cell, texts)) + "\n"
  if protected:
    say(f"{protected:,} cells begin as formulas do, and have an apostrophe before them: score .jsonl instead")


def _cell(text: str) -> str:
  text = text.replace('"', '""')
  return f'"\'{text}"' if text.startswith(_FORMULA) else f'"{text}"'


def _faults(health: Health, count: int) -> list[str]:
  names = [""] * count
  for fault in FAULTS:
    for row in health.rows[fault].tolist() if fault in health.rows else ():
      names[row] += f";{fault}" if names[row] else fault
  return names
