"""The table of scores: one row per language, then the means, with the signature that reproduces them."""

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.scoring import files, metrics
from xmcap.scoring.writing import grid
from xmcap.scoring.writing.signature import Signature
from xmcap.terminal import shown

Interval = tuple[float, float]

COUNTS = ("images", "references", "classes", "captions", "tags", "candidates")
"""The entries of a row that are counts, not metrics."""

CLASS_GROUPS = (100, 333, 666, math.inf)
"""Upper limits for the number of classes in Babel-ImageNet's groups of languages: very low, low, mid and high."""

OF_COLUMNS = "columns "
"""Prefix of notes about the columns beside."""


@dataclasses.dataclass(frozen=True)
class Table:
  """Scores of one set of predictions.

  Attributes:
    signature: everything needed to get the same numbers from the same files.
    metrics: names of metrics, in the order of the columns.
    rows: language code -> {"images": count, "references": count, metric: score}; instead of references, zero-shot
      classification counts classes, retrieval captions or candidates, and tagging true tags.
    means: name -> {metric: mean}. "35" averages the languages of COCO-35L and CC3M-35L, "36" all; each exists only if
      all of its languages do. Any other set is named by its size, such as "3 languages". With classes, the means are
      those of Babel-ImageNet: see `mean_groups`.
    title: title for readers.
    intervals: language code or mean -> {metric: (low, high)}, 95% bootstrap intervals; {} if there are none.
    shares: heading -> {language code or mean: share in [0, 1]}, columns beside the scores, such as language fidelity.
    beside: heading -> {language code or mean: score}, columns to compare with, such as published scores.
    notes: warnings for readers, such as missing predictions.
  """

  signature: str
  metrics: tuple[str, ...]
  rows: dict[str, dict[str, float]]
  means: dict[str, dict[str, float]]
  title: str = ""
  intervals: dict[str, dict[str, Interval]] = dataclasses.field(default_factory=dict)
  shares: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
  beside: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
  notes: tuple[str, ...] = ()

  @classmethod
  def of_rows(
    cls, signature: str, rows: Mapping[str, Mapping[str, float]], title: str = "", **more
  ) -> "Table":
    """Makes a table of the rows and their means; `more` are other attributes."""
    rows = {code: dict(rows[code]) for code in sorted(rows)}
    names = tuple(name for name in next(iter(rows.values())) if name not in COUNTS)
    means = {name: mean(rows, codes) for name, codes in mean_groups(rows).items()}
    return cls(signature, names, rows, means, title, **more)

  @property
  def counts(self) -> tuple[str, ...]:
    """Names of the counts in the rows."""
    return tuple(name for name in COUNTS if name in next(iter(self.rows.values())))

  @property
  def primary(self) -> str:
    """The metric to show if there is room for only one."""
    return primary(self.metrics)

  @property
  def scores(self) -> dict[str, dict[str, float]]:
    """Language code or mean -> scores: the rows, then the means."""
    return {**self.rows, **self.means}

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
    return tuple(note for note in self.notes if not note.startswith(OF_COLUMNS))

  def as_json(self) -> str:
    """Returns `table.json`: signature, languages and means, in full precision."""
    value = {
      "title": self.title,
      "signature": self.signature,
      "signature_short": Signature.parse(self.signature).short,
      "metrics": list(self.metrics),
      "languages": {code: self._with_intervals(code, row) for code, row in self.rows.items()},
      "means": {name: self._with_intervals(name, mean) for name, mean in self.means.items()},
      "shares": self.shares,
      "beside": self.beside,
      "differences": self.differences,
      "notes": list(self.notes),
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

  def as_csv(self) -> str:
    """Returns CSV with a row per language and a row per mean (with empty counts), in full precision."""
    ends = [("low", 0), ("high", 1)] if self.intervals else []
    headings = ["language", *self.counts]
    for metric in self.metrics:
      headings += [metric, *(f"{metric}_{end}" for end, _ in ends)]
    rows = []
    for name, scores in self.scores.items():
      row = [name if name in self.rows else f"mean_{name.replace(' ', '_')}", *map(scores.get, self.counts)]
      for metric in self.metrics:
        row += [scores[metric], *(self.intervals[name][metric][place] for _, place in ends)]
      row += [column.get(name) for column in self.shares.values()]
      for heading, column in self.beside.items():
        row += [column.get(name), self.differences[heading].get(name)]
      rows.append(row)
    headings += self.shares
    for heading in self.beside:
      headings += [heading, f"difference to {heading}"]
    return grid.write_csv(headings, rows)

  def as_markdown(self) -> str:
    """Returns a Markdown table, with notes and signature below."""
    lines = [f"### {grid.markdown_text(self.title)}\n\n"] if self.title else []
    lines += [self._grid().markdown(), "\n"]
    lines += [f"- {grid.markdown_text(note)}\n" for note in self.notes]
    return "".join([*lines, "\n" if self.notes else "", f"Signature: `{self.signature}`\n"])

  def as_latex(self) -> str:
    """Returns a LaTeX `tabular` (package booktabs), with title, notes and signature as comments."""
    comments = filter(None, [self.title, *self.notes, self.signature])
    return "".join(f"% {' '.join(comment.split())}\n" for comment in comments) + self._grid().latex()

  def terminal(self) -> str:
    """Returns the table as text for a terminal, with the short signature."""
    title = f"{shown(self.title, limit=None)}\n" if self.title else ""
    notes = "".join(f"note: {shown(note, limit=None)}\n" for note in self.notes)
    return f"{title}{self._grid().text()}\n{notes}signature: {Signature.parse(self.signature).short}\n"

  def write(self, out: str | os.PathLike) -> None:
    """Writes `table.csv`, `.json`, `.md` and `.tex` into a folder, which is made if necessary.

    Raises:
      XmcapError: the folder cannot be written.
    """
    files.write_forms(
      out, "table", csv=self.as_csv(), json=self.as_json(), md=self.as_markdown(), tex=self.as_latex()
    )

  def cell(self, name: str, metric: str) -> str:
    """Returns the score of a language or mean for display, such as `0.584 [0.560, 0.610]`."""
    shown_as = metrics.METRICS[metric].format
    text = shown_as(self.scores[name][metric])
    if metric not in self.intervals.get(name, {}):
      return text
    low, high = map(shown_as, self.intervals[name][metric])
    return f"{text} [{low}, {high}]"

  def _grid(self) -> grid.Grid:
    def row(name: str, label: str, language: str, counts: tuple[str, ...]) -> tuple[str, ...]:
      beside = [f"{column[name]:.1%}" if name in column else "-" for column in self.shares.values()]
      for heading, column in self.beside.items():
        difference = self.differences[heading].get(name)
        beside.append(f"{column[name]:.3f}" if name in column else "-")
        beside.append("-" if difference is None else f"{difference:+.3f}")
      return (label, language, *counts, *(self.cell(name, metric) for metric in self.metrics), *beside)

    headings = [*(metrics.METRICS[name].heading for name in self.metrics), *self.shares]
    for heading in self.beside:
      headings += [heading, "difference"]
    return grid.Grid(
      ("", "language", *self.counts, *headings),
      tuple(
        row(code, code, languages.get(code).english_name, tuple(f"{scores[name]:,}" for name in self.counts))
        for code, scores in self.rows.items()
      ),
      tuple(row(name, "mean", mean_label(name), ("",) * len(self.counts)) for name in self.means),
      num_labels=2,
    )

  def _with_intervals(self, name: str, scores: Mapping[str, float]) -> dict:
    cells: dict[str, float | dict[str, float]] = dict(scores)
    for metric, (low, high) in self.intervals.get(name, {}).items():
      cells[metric] = {"score": scores[metric], "low": low, "high": high}
    return cells


def primary(metrics: Sequence[str]) -> str:
  """Returns the metric to show if there is room for only one: CIDEr-D, or else the first."""
  return "cider_d" if "cider_d" in metrics else metrics[0]


def mean(rows: Mapping[str, Mapping[str, Any]], codes: Sequence[str]) -> dict[str, Any]:
  """Returns metric -> mean over the languages; the scores of the rows may be arrays."""
  names = [name for name in rows[codes[0]] if name not in COUNTS]
  return {name: sum(rows[code][name] for code in codes) / len(codes) for name in names}


def mean_groups(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  """Returns the means of a table with these rows (or their counts): name -> languages averaged over.

  Languages with classes are grouped by their number of classes, as in Babel-ImageNet, and English is in none of the
  means.
  """
  if any("classes" in row for row in rows.values()):
    return _groups_by_classes(rows)
  groups = {"35": languages.TRAINED, "36": tuple(languages.LANGUAGES)}
  groups = {name: members for name, members in groups.items() if rows.keys() >= set(members)}
  if not any(len(members) == len(rows) for members in groups.values()):
    groups = {files.count(len(rows), "language"): tuple(rows)}
  return groups


def _groups_by_classes(rows: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
  others = tuple(code for code in rows if code != "en") or tuple(rows)
  groups = {}
  for low, high in itertools.pairwise((0, *CLASS_GROUPS)):
    members = tuple(code for code in others if low < rows[code]["classes"] <= high)
    if members and len(members) < len(others):
      groups[f"{low + 1} to {high} classes" if high < math.inf else f"over {low} classes"] = members
  of_all = files.count(len(others), "language")
  return {**groups, of_all + (" without en" if len(others) < len(rows) else ""): others}


def mean_label(name: str) -> str:
  """Returns the name of a mean for display: `35 languages (all but quz)`, `all 36 languages`, `3 languages`.

  It does not say "trained", because a table does not know the training languages of its system.
  """
  return {"35": "35 languages (all but quz)", "36": "all 36 languages"}.get(name, name)


def column(rows: Mapping[str, Mapping[str, float]], scores: Mapping[str, float]) -> dict[str, float]:
  """Returns a column for `Table.beside`: scores of languages, and those means for which no language is missing."""
  held = {code: scores[code] for code in rows if code in scores}
  for name, members in mean_groups(rows).items():
    if all(code in scores for code in members):
      held[name] = sum(scores[code] for code in members) / len(members)
  return held
