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
  primary = table.primary
  shown = [(i, name, other) for i, (name, other) in enumerate(others) if primary in other.metrics]
  differing = {i for i, _, _ in shown if baseline is not None or i == reference}
  rest = [metric for metric in table.metrics if metric != primary]
  reach = max(
    (abs(each) for i, _, other in shown if i in differing for each in _differences(table, other)), default=0
  )

  def cells(name: str, scores: Mapping[str, float]) -> list[str]:
    row = [_score(table, name, primary, scores[primary])]
    for i, _, other in shown:
      found = other.rows.get(name) or other.means.get(name)
      if found is None:
        row += [sortable.absent("beside")] * (1 + (i in differing))
        continue
      row.append(_score(other, name, primary, found[primary], "beside"))
      if i in differing:
        difference = scores[primary] - found[primary]
        row.append(_difference(primary, difference if baseline is None else -difference, reach))
    for column in table.beside.values():
      text = f"{column[name]:.3f}" if name in column else "\u2013"
      row.append(sortable.number(column.get(name), text, "beside"))
    return row + [_score(table, name, metric, scores[metric]) for metric in rest]

  rows = [
    [*sortable.language_cells(code), *cells(code, row), *_facts(code, row)]
    for code, row in table.rows.items()
  ]
  foot = [
    [
      sortable.row_head(f"Mean, {tables.mean_label(name)}", span=2, classes="first"),
      *cells(name, mean),
      sortable.text(""),
      sortable.text(""),
    ]
    for name, mean in table.means.items()
  ]
  toggle = ""
  if table.intervals:
    # In many columns they would hide the scores.
    checked = " checked" if len(table.metrics) <= _FEW_METRICS else ""
    toggle = f'<label class="check"><input type="checkbox" name="intervals"{checked}> 95% intervals</label>'
  headings = _headings(table, shown, differing, rest, baseline)
  content = sortable.table("scores", headings, rows, foot, "Scores by language")
  return elements.section("table", "Table", content, "A heading sorts by its column.", toggle)


def _headings(
  table: tables.Table,
  shown: list[tuple[int, str, tables.Table]],
  differing: set[int],
  rest: list[str],
  baseline: str | None,
) -> list[str]:
  primary = metrics_lib.METRICS[table.primary].heading
  own = "" if baseline is None else elements.named(baseline, None)
  titles = [f"{own} <small>{primary}</small>" if own else primary]
  for i, name, _ in shown:
    titles.append(f"{elements.named(name, i)} <small>{primary}</small>")
    if i in differing:
      titles.append(f"difference <small>{'of' if own else 'to'} {elements.escape(name)}</small>")
  titles += map(elements.escape, table.beside)
  titles += [metrics_lib.METRICS[metric].heading for metric in rest]
  hint = "English, the 30 languages most used on the web, or low-resource"
  group = sortable.heading("Group", numeric=False, hint=hint)
  return [*sortable.language_headings(), *map(sortable.heading, [*titles, "Images"]), group]


def _difference(metric: str, difference: float, reach: float) -> str:
  """Returns the cell of a difference, with a bar from the middle whose length is relative to the largest difference."""
  length = 50 * abs(difference) / reach if reach else 0.0
  side = "less" if difference < 0 else "more"
  text = elements.signed(metric, difference)
  return sortable.number(difference, text, f"difference {side}", f"--length:{length:.1f}%")


def _differences(table: tables.Table, other: tables.Table) -> list[float]:
  rows = {**other.rows, **other.means}
  return [
    scores[table.primary] - rows[name][table.primary]
    for name, scores in {**table.rows, **table.means}.items()
    if name in rows
  ]


def _facts(code: str, row: Mapping[str, float]) -> list[str]:
  language = languages.get(code)
  group = _GROUPS[language.group] + ("" if language.trained else ", not trained")
  return [sortable.number(row["images"], f"{row['images']:,}", "soft"), sortable.text(group, classes="soft")]


def _score(table: tables.Table, name: str, metric: str, score: float, classes: str = "") -> str:
  text = metrics_lib.METRICS[metric].format(score)
  ends = headline.interval(metric, table.intervals.get(name, {}).get(metric))
  return sortable.number(score, f'{text}<span class="interval">{ends}</span>' if ends else text, classes)
