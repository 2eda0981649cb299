"""Correlation of zero-shot accuracy with retrieval, or with counts of languages, over models and languages.

Geigle et al., "Babel-ImageNet" (ACL 2024): Figure 3, where a point is a model and a language, English included, and
text-to-image R@1 stands against top-1; Figures 4 and 7, where the number of classes and top-1 stand against the
logarithm of how much text in the language a model was trained on.
"""

import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap import grid, languages, spreadsheet, wording
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.papers import babel_imagenet_languages
from xmcap.progress import Say
from xmcap.ranked import babel_baselines, retrieval_sets
from xmcap.reading import tables
from xmcap.reading.inputs import Input
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics import correlation
from xmcap.scoring.tables.signature import Signature
from xmcap.terminal import shown

_COUNT = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[0-9]{1,2})?")
_LOG = "log10 of the count"
_METRICS = {"zero_shot": "top1", "retrieval": "t2i_r1"}
_TEST_SET = (
  "images",
  "targets",
)  # parts of a signature; the others may differ between models or by languages


@dataclasses.dataclass(frozen=True)
class Points:
  """Two numbers of the same models in the same languages: (model, language code, x, y), under `headings`."""

  rows: tuple[tuple[str, str, float, float], ...]
  headings: tuple[str, str] = ("top1", "t2i_r1")

  def coefficients(self, resamples: int = 0, seed: int = 0) -> dict[str, correlation.Correlation]:
    """Returns name -> coefficient over all points; with resamples, intervals over them."""
    values = np.array([row[2:] for row in self.rows])
    return correlation.correlate(values[:, 0], values[:, 1], None, resamples, seed)

  def write(
    self, out: str | os.PathLike, cells: dict[str, correlation.Correlation], prefix: str = ""
  ) -> None:
    """Writes `points.csv`, with a row per point, and `correlation.csv` and `.md` into a folder, with a prefix."""
    headings = ["model", "language", *self.headings]
    files.write_text(pathlib.Path(out, f"{prefix}points.csv"), spreadsheet.table(headings, self.rows))
    table = self.grid(cells)
    rows = [[name, cell.value, cell.low, cell.high, len(self.rows)] for name, cell in cells.items()]
    csv = spreadsheet.table(["coefficient", "value", "low", "high", "points"], rows)
    markdown = "\n".join([table.markdown(), *(f"{note}\n" for note in self.notes())])
    files.write_forms(out, f"{prefix}correlation", csv=csv, md=markdown)

  def notes(self) -> list[str]:
    """Returns a note if there are too few points."""
    return correlation.too_few(len(self.rows))

  def grid(self, cells: dict[str, correlation.Correlation]) -> grid.Grid:
    """Returns the coefficients as a table."""
    return grid.Grid(
      (f"{self.headings[0]} and {self.headings[1]}", "value", "points"),
      tuple(
        (correlation.COEFFICIENTS[name], _shown(cell), f"{len(self.rows):,}") for name, cell in cells.items()
      ),
    )


def points(
  zero_shot: Sequence[str], retrieval: Sequence[str], paper: str = "", say: Say = lambda line: None
) -> Points:
  """Pairs the tables of models.

  Args:
    zero_shot, retrieval: folders of `xmcap score zero-shot` and `xmcap score retrieval`, a pair a model, in the same
      order. Languages that only one of the two has are left out, and named to `say`.
    paper: one of `retrieval_sets.SETS`, whose printed points of the paper's models are added; "": none.

  Raises:
    UsageError: the numbers of folders differ, one has no such scores, the models of a task were scored on other
      images, or fewer than two points are left.
  """
  if len(zero_shot) != len(retrieval):
    raise UsageError(
      f"--zero_shot names {len(zero_shot)} folders and --retrieval {len(retrieval)}; give one of each for each model"
    )
  _check_test_set("zero_shot", zero_shot)
  _check_test_set("retrieval", retrieval)
  rows: list[tuple[str, str, float, float]] = []
  for name, *folders in zip(_models(zero_shot), zero_shot, retrieval, strict=True):
    accuracy, recall = (_scores(folder, kind) for folder, kind in zip(folders, _METRICS, strict=True))
    for folder, own, others in ((folders[0], accuracy, recall), (folders[1], recall, accuracy)):
      if absent := [language for language in others if language not in own]:
        say(f"{folder}: no scores in {', '.join(absent)}, which are left out")
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


