"""The differences of a comparison, with intervals: a row a language, drawn and in numbers."""

import math
from collections.abc import Sequence

from xmcap import languages
from xmcap.scoring import comparison as comparison_lib
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import tables
from xmcap.scoring.report import elements, sortable

_WIDTH, _HEIGHT, _PAD = 220, 22, 8  # of a drawn difference


def section(comparison: comparison_lib.Comparison) -> str:
  """Returns the section: a table for each system and metric that was compared, of which one is shown."""
  panels, titles = {}, []
  for system, metric in dict.fromkeys((row.system, row.metric) for row in comparison.rows):
    rows = [row for row in comparison.rows if (row.system, row.metric) == (system, metric)]
    place = str(len(panels))
    title = f"{metrics_lib.METRICS[metric].heading}: {system} less {comparison.baseline}"
    summary = f"{title}. {_summary(rows, comparison.baseline)}"
    panels[place] = elements.tag("p", elements.escape(summary), class_="panel-title") + _table(
      f"differences-{place}", title, rows
    )
    titles.append((place, title))
  note = (
    f"95% intervals by the paired bootstrap, {comparison.resamples:,} resamples of the images in all languages "
    f"together. A filled dot: p (Holm) below {comparison_lib.SIGNIFICANCE:g}, which is the p of approximate "
    f"randomisation, corrected for the number of languages; that of a mean is not corrected. "
    f"{comparison.too_few_resamples}"
  ).strip()
  choice = elements.choice("difference-pair", "Compare", titles, buttons=False)
  return elements.section("differences", "Differences", elements.panels("pair", panels), note, choice)


def _summary(rows: Sequence[comparison_lib.Difference], baseline: str) -> str:
  of_languages = [row for row in rows if row.name in languages.LANGUAGES]
  higher = sum(row.significant and row.difference > 0 for row in of_languages)
  lower = sum(row.significant and row.difference < 0 for row in of_languages)
  rest = len(of_languages) - higher - lower
  return (
    f"Higher than {baseline} in {higher}, lower in {lower}, no significant difference in {rest} of "
    f"{len(of_languages)} languages."
  )


def _table(name: str, title: str, rows: Sequence[comparison_lib.Difference]) -> str:
  headings = [
    *sortable.language_headings(),
    sortable.heading("Difference"),
    sortable.heading("Drawn", numeric=False),
    sortable.heading("95% interval"),
    *(sortable.heading(f"p <small>{kind}</small>") for kind in ("bootstrap", "randomisation", "Holm")),
  ]
  ends = [end for row in rows for end in (row.low, row.high, row.difference) if not math.isnan(end)]
  reach = min([0.0, *ends]), max([0.0, *ends])
  body = [_cells(row, reach) for row in rows if row.name in languages.LANGUAGES]
  foot = [_cells(row, reach) for row in rows if row.name not in languages.LANGUAGES]
  return sortable.table(name, headings, body, foot, title)


def _cells(row: comparison_lib.Difference, reach: tuple[float, float]) -> list[str]:
  if row.name in languages.LANGUAGES:
    head = sortable.language_cells(
      row.name, ' <span class="flag">few references</span>' if row.few_references else ""
    )
    holm = sortable.number(row.p_holm, f"{row.p_holm:.3f}")
  else:
    head = [sortable.row_head(f"Mean, {tables.mean_label(row.name)}", span=2, classes="first")]
    holm = sortable.absent()
  ends = " to ".join(elements.signed(row.metric, end) for end in (row.low, row.high))
  return [
    *head,
    sortable.number(row.difference, elements.signed(row.metric, row.difference), "strong" * row.significant),
    sortable.text(_drawn(row, reach), repr(row.difference), "drawn"),
    sortable.number(row.high - row.low, ends, "soft"),
    sortable.number(row.p_bootstrap, f"{row.p_bootstrap:.3f}", "soft"),
    sortable.number(row.p_randomization, f"{row.p_randomization:.3f}", "soft"),
    holm,
  ]


def _drawn(row: comparison_lib.Difference, reach: tuple[float, float]) -> str:
  low, high = reach

  def x(value: float) -> float:
    return _PAD + (_WIDTH - 2 * _PAD) * ((value - low) / (high - low) if high > low else 0.5)

  middle = _HEIGHT / 2
  whisker = ""
  if not math.isnan(row.low):
    whisker = f'<path d="M{x(row.low):.1f} {middle:g}H{x(row.high):.1f}"/>'
  zero = f'<line x1="{x(0.0):.1f}" x2="{x(0.0):.1f}" y1="0" y2="{_HEIGHT}"/>'
  dot = f'<circle cx="{x(row.difference):.1f}" cy="{middle:g}" r="4"/>'
  classes = ["forest", "more" if row.difference > 0 else "less", *["significant"] * row.significant]
  return elements.tag(
    "svg",
    zero + whisker + dot,
    class_=" ".join(classes),
    viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
    aria_hidden="true",
  )
