"""Correlation of zero-shot accuracy with retrieval over models and languages, as in Figure 3 of Babel-ImageNet.

Geigle et al. (ACL 2024): a point is a model and a language, English included; text-to-image R@1 against
top-1.
"""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from xmcap import grid, spreadsheet
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.ranked import babel_baselines, retrieval_sets
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics import correlation

_METRICS = {"zero_shot": "top1", "retrieval": "t2i_r1"}


@dataclasses.dataclass(frozen=True)
class Points:
  """Scores of the same models in the same languages, each in [0, 1]: (model, language code, accuracy, recall)."""

  rows: tuple[tuple[str, str, float, float], ...]

  def coefficients(self, resamples: int = 0, seed: int = 0) -> dict[str, correlation.Correlation]:
    """Returns name -> coefficient over all points; with resamples, intervals over them."""
    values = np.array([row[2:] for row in self.rows])
    return correlation.correlate(values[:, 0], values[:, 1], None, resamples, seed)

  def write(self, out: str | os.PathLike, cells: dict[str, correlation.Correlation]) -> None:
    """Writes `points.csv`, with a row per point, and `correlation.csv` and `.md` into a folder."""
    files.write_text(
      pathlib.Path(out, "points.csv"), spreadsheet.table(["model", "language", "top1", "t2i_r1"], self.rows)
    )
    table = self.grid(cells)
    rows = [[name, cell.value, cell.low, cell.high, len(self.rows)] for name, cell in cells.items()]
    csv = spreadsheet.table(["coefficient", "value", "low", "high", "points"], rows)
    files.write_forms(out, "correlation", csv=csv, md=table.markdown())

  def grid(self, cells: dict[str, correlation.Correlation]) -> grid.Grid:
    """Returns the coefficients as a table."""
    return grid.Grid(
      ("", "value", "points"),
      tuple(
        (correlation.COEFFICIENTS[name], _shown(cell), f"{len(self.rows):,}") for name, cell in cells.items()
      ),
    )


def points(zero_shot: Sequence[str], retrieval: Sequence[str], paper: str = "") -> Points:
  """Pairs the tables of models.

  Args:
    zero_shot, retrieval: folders of `xmcap score zero-shot` and `xmcap score retrieval`, a pair a model, in the same
      order. Languages that only one of the two has are left out.
    paper: one of `retrieval_sets.SETS`, whose printed points of the paper's models are added; "": none.

  Raises:
    UsageError: the numbers of folders differ, one has no such scores, or fewer than two points are left.
  """
  if len(zero_shot) != len(retrieval):
    raise UsageError(
      f"--zero_shot names {len(zero_shot)} folders and --retrieval {len(retrieval)}; give one of each for each model"
    )
  rows: list[tuple[str, str, float, float]] = []
  for folders in zip(zero_shot, retrieval, strict=True):
    accuracy, recall = (_scores(folder, kind) for folder, kind in zip(folders, _METRICS, strict=True))
    name = pathlib.Path(folders[0]).resolve().name
    rows += [
      (name, language, accuracy[language], recall[language]) for language in recall if language in accuracy
    ]
  if paper:
    recalls = babel_baselines.retrieval(paper)
    if not recalls:
      choices = ", ".join(name for name, test_set in retrieval_sets.SETS.items() if test_set.table)
      raise UsageError(f"--paper={paper}: the paper has no scores on it; there are {choices}")
    accuracies = babel_baselines.zero_shot()
    rows += [
      (model, language, accuracies[model][language], recall)
      for model, of_model in recalls.items()
      for language, recall in of_model.items()
      if language in accuracies[model]
    ]
  if len(rows) < 2:
    raise UsageError("fewer than two pairs of scores: give folders with the same languages, or --paper")
  return Points(tuple(rows))


def _scores(folder: str, kind: str) -> dict[str, float]:
  table = read_table(pathlib.Path(folder, "table.json"))
  metric = _METRICS[kind]
  if metric not in table.metrics:
    raise UsageError(f"--{kind}={folder}: its table has no {metric}; it has {', '.join(table.metrics)}")
  return {language: row[metric] for language, row in table.rows.items()}


def _shown(cell: correlation.Correlation) -> str:
  if cell.value is None:
    return "-"
  ends = "" if cell.low is None else f" [{cell.low:.3f}, {cell.high:.3f}]"
  return f"{cell.value:.3f}{ends}"
