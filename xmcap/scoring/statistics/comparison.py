"""Differences between systems and a baseline, formatted for the terminal and for files."""

import dataclasses
import json
import os
from collections.abc import Iterator

from xmcap import languages
from xmcap.scoring import files
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.writing import grid, tables
from xmcap.terminal import shown

SIGNIFICANCE = 0.05
FEW_REFERENCES = 1.5
"""A language with fewer references per image is flagged: bn (1.0) and mi (1.3) in XM3600."""


@dataclasses.dataclass(frozen=True)
class Difference:
  """One system compared with the baseline, in one language or mean (`name`) and metric.

  Attributes:
    low, high: 95% interval of the difference `score - baseline`.
    p_bootstrap, p_randomization: p-values of the two tests.
    p_holm: p-value of the randomisation test, Holm-corrected for the number of languages; for a mean, uncorrected.
    few_references: whether the language has fewer than `FEW_REFERENCES` references per image.
  """

  system: str
  metric: str
  name: str
  baseline: float
  score: float
  low: float
  high: float
  p_bootstrap: float
  p_randomization: float
  p_holm: float
  few_references: bool

  @property
  def difference(self) -> float:
    """The score minus the baseline's score."""
    return self.score - self.baseline

  @property
  def significant(self) -> bool:
    """Whether the corrected p-value is below `SIGNIFICANCE`."""
    return self.p_holm < SIGNIFICANCE

  def as_dict(self) -> dict[str, str | float | bool]:
    """Returns the attributes and properties by name."""
    return {**dataclasses.asdict(self), "difference": self.difference, "significant": self.significant}


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Systems compared with a baseline.

  Attributes:
    baseline: name of the baseline.
    signature: signature of the baseline's table.
    rows: ordered by system, then metric, then language or mean.
    resamples, seed: settings of the tests.
    notes: notes of the systems' tables, such as missing predictions, each prefixed with the system's name.
    scale: factor at which scores are shown and written, that of the baseline's table; `rows` are without it.
  """

  baseline: str
  signature: str
  rows: tuple[Difference, ...]
  resamples: int
  seed: int
  notes: tuple[str, ...] = ()
  scale: int = 1

  @property
  def too_few_resamples(self) -> str:
    """A warning if even the smallest possible p-value is too large after correction, else ""."""
    count = len({row.name for row in self.rows if languages.is_known(row.name)})
    if 1 / (1 + self.resamples) * count < SIGNIFICANCE:
      return ""
    return (
      f"With {self.resamples:,} resamples none of {files.count(count, 'language')} can be significant: use at least "
      f"{round(count / SIGNIFICANCE):,}."
    )

  def terminal(self) -> str:
    """Returns the differences as text for a terminal."""
    parts = [f"{shown(title, limit=None)}\n{held.text()}" for title, held in self._grids()]
    return "\n".join([*parts, *(shown(line, limit=None) for line in self._explanation()), ""])

  def as_markdown(self) -> str:
    """Returns the differences as Markdown."""
    parts = [f"### {grid.markdown_text(title)}\n\n{held.markdown()}" for title, held in self._grids()]
    lines = [f"- {grid.markdown_text(line)}" for line in self._explanation()]
    return "\n".join([*parts, *lines, "", f"Signature: `{self.signature}`\n"])

  def as_latex(self) -> str:
    """Returns the differences as LaTeX tables."""
    comments = "".join(f"% {line}\n" for line in [*self._explanation(), self.signature])
    return comments + "\n".join(f"% {title}\n{held.latex()}" for title, held in self._grids())

  def as_csv(self) -> str:
    """Returns one row per difference, in full precision."""
    rows = [self._scaled(row).as_dict() for row in self.rows]
    return grid.write_csv(list(rows[0]), [list(row.values()) for row in rows])

  def as_json(self) -> str:
    """Returns everything, in full precision."""
    value = {
      "baseline": self.baseline,
      "signature": self.signature,
      "resamples": self.resamples,
      "seed": self.seed,
      "scale": self.scale,
      "notes": list(self.notes),
      "differences": [self._scaled(row).as_dict() for row in self.rows],
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

  def write(self, out: str | os.PathLike) -> None:
    """Writes `comparison.csv`, `.json`, `.md` and `.tex` into a folder, which is made if necessary."""
    files.write_forms(
      out, "comparison", csv=self.as_csv(), json=self.as_json(), md=self.as_markdown(), tex=self.as_latex()
    )

  def _scaled(self, row: Difference) -> Difference:
    factor = metrics_lib.METRICS[row.metric].factor(self.scale)
    if factor == 1:
      return row
    names = ("baseline", "score", "low", "high")
    return dataclasses.replace(row, **{name: factor * getattr(row, name) for name in names})

  def _grids(self) -> Iterator[tuple[str, grid.Grid]]:
    """Yields (title, table) for each system and metric."""
    for system, metric in dict.fromkeys((row.system, row.metric) for row in self.rows):
      rows = [row for row in self.rows if (row.system, row.metric) == (system, metric)]
      headings = ("", "language", self.baseline, system, "difference", "95% interval")
      held = grid.Grid(
        (*headings, "p (bootstrap)", "p (randomisation)", "p (Holm)", ""),
        tuple(_cells(row, self.scale) for row in rows if languages.is_known(row.name)),
        tuple(_cells(row, self.scale) for row in rows if not languages.is_known(row.name)),
        num_labels=2,
      )
      yield f"{metrics_lib.METRICS[metric].heading}: {system} against {self.baseline}", held

  def _explanation(self) -> list[str]:
    few_references = sorted({row.name for row in self.rows if row.few_references})
    of_captions = any(metrics_lib.METRICS[row.metric].counted == "references" for row in self.rows)
    fixed = "document frequencies" if of_captions else "candidates"
    lines = [
      f"{self.resamples:,} resamples of the images, the same in all languages, seed {self.seed}; {fixed} held fixed.",
      f"*: p (Holm, over the languages; means uncorrected) below {SIGNIFICANCE:g}.",
    ]
    if self.too_few_resamples:
      lines.append(self.too_few_resamples)
    if few_references:
      lines.append(
        f"few: fewer than {FEW_REFERENCES:g} references per image, so less certain: {', '.join(few_references)}."
      )
    return [*lines, *(f"note: {' '.join(note.split())}" for note in self.notes)]


def _cells(row: Difference, scale: int) -> tuple[str, ...]:
  known = languages.is_known(row.name)
  metric = metrics_lib.METRICS[row.metric]
  return (
    row.name if known else "mean",
    languages.get(row.name).english_name if known else tables.mean_label(row.name),
    metric.format(row.baseline, scale),
    metric.format(row.score, scale),
    _signed(metric, row.difference, scale),
    f"[{_signed(metric, row.low, scale)}, {_signed(metric, row.high, scale)}]",
    f"{row.p_bootstrap:.3f}",
    f"{row.p_randomization:.3f}",
    f"{row.p_holm:.3f}" if known else "",
    " ".join(["*"] * row.significant + ["few"] * row.few_references),
  )


def _signed(metric: metrics_lib.Metric, difference: float, scale: int) -> str:
  text = metric.format(abs(difference), scale)
  return f"{'-' if difference < 0 else '+'}{text}"
