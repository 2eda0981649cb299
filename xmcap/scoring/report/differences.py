"""The differences of a comparison, with intervals: a row a language, drawn and in numbers."""

import math
from collections.abc import Sequence

from xmcap import languages
from xmcap.scoring import comparison as comparison_lib
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import elements, sortable

_WIDTH, _HEIGHT, _PAD = 220, 22, 8


def section(comparison: comparison_lib.Comparison) -> str:
  """Returns the section: a table for each system and metric that was compared, of which one is shown."""
  pairs = list(dict.fromkeys((row.system, row.metric) for row in comparison.rows))
  panels, options = [], []
  for place, (system, metric) in enumerate(pairs):
    rows = [row for row in comparison.rows if (row.system, row.metric) == (system, metric)]
    title = f"{metrics_lib.METRICS[metric].heading}: {system} less {comparison.baseline}"
    options.append((str(place), title))
    panels.append(
      f'<div class="panel" data-pair="{place}"{" hidden" if place else ""}>'
      f'<p class="panel-title">{elements.escape(title)}. {_summary(rows, comparison.baseline)}</p>'
      f"{_table(f'differences-{place}', title, rows)}</div>"
    )
  note = (
    f"95% intervals by the paired bootstrap, {comparison.resamples:,} resamples of the images in all languages "
    f"together. A filled dot: p (Holm) below {comparison_lib.SIGNIFICANCE:g}, which is the p of approximate "
    f"randomisation, corrected for the number of languages; that of a mean is not corrected. "
    f"{comparison.too_few_resamples}"
  ).strip()
  return elements.section(
    "differences",
    "Differences",
    "".join(panels),
    note,
    elements.choice("difference-pair", "Compare", options, buttons=False),
  )


def _summary(rows: Sequence[comparison_lib.Difference], baseline: str) -> str:
  of_languages = [row for row in rows if row.name in languages.LANGUAGES]
  higher = sum(row.significant and row.difference > 0 for row in of_languages)
  lower = sum(row.significant and row.difference < 0 for row in of_languages)
  rest = len(of_languages) - higher - lower
  return (
    f"Higher than {elements.escape(baseline)} in {higher}, lower in {lower}, no significant difference in {rest} of "
    f"{len(of_languages)} languages."
  )


def _table(name: str, title: str, rows: Sequence[comparison_lib.Difference]) -> str:
  columns = [
    sortable.Column("Code", number=False, sorted=True),
    sortable.Column("Language", number=False),
    sortable.Column("Difference"),
    sortable.Column("Drawn", number=False),
    sortable.Column("95% interval"),
    sortable.Column("p <small>bootstrap</small>"),
    sortable.Column("p <small>randomisation</small>"),
    sortable.Column("p <small>Holm</small>"),
  ]
  ends = [end for row in rows for end in (row.low, row.high, row.difference) if not math.isnan(end)]
  reach = min([0.0, *ends]), max([0.0, *ends])
  body = [_cells(row, reach) for row in rows if row.name in languages.LANGUAGES]
  foot = [_cells(row, reach) for row in rows if row.name not in languages.LANGUAGES]
  return sortable.table(name, columns, body, foot, title)


def _cells(row: comparison_lib.Difference, reach: tuple[float, float]) -> list[str]:
  if row.name in languages.LANGUAGES:
    flag = ' <span class="flag">few references</span>' if row.few_references else ""
    head = [
      sortable.text(f"<code>{row.name}</code>", classes="first"),
      sortable.row_head(elements.language_name(row.name) + flag, languages.get(row.name).english_name),
    ]
    holm = sortable.number(row.p_holm, f"{row.p_holm:.3f}")
  else:
    head = [sortable.row_head(f"Mean, {tables.mean_label(row.name)}", span=2, classes="first")]
    holm = sortable.absent()
  ends = f"{elements.signed(row.metric, row.low)} \u2013 {elements.signed(row.metric, row.high)}"
  return [
    *head,
    sortable.number(row.difference, elements.signed(row.metric, row.difference), "strong" * row.significant),
    sortable.text(_drawn(row, reach), repr(row.difference), "drawn"),
    sortable.number(row.high - row.low, ends.replace("\u2013", "to"), "soft"),
    sortable.number(row.p_bootstrap, f"{row.p_bootstrap:.3f}", "soft"),
    sortable.number(row.p_randomization, f"{row.p_randomization:.3f}", "soft"),
    holm,
  ]


def _drawn(row: comparison_lib.Difference, reach: tuple[float, float]) -> str:
  low, high = reach

  def x(value: float) -> float:
    return _PAD + (_WIDTH - 2 * _PAD) * ((value - low) / (high - low) if high > low else 0.5)

  middle = _HEIGHT / 2
  side = "more" if row.difference > 0 else "less"
  whisker = ""
  if not math.isnan(row.low):
    whisker = f'<path d="M{x(row.low):.1f} {middle:g}H{x(row.high):.1f}"/>'
  return (
    f'<svg class="forest {side}{" significant" if row.significant else ""}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
    f'aria-hidden="true"><line x1="{x(0.0):.1f}" x2="{x(0.0):.1f}" y1="0" y2="{_HEIGHT}"/>{whisker}'
    f'<circle cx="{x(row.difference):.1f}" cy="{middle:g}" r="4"/></svg>'
  )
