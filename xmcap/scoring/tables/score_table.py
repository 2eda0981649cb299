"""The table of scores: one row per language, then the means, with the signature that reproduces them."""

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmcap import grid, languages, latex, markdown, spreadsheet
from xmcap.files import files
from xmcap.scoring import metrics
from xmcap.scoring.statistics import means as means_lib
from xmcap.scoring.tables import note_order
from xmcap.scoring.tables.papers import Papers
from xmcap.scoring.tables.signature import Signature
from xmcap.terminal import shown

Interval = tuple[float, float]

OF_COLUMNS, OF_BASELINES = "columns ", "baselines: "
"""Prefixes of notes about the columns beside; the latter about those of trivial captioners."""


@dataclasses.dataclass(frozen=True)
class TablePart:
  """The notes and the parts of the signature, name -> value, that one measure adds."""

  notes: Sequence[str] = ()
  signature: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Table:
  """Scores of one set of predictions.

  Attributes:
    signature: everything needed to get the same numbers from the same files.
    metrics: names of metrics, in the order of the columns.
    rows: language code -> {"images": count, "references": count, metric: score}; instead of references, zero-shot
      classification counts classes, retrieval captions or candidates, and tagging true tags. Retrieval has median
      ranks too, which are in no mean.
    means: name -> {metric: mean}. "35" averages the languages of COCO-35L and CC3M-35L (all but quz), "36" all, and
      "all but en" all of the 36 but English; each exists only if all of its languages do, "all but en" only beside
      "36". Any other set is named by its size, such as "3 languages". With classes, the means are those of
      Babel-ImageNet: see `means.mean_groups`.
    title: title for readers.
    intervals: language code or mean -> {metric: (low, high)}, 95% bootstrap intervals; {} if there are none.
    shares: heading -> {language code or mean: share in [0, 1]}, columns beside the scores, such as language fidelity.
    beside: heading -> {language code or mean: score}, columns to compare with, such as published scores.
    beside_intervals: heading -> {language code or mean: (low, high)}, those of `beside` that are known.
    published: rows of papers, each of texts under `model`, `paper` and `table` and of scores by language code or mean.
    notes: warnings for readers, such as missing predictions.
    scale: factor at which metrics that are not per cent already are shown and written. All attributes are without it.
  """

  signature: str
  metrics: tuple[str, ...]
  rows: dict[str, dict[str, float]]
  means: dict[str, dict[str, float]]
  title: str = ""
  intervals: dict[str, dict[str, Interval]] = dataclasses.field(default_factory=dict)
  shares: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
  beside: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
  beside_intervals: dict[str, dict[str, Interval]] = dataclasses.field(default_factory=dict)
  published: tuple[dict[str, str | float], ...] = ()
  notes: tuple[str, ...] = ()
  scale: int = 1

  @classmethod
  def of_rows(
    cls, signature: str, rows: Mapping[str, Mapping[str, float]], title: str = "", **more
  ) -> "Table":
    """Makes a table of the rows and their means; `more` are other attributes."""
    rows = {language: dict(rows[language]) for language in sorted(rows)}
    names = tuple(filter(means_lib.is_metric, next(iter(rows.values()))))
    means = {name: means_lib.mean(rows, codes) for name, codes in means_lib.mean_groups(rows).items()}
    return cls(signature, names, rows, means, title, **more)

  @property
  def counts(self) -> tuple[str, ...]:
    """Names of the counts in the rows."""
    return tuple(name for name in means_lib.COUNTS if name in next(iter(self.rows.values())))

  @property
  def medians(self) -> tuple[str, ...]:
    """Names of the median ranks in the rows."""
    return tuple(name for name in means_lib.MEDIANS if name in next(iter(self.rows.values())))

  @property
  def primary(self) -> str:
    """The metric to show if there is room for only one."""
    return primary(self.metrics)

  @property
  def scores(self) -> dict[str, dict[str, float]]:
    """Language code or mean -> scores: the rows, then the means."""
    return {**self.rows, **self.means}

  @property
  def mean(self) -> dict[str, float]:
    """The mean that stands for the table: the last, over all languages; of zero-shot, over those of the paper."""
    return list(self.means.values())[-1]

  @property
  def differences(self) -> dict[str, dict[str, float]]:
    """The primary metric minus each column of `beside`, where both have a score."""
    scores = {name: row[self.primary] for name, row in self.scores.items()}
    return {
      heading: {name: score - column[name] for name, score in scores.items() if name in column}
      for heading, column in self.beside.items()
    }

  @property
  def own_notes(self) -> tuple[str, ...]:
    """The notes about the scores themselves, not about columns beside."""
    return tuple(note for note in self.notes if not note.startswith((OF_COLUMNS, OF_BASELINES)))

  def as_json(self) -> str:
    """Returns `table.json`: signature, languages and means, in full precision at the table's scale."""
    factor = self.factor(self.primary)
    value = {
      "title": self.title,
      "signature": self.signature,
      "signature_short": Signature.parse(self.signature).short,
      "scale": self.scale,
      "metrics": list(self.metrics),
      "languages": {language: self._with_intervals(language, row) for language, row in self.rows.items()},
      "means": {name: self._with_intervals(name, mean) for name, mean in self.means.items()},
      "shares": self.shares,
      "beside": {heading: scaled(column, factor) for heading, column in self.beside.items()},
      "differences": {heading: scaled(column, factor) for heading, column in self.differences.items()},
      "published": [scaled(row, factor) for row in self.published],
      "notes": list(self.notes),
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

  def as_csv(self) -> str:
    """Returns CSV with a row per language and a row per mean (with empty counts), in full precision and scaled."""
    ends = [("low", 0), ("high", 1)] if self.intervals else []
    headings = ["language", *self.counts]
    for metric in self.metrics:
      headings += [metric, *(f"{metric}_{end}" for end, _ in ends)]
    rows = []
    for name, scores in self.scores.items():
      row = [name if name in self.rows else f"mean_{name.replace(' ', '_')}", *map(scores.get, self.counts)]
      for metric in self.metrics:
        factor = self.factor(metric)
        row += [factor * scores[metric], *(factor * self.intervals[name][metric][place] for _, place in ends)]
      row += [*map(scores.get, self.medians), *(column.get(name) for column in self.shares.values())]
      factor = self.factor(self.primary)
      for heading, column in self.beside.items():
        row += [scaled(cells, factor).get(name) for cells in (column, self.differences[heading])]
      rows.append(row)
    headings += [*self.medians, *self.shares]
    for heading in self.beside:
      headings += [heading, f"difference to {heading}"]
    return spreadsheet.table(headings, rows)

  def as_markdown(self) -> str:
    """Returns a Markdown table, with notes and signature below."""
    lines = [f"### {markdown.text(self.title)}\n\n"] if self.title else []
    lines += [table.markdown() + "\n" for table in self._grids()]
    lines += [f"- {markdown.text(note)}\n" for note in note_order.worst_first(self.notes)]
    return "".join([*lines, "\n" if self.notes else "", f"Signature: {markdown.code(self.signature)}\n"])

  def as_latex(self, style: latex.Style | None = None) -> str:
    """Returns a LaTeX `table` (package booktabs), with notes and signature as comments.

    The best of the primary metric and the columns beside is bold. Raises UsageError if the style names an unknown
    column; there are `latex_columns`.
    """
    style = dataclasses.replace(style or latex.Style(), scale=self.scale)
    columns = latex_columns(
      self.counts, (*self.metrics, *self.medians), tuple(self.shares), tuple(self.beside)
    )
    style.check(columns)
    chosen = style.chosen(columns)
    primary = functools.partial(self.shown, self.primary)
    of_mean = "" if "code" in chosen else "mean, "
    cells = dict(
      self._columns(
        primary, lambda value: f"{'-' if value < 0 else '+'}{primary(abs(value))}", of_mean=of_mean
      )
    )
    for name, column in cells.items():
      escaped = latex.text if name in latex.LABELS else latex.number
      cells[name] = {row: escaped(cell) for row, cell in column.items()}
    for row in self.scores:
      scores = {self.primary: self.scores[row][self.primary]}
      scores |= {heading: column[row] for heading, column in self.beside.items() if row in column}
      scores = {name: score for name, score in scores.items() if name in chosen}
      for name in latex.best(scores, {name: primary(score) for name, score in scores.items()}):
        cells[name][row] = latex.bold(cells[name][row])
    body, foot = (
      [[cells[name].get(row, "") for name in chosen] for row in part] for part in (self.rows, self.means)
    )
    spec = "".join("l" if name in latex.LABELS else "r" for name in chosen)
    table = latex.table(
      latex.tabular(spec, [*map(_heading, chosen)], body, foot),
      self.title or f"{metrics.METRICS[self.primary].heading} of each language",
      latex.label(self.title, "scores"),
      (style.comment, *self.notes, self.signature),
    )
    return table + (f"\n{self.papers.latex()}" if self.published else "")

  def terminal(self, out: str | os.PathLike = "") -> str:
    """Returns the table as text for a terminal, with the short signature; `out` is the folder where it is written."""
    rest = os.path.join(out, "table.md") if out else ""
    title = f"{shown(self.title, limit=None)}\n" if self.title else ""
    notes = note_order.terminal(self.notes, rest)
    grids = "".join(f"{table.text(rest)}\n" for table in self._grids())
    return f"{title}{grids}{notes}signature: {Signature.parse(self.signature).short}\n"

  def write(self, out: str | os.PathLike, style: latex.Style | None = None) -> None:
    """Writes `table.csv`, `.json`, `.md` and `.tex` (in the style) into a folder, which is made if necessary.

    Raises:
      XmcapError: the folder cannot be written.
    """
    files.write_forms(
      out, "table", csv=self.as_csv(), json=self.as_json(), md=self.as_markdown(), tex=self.as_latex(style)
    )

  def cell(self, name: str, metric: str, shown_as: Callable[[float], str] | None = None) -> str:
    """Returns the score of a language or mean for display, such as `0.584 [0.560, 0.610]`."""
    shown_as = shown_as or functools.partial(self.shown, metric)
    return _with_interval(shown_as, self.scores[name][metric], self.intervals.get(name, {}).get(metric))

  def cell_beside(self, name: str, heading: str, shown_as: Callable[[float], str]) -> str:
    """Returns the same of a column beside; `-` if it has no score."""
    if name not in self.beside[heading]:
      return "-"
    ends = self.beside_intervals.get(heading, {}).get(name)
    return _with_interval(shown_as, self.beside[heading][name], ends)

  @property
  def papers(self) -> Papers:
    """The rows of papers below this table's own scores in the primary metric."""
    names = [name for name in self.scores if any(name in row for row in self.published)]
    own = {"model": self.title or "this table", **{name: self.scores[name][self.primary] for name in names}}
    labels = {name: mean_label(name) if name in self.means else name for name in names}
    return Papers((own, *self.published), labels, metrics.METRICS[self.primary], self.scale)

  def factor(self, metric: str) -> int:
    """Returns the factor at which the table shows a metric."""
    return metrics.METRICS[metric].factor(self.scale)

  def shown(self, metric: str, score: float) -> str:
    """Returns a score of a metric as the table shows it."""
    return metrics.METRICS[metric].format(score, self.scale)

  def _grids(self) -> list[grid.Grid]:
    """Returns the table, and the rows of papers if there are any."""
    return [self._grid(), *([self.papers.grid()] if self.published else [])]

  def _grid(self) -> grid.Grid:
    percent = metrics.METRICS[self.primary].percent
    factor, unit = (100, "%") if percent else (self.factor(self.primary), "")
    digits = 2 if percent else 1 if factor == 100 else 3

    columns = self._columns(
      lambda score: f"{factor * score:.{digits}f}{unit}",
      lambda value: f"{factor * value:+.{digits}f}",
      no_difference="-",
    )
    body, foot = (
      tuple(tuple(cells.get(row, "") for _, cells in columns) for row in part)
      for part in (self.rows, self.means)
    )
    others = [metrics.METRICS[name].heading for name in reversed(self.metrics) if name != self.primary]
    headings = tuple(_heading(name) for name, _ in columns)
    return grid.Grid(
      headings,
      body,
      foot,
      num_labels=2,
      spare=(*self.shares, *self.counts, *map(_heading, self.medians), *others),
    )

  def _columns(
    self,
    shown_as: Callable[[float], str],
    signed: Callable[[float], str],
    no_difference: str = "",
    of_mean: str = "",
  ) -> list[tuple[str, dict[str, str]]]:
    """Returns (name, row -> cell) of all columns, which `latex_columns` names; a row without a cell has an empty one.

    `shown_as` and `signed` show a score of a column beside and the difference to it, `no_difference` stands where there
    is none, and `of_mean` before the name of a mean.
    """
    columns = [
      ("code", {row: row if row in self.rows else "mean" for row in self.scores}),
      ("language", {row: self._row_label(row, of_mean) for row in self.scores}),
    ]
    for count in self.counts:
      columns.append((count, {row: f"{scores[count]:,}" for row, scores in self.rows.items()}))
    for metric in self.metrics:
      columns.append((metric, {row: self.cell(row, metric) for row in self.scores}))
    for median in self.medians:
      columns.append((median, {row: shown_rank(scores[median]) for row, scores in self.rows.items()}))
    for heading, shares in self.shares.items():
      columns.append((heading, {row: f"{shares[row]:.1%}" if row in shares else "-" for row in self.scores}))
    for heading in self.beside:
      columns.append((heading, {row: self.cell_beside(row, heading, shown_as) for row in self.scores}))
      cells = dict.fromkeys(self.scores, no_difference)
      cells |= {row: signed(difference) for row, difference in self.differences[heading].items()}
      columns.append((f"difference to {heading}", cells))
    return columns

  def _row_label(self, row: str, of_mean: str) -> str:
    return languages.get(row).english_name if row in self.rows else f"{of_mean}{mean_label(row)}"

  def _with_intervals(self, name: str, scores: Mapping[str, float]) -> dict:
    cells: dict[str, float | dict[str, float]] = dict(scores)
    for metric in self.metrics:
      factor = self.factor(metric)
      cells[metric] = scores[metric] * factor
      if metric in self.intervals.get(name, {}):
        low, high = self.intervals[name][metric]
        cells[metric] = {"score": scores[metric] * factor, "low": low * factor, "high": high * factor}
    return cells


def _with_interval(shown_as: Callable[[float], str], score: float, ends: Interval | None) -> str:
  return shown_as(score) + (f" [{shown_as(ends[0])}, {shown_as(ends[1])}]" if ends else "")


def scaled(scores: Mapping[str, Any], factor: int) -> dict[str, Any]:
  """Returns the scores times a factor; texts stay."""
  return {name: score if isinstance(score, str) else score * factor for name, score in scores.items()}


def primary(metrics: Sequence[str]) -> str:
  """Returns the metric to show if there is room for only one: CIDEr-D, or else the first."""
  return "cider_d" if "cider_d" in metrics else metrics[0]


def mean_label(name: str) -> str:
  """Returns the name of a mean for display: `35 languages (all but quz)`, `all 36 languages`, `3 languages`.

  It does not say "trained", because a table does not know the training languages of its system.
  """
  return {"35": "35 languages (all but quz)", "36": "all 36 languages"}.get(name, name)


def latex_columns(
  counts: Sequence[str], metrics: Sequence[str], shares: Sequence[str], beside: Sequence[str]
) -> tuple[str, ...]:
  """Returns the names of the columns of a table in LaTeX."""
  of_beside = itertools.chain.from_iterable((heading, f"difference to {heading}") for heading in beside)
  return (*latex.LABELS, *counts, *metrics, *shares, *of_beside)


def _heading(name: str) -> str:
  if name == "code":
    return ""
  if name.startswith("difference to "):
    return "difference"
  return metrics.METRICS[name].heading if name in metrics.METRICS else means_lib.MEDIANS.get(name, name)


def shown_rank(median: float) -> str:
  """Returns a median rank as tables show it."""
  return f"{median:,.1f}"


def column(rows: Mapping[str, Mapping[str, float]], scores: Mapping[str, float]) -> dict[str, float]:
  """Returns a column for `Table.beside`: scores of languages, and those means for which no language is missing."""
  cells = {language: scores[language] for language in rows if language in scores}
  for name, members in means_lib.mean_groups(rows).items():
    if all(language in scores for language in members):
      cells[name] = sum(scores[language] for language in members) / len(members)
  return cells
