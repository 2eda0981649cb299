"""Writes the report: its sections in order, in one file."""

import os
from collections.abc import Iterator, Mapping, Sequence

from xmcap.scoring import baselines as tables_beside
from xmcap.scoring import comparison as comparison_lib
from xmcap.scoring import files, tables
from xmcap.scoring.report import captions, differences, elements, health_table, heat_map, notes, scores
from xmcap.scoring.report import pictures as pictures_lib
from xmcap.scoring.result import Result

_STYLES = ("base.css", "scores.css", "heat_map.css", "browser.css")
_SCRIPTS = (
  "base.js", "drawing.js", "tables.js", "heat_map.js", "chart.js", "scores.js", "captions.js", "browser.js",
)  # fmt: skip


def write_report(
  path: str | os.PathLike,
  systems: Mapping[str, Result],
  *,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  read_picture: pictures_lib.Read | None = None,
  baselines: Mapping[str, tables.Table] | None = None,
  comparison: comparison_lib.Comparison | None = None,
  processes: int = 1,
) -> None:
  """Writes the report: one HTML file that loads nothing from a network. The same input gives the same bytes.

  Args:
    path: the file to write.
    systems: name -> result, one or more; the report leads with the first, and shows the others side by side with it,
      for the images and languages that they have.
    images_dir, pictures, read_picture: as in `pictures.choose`, whose errors are raised.
    baselines: name -> table of other predictions, shown in chart and table with the difference to each.
    comparison: differences with intervals and tests, from `xmcap.scoring.compare`. If its baseline is the first system,
      the second leads, the baseline comes last, and all differences are to it.
    processes: number of processes that compress the captions.
  """
  systems, baseline = dict(systems), None
  if comparison is not None and len(systems) > 1 and comparison.baseline == next(iter(systems)):
    baseline = comparison.baseline
    systems[baseline] = systems.pop(baseline)
  keys = captions.keys_of(next(iter(systems.values())))
  found = pictures_lib.choose(pictures, keys, images_dir, path, read_picture)
  parts = _parts(systems, keys, found, baselines or {}, comparison, baseline, processes)
  # A title or name from the command line may contain undecodable bytes, which a page cannot.
  files.write_lines(path, (part.encode("utf-8", "replace").decode("utf-8") for part in parts))


def _parts(
  systems: Mapping[str, Result],
  keys: Sequence[str],
  pictures: pictures_lib.ReportPictures,
  baselines: Mapping[str, tables.Table],
  comparison: comparison_lib.Comparison | None,
  baseline: str | None,
  processes: int,
) -> Iterator[str]:
  (name, first), *rest = systems.items()
  table = first.table
  others = [(other, result.table) for other, result in rest] + list(baselines.items())
  shown_already = {tables_beside.heading(other, table.primary) for other in baselines}
  beside = {heading: column for heading, column in table.beside.items() if heading not in shown_already}
  title = table.title or (name if rest else "Captions in many languages")
  if baseline is not None:
    *most, last = [system for system in systems if system != baseline]
    title = f"{', '.join(most)} and {last} against {baseline}" if most else f"{last} against {baseline}"
  sections = {
    "languages": scores.chart_section(table),
    "table": scores.table_section(table),
    "differences": differences.section(comparison) if comparison else "",
    "health": health_table.section({key: result.health for key, result in systems.items()}),
    "regions": heat_map.section(systems, baseline),
    "captions": captions.section(systems, keys, pictures, baseline),
    "reading": notes.reading(table, others),
  }
  styles = "".join(map(elements.resource, _STYLES))
  yield elements.page_head(title, styles, scripts=True, images=pictures.sources)
  yield elements.contents(sections, skip_to="table")
  yield '<noscript><p class="notices">The report needs JavaScript.</p></noscript>\n'
  num_images = f"{len(keys):,} image{'' if len(keys) == 1 else 's'}"
  num_languages = f"{len(table.rows)} language{'' if len(table.rows) == 1 else 's'}"
  yield f"""<header class="page-head"><h1>{elements.escape(title)}</h1>
<p class="lede">{num_images}, {num_languages}</p>
<p class="signature">{notes.short_signature(table.signature)}</p></header>
"""
  yield notes.notices(table, others, name if rest else "")
  yield scores.tiles_section()
  yield from sections.values()
  yield "</main>\n"
  yield elements.script_json("scores-data", scores.data(table, others, name, beside, baseline))
  yield elements.tag("script", "\n".join(map(elements.resource, _SCRIPTS))) + "\n"
  # After the scripts, so that the page is usable while the browser still reads the captions.
  yield from captions.blocks(systems, keys, pictures, processes)
  yield "</body>\n</html>\n"
