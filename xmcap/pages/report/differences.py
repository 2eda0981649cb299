"""The differences of a comparison with their intervals: one row per language, as a drawing and as numbers."""

import math
from collections.abc import Sequence

from xmcap import languages
from xmcap.pages.report import elements
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.comparing import comparison as comparison_lib
from xmcap.scoring.tables import score_table


def section(comparison: comparison_lib.Comparison) -> str:
  """Returns the section with a table for each system and metric, one of which is shown at a time."""
  panels, titles, data = {}, [], []
  for system, metric in dict.fromkeys((row.system, row.metric) for row in comparison.rows):
    rows = [row for row in comparison.rows if (row.system, row.metric) == (system, metric)]
    place = str(len(panels))
    title = f"{metrics_lib.METRICS[metric].heading}: {system} minus {comparison.baseline}"
    summary = f"{title}. {_summary(rows, comparison.baseline)}"
    panels[place] = elements.tag("p", elements.escape(summary), class_="panel-title")
    panels[place] += elements.table_holder(title, id=f"differences-{place}")
    titles.append((place, title))
    factor = metrics_lib.METRICS[metric].factor(comparison.scale)
    data.append({"metric": metric, "rows": [_row(row, factor) for row in rows]})
  note = (
    f"95% intervals by the paired bootstrap, with {comparison.resamples:,} resamples of the images, the same in all "
    f"languages. A filled dot means p (Holm) below {comparison_lib.SIGNIFICANCE:g}: the p-value of approximate "
    f"randomisation, corrected for the number of languages; the p-value of a mean is not corrected. "
    f"{comparison.too_few_resamples}"
  ).strip()
  choice = elements.choice("difference-pair", "Compare", titles, buttons=False)
  body = elements.panels("pair", panels) + elements.script_json("differences-data", data)
  return elements.section("differences", "Differences", body, note, choice)


def _summary(rows: Sequence[comparison_lib.Difference], baseline: str) -> str:
  of_languages = [row for row in rows if languages.is_known(row.name)]
  higher = sum(row.significant and row.difference > 0 for row in of_languages)
  lower = sum(row.significant and row.difference < 0 for row in of_languages)
  rest = len(of_languages) - higher - lower
  return (
    f"Higher than {baseline} in {higher}, lower in {lower}, no significant difference in {rest} of "
    f"{len(of_languages)} languages."
  )


def _row(row: comparison_lib.Difference, factor: int) -> dict:
  """Returns the row for the script; `code` is None for a mean, and unknown numbers are None."""
  is_language = languages.is_known(row.name)
  numbers = {
    "difference": factor * row.difference, "low": factor * row.low, "high": factor * row.high,
    "bootstrap": row.p_bootstrap, "randomisation": row.p_randomization, "holm": row.p_holm if is_language else None,
  }  # fmt: skip
  return {
    "code": row.name if is_language else None,
    "label": None if is_language else f"Mean, {score_table.mean_label(row.name)}",
    **{key: None if value is None or math.isnan(value) else value for key, value in numbers.items()},
    "significant": bool(row.significant),
    "few": bool(row.few_references),
  }
