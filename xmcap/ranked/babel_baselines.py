"""Scores of Babel-ImageNet's twelve models beside those of a table, as printed in Geigle et al. (ACL 2024)."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from xmcap import languages, papers
from xmcap.errors import UsageError
from xmcap.papers import babel_imagenet_languages
from xmcap.ranked import retrieval_sets
from xmcap.scoring import baselines
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table

PAPER = "paper"
_ZERO_SHOT, _SOURCE = "babel_imagenet_tables8_9", "Geigle et al., 2024"
_MOST_COLUMNS = 12  # languages that are shown one by one

S = TypeVar("S", bound=System)
Cells = dict[str, dict[str, float]]
"""Name of a model -> language code -> share in [0, 1]."""


def with_baseline(system: S, baseline: str | os.PathLike, keys: Iterable[str] = ()) -> S:
  """Returns the system with others' scores in its table.

  Args:
    system: scores of zero-shot classification, or of retrieval.
    baseline: `paper`, for a row of each model with its means, and its languages if they are few; the name of one model,
      for a column beside the languages; or a folder of the same command, for its column.
    keys: keys of the images of retrieval.

  Raises:
    UsageError: these are not the paper's labels or none of its sets of images, or there is no such model or folder.
  """
  name, table = str(baseline), system.table
  if name != PAPER and os.path.exists(name):
    return baselines.with_beside(system, baselines.read_baseline(name, table.primary))
  cells, number = _cells(table, keys)
  if name != PAPER and name not in cells:
    raise UsageError(f"--baseline={name}: no folder and no model of the paper; there are {', '.join(cells)}")
  if name != PAPER:
    column = {f"{name} ({_SOURCE})": score_table.column(table.rows, cells[name])}
    note = f"{score_table.OF_COLUMNS}{name} ({_SOURCE}): Table {number}, as printed"
    with_column = dataclasses.replace(table, beside={**table.beside, **column}, notes=(*table.notes, note))
    return dataclasses.replace(system, table=with_column)
  shown = {*table.means, *(table.rows if len(table.rows) <= _MOST_COLUMNS else ("en",))}
  rows: list[dict[str, str | float]] = []
  for model, scores in cells.items():
    row = {place: score for place, score in score_table.column(table.rows, scores).items() if place in shown}
    rows.append({"model": model, "paper": _SOURCE, "table": number, **row})
  note = (
    f"rows of {_SOURCE}: the printed scores, and their means over the languages of this table; M-CLIP's are of the "
    "dot product, so compare with care"
  )
  return dataclasses.replace(
    system, table=dataclasses.replace(table, published=tuple(rows), notes=(*table.notes, note))
  )


def zero_shot() -> Cells:
  """Returns the printed top-1 accuracy of Tables 8 and 9."""
  return _printed(_ZERO_SHOT)


def retrieval(name: str) -> Cells:
  """Returns the printed text-to-image R@1 on one of `retrieval_sets.SETS`; {} if the paper has none."""
  table = retrieval_sets.SETS[name].table
  return _printed(table) if table else {}


def _cells(table: score_table.Table, keys: Iterable[str]) -> tuple[Cells, str]:
  """Returns the printed scores for the primary metric of a table, and the number of their table in the paper."""
  if table.primary == "top1":
    counts: Mapping[str, float] = {language: row["classes"] for language, row in table.rows.items()}
    if not babel_imagenet_languages.is_paper(counts):
      raise UsageError(
        "--baseline: these classes are not those of Babel-ImageNet's labels: leave it out, or give its own file"
      )
    return zero_shot(), "8, 9"
  name = retrieval_sets.recognise(keys)
  cells = retrieval(name) if name else {}
  if not cells or table.primary != "t2i_r1":
    titles = ", ".join(test_set.title for test_set in retrieval_sets.SETS.values() if test_set.table)
    raise UsageError(
      f"--baseline: the paper has R@1 on the pictures of {titles}; these are others, or R@1 is not scored: leave it out"
    )
  return cells, retrieval_sets.SETS[name].number


def _printed(name: str) -> Cells:
  """Returns the numbers of a table without its averages."""
  cells: Cells = {}
  for (model, language), percent in papers.cells(name).items():
    if language != "average":
      cells.setdefault(model, {})[languages.canonical(language) or language] = percent / 100
  return cells
