"""Differences between systems and a baseline, formatted for the terminal and for files."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping

from xmcap import grid, languages, latex, markdown, spreadsheet, wording
from xmcap.files import files
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.statistics import means
from xmcap.scoring.tables import note_order, score_table
from xmcap.terminal import shown

SIGNIFICANCE = 0.05
FEW_REFERENCES = 1.5
"""A language with fewer references per image is flagged: bn (1.0) and mi (1.3) in XM3600."""

COLUMNS = (
  "code", "language", "baseline", "baseline_interval", "score", "score_interval", "difference", "interval",
  "p_bootstrap", "p_randomization", "p_holm",
)  # fmt: skip
"""Names of the columns of a comparison in LaTeX; those after `baseline_interval` are repeated for each system."""

_MARK = f"*: p (Holm, over the languages; means uncorrected) below {SIGNIFICANCE:g}"
_LATEX_COLUMNS = ("baseline", "score", "difference", "interval", "p_holm")
_OF_BASELINE = ("baseline", "baseline_interval")
_HEADINGS = {
  "code": "", "language": "language", "baseline": "score", "baseline_interval": "95% interval", "score": "score",
  "score_interval": "95% interval", "difference": "difference", "interval": "95% interval",
  "p_bootstrap": "p (bootstrap)", "p_randomization": "p (randomisation)", "p_holm": "p (Holm)",
  "marks": "",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Difference:
  """One system compared with the baseline, in one language or mean (`name`) and metric.

  Attributes:
    low, high: 95% interval of the difference `score - baseline`.
    p_bootstrap, p_randomization: p-values of the two tests.
    p_holm: p-value of the randomisation test, Holm-corrected for the number of languages; for a mean, uncorrected.
    few_references: whether the language has fewer than `FEW_REFERENCES` references per image.
    baseline_low, baseline_high, score_low, score_high: 95% intervals of the two scores.
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
  baseline_low: float
  baseline_high: float
  score_low: float
  score_high: float

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
    medians: median rank, of `means.MEDIANS` -> language code -> system -> its value; {} where one has none.
    scale: factor at which scores are shown and written, that of the baseline's table; `rows` are without it.
    title: title for readers.
  """

  baseline: str
  signature: str
  rows: tuple[Difference, ...]
  resamples: int
  seed: int
  notes: tuple[str, ...] = ()
  scale: int = 1
  title: str = ""
  medians: Mapping[str, Mapping[str, Mapping[str, float]]] = dataclasses.field(default_factory=dict)

  @property
  def too_few_resamples(self) -> str:
    """A warning if even the smallest possible p-value is too large after correction, else ""."""
    count = len({row.name for row in self.rows if languages.is_known(row.name)})
    if 1 / (1 + self.resamples) * count < SIGNIFICANCE:
      return ""
    return (
      f"With {self.resamples:,} resamples none of {wording.count(count, 'language')} can be significant: use at least "
      f"{round(count / SIGNIFICANCE):,}."
    )

  def terminal(self, out: str | os.PathLike = "") -> str:
    """Returns the differences as text for a terminal; `out` is the folder where they are written."""
    rest = os.path.join(out, "comparison.md") if out else ""
    parts = [f"{shown(title, limit=None)}\n{table.text(rest)}" for title, table in self._grids()]
    title = [shown(self.title, limit=None)] if self.title else []
    lines = [shown(line, limit=None) for line in self._explanation()]
    return "\n".join([*title, *parts, *lines, note_order.terminal(self.notes, rest)])

  def as_markdown(self) -> str:
    """Returns the differences as Markdown."""
    parts = [f"### {markdown.text(title)}\n\n{table.markdown()}" for title, table in self._grids()]
    if self.title:
      parts.insert(0, f"## {markdown.text(self.title)}\n")
    lines = [f"- {markdown.text(line)}" for line in self._explanation()]
    lines += [f"- note: {markdown.text(note)}" for note in note_order.worst_first(self.notes)]
    return "\n".join([*parts, *lines, "", f"Signature: {markdown.code(self.signature)}\n"])

  def as_latex(self, style: latex.Style | None = None) -> str:
    """Returns a LaTeX `table` (package booktabs) for each metric, with the systems side by side.

    The best score of a row is bold, and `*` marks a significant difference to the baseline. Raises UsageError if the
    style names a column that is not in `COLUMNS`.
    """
    style = dataclasses.replace(style or latex.Style(), scale=self.scale)
    style.check(COLUMNS)
    metrics = dict.fromkeys(row.metric for row in self.rows)
    return "\n".join(self._latex_table(metric, style) for metric in metrics)

  def as_csv(self) -> str:
    """Returns one row per difference, in full precision; those of median ranks are without tests."""
    rows = [self._scaled(row).as_dict() for row in self.rows]
    medians = [
      dict(system=system, metric=median, name=language, baseline=(first := of[self.baseline]), score=rank,
           difference=rank - first)
      for median, of_languages in self.medians.items() for language, of in of_languages.items()
      for system, rank in of.items() if system != self.baseline
    ]  # fmt: skip
    return spreadsheet.table(
      list(rows[0]), [[row.get(name) for name in rows[0]] for row in [*rows, *medians]]
    )

  def as_json(self) -> str:
    """Returns everything, in full precision."""
    value = {
      "baseline": self.baseline,
      "signature": self.signature,
      "resamples": self.resamples,
      "seed": self.seed,
      "scale": self.scale,
      "title": self.title,
      "notes": list(self.notes),
      "medians": self.medians,
      "differences": [self._scaled(row).as_dict() for row in self.rows],
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

  def write(self, out: str | os.PathLike, style: latex.Style | None = None) -> None:
    """Writes `comparison.csv`, `.json`, `.md` and `.tex` (in the style) into a folder, which is made if necessary."""
    files.write_forms(
      out,
      "comparison",
      csv=self.as_csv(),
      json=self.as_json(),
      md=self.as_markdown(),
      tex=self.as_latex(style),
    )

  def _latex_table(self, metric: str, style: latex.Style) -> str:
    rows = {(row.system, row.name): row for row in self.rows if row.metric == metric}
    systems = tuple(dict.fromkeys(system for system, _ in rows))
    names = tuple(dict.fromkeys(name for _, name in rows))
    chosen = style.chosen(_LATEX_COLUMNS)
    heading = metrics_lib.METRICS[metric].heading
    # Bold and marks belong to the scores; without them, the marks to the differences.
    marked = next((column for column in ("score", "difference") if column in chosen), "")
    scores = {
      name: {self.baseline: rows[systems[0], name].baseline}
      | {system: rows[system, name].score for system in systems}
      for name in names
    }

    def cell(system: str, column: str, name: str) -> str:
      row = rows[systems[0] if system in ("", self.baseline) else system, name]
      text = _cells(row, style.scale)[column]
      text = latex.text(text) if column in latex.LABELS else latex.number(text)
      if column == "language" and not is_language[name] and "code" not in chosen:
        text = f"mean, {text}"
      if column in ("score", "baseline") and system in best[name]:
        text = latex.bold(text)
      return f"{text}$^{{*}}$" if column == marked and row.significant else text

    is_language = dict(zip(names, map(languages.is_known, names), strict=True))
    shown = [self.baseline] * ("baseline" in chosen) + [*systems] * ("score" in chosen)
    best = {}
    for name in names:
      compared = {system: scores[name][system] for system in shown}
      shown_as = {
        system: metrics_lib.METRICS[metric].format(score, style.scale) for system, score in compared.items()
      }
      best[name] = latex.best(compared, shown_as)
    labels = [column for column in chosen if column in latex.LABELS]
    of_baseline = [column for column in chosen if column in _OF_BASELINE]
    rest = [column for column in chosen if column not in (*labels, *_OF_BASELINE)]
    in_one_line = {*of_baseline, *rest} <= {"baseline", "score"}  # the headings are the systems
    columns = [
      *(("", column) for column in labels),
      *((self.baseline, column) for column in of_baseline),
      *((system, column) for system in systems for column in rest),
    ]
    body, foot = (
      [[cell(*column, name) for column in columns] for name in names if is_language[name] == are_languages]
      for are_languages in (True, False)
    )
    lines = latex.tabular(
      "".join("r" if system else "l" for system, _ in columns),
      [system if system and in_one_line else _HEADINGS[column] for system, column in columns],
      body,
      foot,
      () if in_one_line else [system for system, _ in columns],
    )
    caption = self.title or f"{heading} of {', '.join(systems)} against {self.baseline}"
    if marked and any(row.significant for row in rows.values()):
      caption += f"; {_MARK}"
    return latex.table(
      lines,
      caption,
      latex.label(f"{self.title} {metric}" if self.title else "", f"comparison-{metric.replace('_', '-')}"),
      [
        style.comment,
        *self._explanation(),
        *(f"note: {' '.join(note.split())}" for note in self.notes),
        self.signature,
      ],
    )

  def _scaled(self, row: Difference) -> Difference:
    factor = metrics_lib.METRICS[row.metric].factor(self.scale)
    if factor == 1:
      return row
    names = ("baseline", "score", "low", "high", "baseline_low", "baseline_high", "score_low", "score_high")
    return dataclasses.replace(row, **{name: factor * getattr(row, name) for name in names})

  def _grids(self) -> Iterator[tuple[str, grid.Grid]]:
    """Yields (title, table) for each system and metric."""
    for system, metric in dict.fromkeys((row.system, row.metric) for row in self.rows):
      rows = [row for row in self.rows if (row.system, row.metric) == (system, metric)]
      median = means.median_of(metric)
      ranks = {
        f"{means.MEDIANS[median]} of {name}": {
          language: score_table.shown_rank(of_systems[name])
          for language, of_systems in self.medians.get(median, {}).items()
        }
        for name in (self.baseline, system)
        if median in self.medians
      }
      headings = _HEADINGS | {"baseline": self.baseline, "score": system}
      columns = [name for name in (*COLUMNS, "marks") if name not in ("baseline_interval", "score_interval")]
      body, foot = (
        tuple(
          (
            *map(_cells(row, self.scale).__getitem__, columns),
            *(of_name.get(row.name, "") for of_name in ranks.values()),
          )
          for row in rows
          if languages.is_known(row.name) == are_languages
        )
        for are_languages in (True, False)
      )
      table = grid.Grid(
        (*(headings[name] for name in columns), *ranks),
        body,
        foot,
        num_labels=2,
        # A mark says what is significant.
        spare=("p (randomisation)", "p (bootstrap)", *ranks, "p (Holm)"),
      )
      yield f"{metrics_lib.METRICS[metric].heading}: {system} against {self.baseline}", table

  def _explanation(self) -> list[str]:
    few_references = sorted({row.name for row in self.rows if row.few_references})
    of_captions = any(metrics_lib.METRICS[row.metric].counted == "references" for row in self.rows)
    fixed = "document frequencies" if of_captions else "candidates"
    lines = [
      f"{self.resamples:,} resamples of the images, the same in all languages, seed {self.seed}; {fixed} held fixed.",
      f"{_MARK}.",
    ]
    if self.too_few_resamples:
      lines.append(self.too_few_resamples)
    if few_references:
      lines.append(
        f"few: fewer than {FEW_REFERENCES:g} references per image, so less certain: {', '.join(few_references)}."
      )
    return lines


def _cells(row: Difference, scale: int) -> dict[str, str]:
  """Returns column -> cell as text; `marks` is a further column."""
  is_language = languages.is_known(row.name)
  score = functools.partial(metrics_lib.METRICS[row.metric].format, scale=scale)
  signed = functools.partial(_signed, score)
  return {
    "code": row.name if is_language else "mean",
    "language": languages.get(row.name).english_name if is_language else score_table.mean_label(row.name),
    "baseline": score(row.baseline),
    "baseline_interval": f"[{score(row.baseline_low)}, {score(row.baseline_high)}]",
    "score": score(row.score),
    "score_interval": f"[{score(row.score_low)}, {score(row.score_high)}]",
    "difference": signed(row.difference),
    "interval": f"[{signed(row.low)}, {signed(row.high)}]",
    "p_bootstrap": _p(row.p_bootstrap),
    "p_randomization": _p(row.p_randomization),
    "p_holm": _p(row.p_holm) if is_language else "",
    "marks": " ".join(["*"] * row.significant + ["few"] * row.few_references),
  }


def _signed(shown_as: Callable[[float], str], difference: float) -> str:
  return f"{'-' if difference < 0 else '+'}{shown_as(abs(difference))}"


def _p(p: float) -> str:
  """Returns a p-value for display; resamples never give 0, so it is not shown as 0."""
  return "<0.001" if p < 0.001 else f"{p:.3f}"
