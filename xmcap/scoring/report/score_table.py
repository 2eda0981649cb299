"""The table of scores: a row a language, with intervals, published columns, and other systems beside."""

from collections.abc import Mapping

from xmcap import languages
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import elements, headline, sortable
from xmcap.scoring.report.chart import Others

_GROUPS = {"english": "English", "web": "web", "low_resource": "low-resource"}
_FEW_METRICS = 3


def section(table: tables.Table, others: Others, reference: int | None, baseline: str | None = None) -> str:
  """Returns the section.

  Args:
    table: the scores.
    others: what stands beside, in the primary metric.
    reference: which of the others, counted from 0, to show differences to; None: none.
    baseline: the name of the system of `table`, where the difference of each of the others to it is to be shown
      instead; None: it is not their baseline.
  """
  primary = metrics_lib.METRICS[table.primary].heading
  shown = [
    (number, name, other) for number, (name, other) in enumerate(others) if table.primary in other.metrics
  ]
  columns = [
    sortable.Column("Code", number=False, sorted=True),
    sortable.Column("Language", number=False),
    sortable.Column(
      primary if baseline is None else f"{elements.named(baseline, None)} <small>{primary}</small>"
    ),
  ]
  for number, name, _ in shown:
    columns.append(sortable.Column(f"{elements.named(name, number)} <small>{primary}</small>"))
    if baseline is not None:
      columns.append(sortable.Column(f"difference <small>of {elements.escape(name)}</small>"))
    elif number == reference:
      columns.append(sortable.Column(f"difference <small>to {elements.escape(name)}</small>"))
  columns += [sortable.Column(elements.escape(heading)) for heading in table.beside]
  rest = [metric for metric in table.metrics if metric != table.primary]
  columns += [sortable.Column(metrics_lib.METRICS[metric].heading) for metric in rest]
  columns += [
    sortable.Column("Images"),
    sortable.Column(
      "Group", number=False, hint="English, the 30 languages most used on the web, or low-resource"
    ),
  ]
  with_difference = {number for number, _, _ in shown if baseline is not None or number == reference}
  largest = max(
    (
      abs(value)
      for number, _, other in shown
      if number in with_difference
      for value in _differences(table, other)
    ),
    default=0.0,
  )

  def numbers(name: str, scores: Mapping[str, float]) -> list[str]:
    cells = [_score(table, name, table.primary, scores[table.primary])]
    for number, _, other in shown:
      found = other.rows.get(name) or other.means.get(name)
      if found is None:
        cells += [sortable.absent("beside")] * (1 + (number in with_difference))
        continue
      cells.append(_score(other, name, table.primary, found[table.primary], "beside"))
      if number in with_difference:
        difference = scores[table.primary] - found[table.primary]
        cells.append(difference_cell(table.primary, difference if baseline is None else -difference, largest))
    cells += [
      sortable.number(column[name], f"{column[name]:.3f}", "beside")
      if name in column
      else sortable.absent("beside")
      for column in table.beside.values()
    ]
    return cells + [_score(table, name, metric, scores[metric]) for metric in rest]

  rows = ([*_labels(code), *numbers(code, row), *_facts(code, row)] for code, row in table.rows.items())
  foot = (
    [
      sortable.row_head(f"Mean, {tables.mean_label(name)}", span=2, classes="first"),
      *numbers(name, mean),
      sortable.text(""),
      sortable.text(""),
    ]
    for name, mean in table.means.items()
  )
  toggle = ""
  if table.intervals:
    # In many columns they would hide the scores.
    checked = " checked" if len(table.metrics) <= _FEW_METRICS else ""
    toggle = f'<label class="check"><input type="checkbox" name="intervals"{checked}> 95% intervals</label>'
  return elements.section(
    "table",
    "Table",
    sortable.table("scores", columns, rows, foot, "Scores by language"),
    "A heading sorts by its column.",
    toggle,
  )


def difference_cell(metric: str, difference: float, largest: float) -> str:
  """Returns the cell of a difference, with a bar from the middle: as long as it is large, of the largest."""
  length = 50 * abs(difference) / largest if largest else 0.0
  side = "less" if difference < 0 else "more"
  return sortable.number(
    difference, elements.signed(metric, difference), f"difference {side}", f"--length:{length:.1f}%"
  )


def _differences(table: tables.Table, other: tables.Table) -> list[float]:
  rows = {**other.rows, **other.means}
  return [
    scores[table.primary] - rows[name][table.primary]
    for name, scores in {**table.rows, **table.means}.items()
    if name in rows
  ]


def _labels(code: str) -> list[str]:
  return [
    sortable.text(f"<code>{code}</code>", classes="first"),
    sortable.row_head(elements.language_name(code), languages.get(code).english_name),
  ]


def _facts(code: str, row: Mapping[str, float]) -> list[str]:
  language = languages.get(code)
  group = _GROUPS[language.group] + ("" if language.trained else ", not trained")
  return [sortable.number(row["images"], f"{row['images']:,}", "soft"), sortable.text(group, classes="soft")]


def _score(table: tables.Table, name: str, metric: str, score: float, classes: str = "") -> str:
  text = metrics_lib.METRICS[metric].format(score)
  ends = headline.interval(metric, table.intervals.get(name, {}).get(metric))
  return sortable.number(score, f'{text}<span class="interval">{ends}</span>' if ends else text, classes)
