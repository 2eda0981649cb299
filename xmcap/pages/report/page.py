"""Writes the report: its sections in order, in one file."""

import os
from collections.abc import Mapping

from xmcap import wording
from xmcap.pages.report import captions, differences, elements, health_table, heat_map, notes, scores
from xmcap.pages.report import pictures as pictures_lib
from xmcap.scoring import baselines as tables_beside
from xmcap.scoring.comparing import comparison as comparison_lib
from xmcap.scoring.result import Result
from xmcap.scoring.tables import score_table

_SCRIPTS = (
  "shared.js", "base.js", "drawing.js", "tables.js", "heat_map.js", "chart.js", "scores.js", "captions.js",
  "browser.js",
)  # fmt: skip


def write_report(
  path: str | os.PathLike,
  systems: Mapping[str, Result],
  *,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  read_picture: pictures_lib.Read | None = None,
  baselines: Mapping[str, score_table.Table] | None = None,
  comparison: comparison_lib.Comparison | None = None,
  processes: int = 1,
) -> None:
  """Writes the report: one HTML file that loads nothing from a network. The same input gives the same bytes.

  Args:
    systems: name -> result, one or more; the report leads with the first, and shows the others side by side with it,
      for the images and languages that they have.
    images_dir, pictures, read_picture: as in `pictures.choose`, whose errors are raised.
    baselines: name -> table of other predictions, shown in chart and table with the difference to each.
    comparison: differences with intervals and tests, from `xmcap.scoring.compare`. If its baseline is the first system,
      the second leads, the baseline comes last, and all differences are to it.
    processes: number of processes that compress the captions.
  """
  systems, baselines, baseline = dict(systems), baselines or {}, None
  if comparison is not None and len(systems) > 1 and comparison.baseline == next(iter(systems)):
    baseline = comparison.baseline
    systems[baseline] = systems.pop(baseline)
  (name, first), *rest = systems.items()
  table = first.table
  title = table.title or (name if rest else "Captions in many languages")
  if baseline is not None:
    *most, last = [system for system in systems if system != baseline]
    title = f"{', '.join(most)} and {last} against {baseline}" if most else f"{last} against {baseline}"
  if comparison is not None and comparison.title:
    title = comparison.title
  others = [(other, result.table) for other, result in rest] + list(baselines.items())
  shown_already = {tables_beside.heading(other, table.primary) for other in baselines}
  beside = [heading for heading in table.beside if heading not in shown_already]
  keys = captions.keys_of(first)
  chosen = pictures_lib.choose(pictures, keys, images_dir, path, read_picture)
  counts = f"{wording.count(len(keys), 'image')}, {wording.count(len(table.rows), 'language')}"
  header = notes.header(title, counts, table.signature)
  elements.write_page(
    path,
    title,
    style=elements.resources("base.css", "scores.css", "heat_map.css", "browser.css"),
    header_html=header + scores.TILES + notes.notices(table, others, name if rest else ""),
    sections_html={
      "languages": scores.chart_section(table),
      "table": scores.table_section(table),
      "differences": differences.section(comparison) if comparison else "",
      "health": health_table.section({key: result.health for key, result in systems.items()}),
      "regions" if first.slices.regions else "groups": heat_map.section(systems, baseline),
      "captions": captions.section(systems, keys, chosen, baseline),
      "reading": notes.reading(table, others, has_scripts=True),
    },
    data_html=elements.script_json("scores-data", scores.data(table, others, name, beside, baseline)),
    script=elements.resources(*_SCRIPTS),
    images=chosen.sources,
    more_data_html=captions.blocks(systems, keys, chosen, processes),
  )