def of_counts(
  zero_shot: Sequence[str], models: Sequence[str], counts: Mapping[str, float]
) -> dict[str, Points]:
  """Pairs top-1, and the numbers of classes, with the decimal logarithm of a count of each language.

  Args:
    zero_shot: folders of `xmcap score zero-shot`, one a model. Languages without a count are left out.
    models: models of the paper, whose printed accuracies are added.
    counts: language code -> a number above 0.

  Returns:
    Prefix of the files -> points: "" for top-1, `classes_` for the classes, of which each language has one point.

  Raises:
    UsageError: a folder has no such scores, there is no such model, or fewer than two points are left.
  """
  _check_test_set("zero_shot", zero_shot)
  accuracies, classes = {}, {}
  for name, folder in zip(_models(zero_shot), zero_shot, strict=True):
    accuracies[name] = _scores(folder, "zero_shot")
    classes |= _scores(folder, "zero_shot", "classes")
  printed = babel_baselines.zero_shot()
  for model in models:
    if model not in printed:
      raise UsageError(f"--baseline={model}: no model of the paper; there are {', '.join(printed)}")
    accuracies[model] = printed[model]
    classes |= {**babel_imagenet_languages.classes(), "en": 1000}
  logarithms = {language: math.log10(count) for language, count in counts.items()}
  rows = [
    (model, language, top1, logarithms[language])
    for model, of_model in accuracies.items()
    for language, top1 in of_model.items()
    if language in logarithms
  ]
  of_classes = [
    ("", language, float(count), logarithms[language])
    for language, count in classes.items()
    if language in logarithms
  ]
  if len(of_classes) < 2:
    raise UsageError(
      "fewer than two languages with a count: give --zero_shot or --baseline, and their languages"
    )
  return {
    "": Points(tuple(rows), ("top1", _LOG)),
    "classes_": Points(tuple(of_classes), ("classes", _LOG)),
  }


def read_counts(path: str | os.PathLike) -> dict[str, float]:
  """Reads CSV with the columns `language` and `count`; UsageError for an unknown or repeated language, or a count."""
  counts: dict[str, float] = {}
  with Input(path) as source:
    for number, cells in tables.cells(source):
      where = f"{path}, line {number}"
      if number == 1:
        if sorted(cells) != ["count", "language"]:
          raise UsageError(f"{where}: the header must be language,count")
        order = [cells.index("language"), cells.index("count")]
        continue
      name, text = (cells[place].strip() for place in order)
      language = languages.of_wikipedia(name)
      if language is None or language in counts:
        kind = "is repeated; give the sum" if language else "is no language"
        raise UsageError(f"{where}: '{shown(name)}' {kind}")
      if not _COUNT.fullmatch(text) or not float(text) > 0:
        raise UsageError(f"{where}: '{shown(text)}' is no count above 0")
      counts[language] = float(text)
  return counts


def _models(folders: Sequence[str]) -> list[str]:
  """Returns a name for the model of each folder; UsageError if a folder is given twice."""
  names = wording.names_of_paths([str(pathlib.Path(folder).resolve()) for folder in folders])
  if twice := wording.repeated(names):
    raise UsageError(f"--zero_shot: '{shown(twice[0])}' is given twice; give a folder for each model")
  return names


def _check_test_set(kind: str, folders: Sequence[str]) -> None:
  """Raises UsageError if the signatures of the tables of a task name other images or targets than the first's."""
  signed = [
    Signature.parse(read_table(pathlib.Path(folder, "table.json")).signature).parts for folder in folders
  ]
  for folder, parts in zip(folders, signed, strict=True):
    for name in _TEST_SET:
      if parts.get(name) != signed[0].get(name):
        raise UsageError(
          f"--{kind}={folder}: scored on other pictures than {folders[0]} ({name}: {parts.get(name)} against "
          f"{signed[0].get(name)}); score all models on one set"
        )


def _scores(folder: str, kind: str, column: str = "") -> dict[str, float]:
  """Returns language code -> the metric of a task, or another column of its table."""
  table = read_table(pathlib.Path(folder, "table.json"))
  metric = _METRICS[kind]
  if metric not in table.metrics:
    raise UsageError(f"--{kind}={folder}: its table has no {metric}; it has {', '.join(table.metrics)}")
  return {language: row[column or metric] for language, row in table.rows.items()}


def _shown(cell: correlation.Correlation) -> str:
  if cell.value is None:
    return "-"
  ends = "" if cell.low is None else f" [{cell.low:.3f}, {cell.high:.3f}]"
  return f"{cell.value:.3f}{ends}"
