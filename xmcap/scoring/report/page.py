"""The page of the report: its sections in order, and the file that holds them."""

import os
from collections.abc import Iterator, Mapping, Sequence

from xmcap.scoring import comparison as comparison_lib
from xmcap.scoring import files, tables
from xmcap.scoring.report import (
  browser,
  chart,
  differences,
  elements,
  headline,
  health_table,
  heat_map,
  reading,
  score_table,
)
from xmcap.scoring.report import pictures as pictures_lib
from xmcap.scoring.result import Result

_STYLES = ("base.css", "scores.css", "heat_map.css", "browser.css")
_SCRIPTS = ("base.js", "scores.js", "heat_map.js", "captions.js", "browser.js")


def write_report(
  path: str | os.PathLike,
  systems: Mapping[str, Result],
  *,
  images_dir: str | os.PathLike | None = None,
  pictures: str = "embed",
  read_picture: pictures_lib.Read | None = None,
  baselines: Mapping[str, tables.Table] | None = None,
  comparison: comparison_lib.Comparison | None = None,
) -> None:
  """Writes the report: one HTML file that loads nothing from a network. The same input gives the same bytes.

  Args:
    path: the file to write.
    systems: name -> what was scored; the report is about the first, and the others are shown side by side with
      it, where they have the same images and languages.
    images_dir: folder with `KEY.jpg` or `KEY.png`; None: captions without pictures, unless there is `read_picture`.
    pictures: `embed`: small ones are held in the file, up to `pictures.BUDGET` characters, spread evenly over
      the images; `link`: the page points to the files in the folder by relative paths; `none`.
    read_picture: gives the bytes of a picture by its key, where pictures lie in no folder; it may be called by many
      threads.
    baselines: name -> table of other predictions, shown beside in chart and table. Differences are those to
      the first of them, or else to the second system.
    comparison: differences with intervals and tests, as `xmcap.scoring.compare` returned them. If the first system is
      its baseline, differences in all sections are those of the others to it, not of it to the others.

  Raises:
    UsageError: there is no such way to show pictures, or the pictures to link to are in no folder.
    XmcapError: the file cannot be written.
    ValueError: there is no system.
  """
  if not systems:
    raise ValueError("a report is about one system or more")
  first = next(iter(systems.values()))
  keys = browser.keys_of(first)
  found = pictures_lib.choose(pictures, keys, images_dir, path, read_picture)
  # A title or name may hold bytes of a terminal that are no text; a page must.
  parts = (
    part.encode("utf-8", "replace").decode("utf-8")
    for part in _parts(systems, keys, found, dict(baselines or {}), comparison)
  )
  files.write_lines(path, parts)


def _parts(
  systems: Mapping[str, Result],
  keys: list[str],
  found: pictures_lib.Pictures,
  baselines: Mapping[str, tables.Table],
  comparison: comparison_lib.Comparison | None,
) -> Iterator[str]:
  (name, first), *rest = systems.items()
  table = first.table
  others = [(other, result.table) for other, result in rest] + list(baselines.items())
  reference = len(rest) if baselines else 0 if rest else None
  baseline = None
  if rest and comparison is not None and comparison.baseline == name:
    baseline, reference = name, None
    title = f"{_listed([other for other, _ in rest])} against {name}"
  else:
    title = table.title or name or "Captions in many languages"
  sections = {
    "languages": ("Languages", chart.section(table, others, name)),
    "table": (
      "Table",
      score_table.section(table, others, reference, baseline),
    ),
    "differences": ("Differences", differences.section(comparison) if comparison else ""),
    "health": ("Health", health_table.section({key: held.health for key, held in systems.items()})),
    "regions": ("Regions", heat_map.section(systems, baseline is not None)),
    "captions": ("Captions", browser.section(systems, keys, found)),
    "reading": ("Reading", reading.section(table, others)),
  }
  links = "".join(f'<a href="#{key}">{text}</a>' for key, (text, body) in sections.items() if body)
  count = f"{len(table.rows)} language{'' if len(table.rows) == 1 else 's'}"
  styles = "".join(map(elements.resource, _STYLES))
  yield elements.page_head(elements.escape(title), styles, scripts=True, images=found.sources)
  yield f"""<a class="skip" href="#table">Skip to the table</a>
<nav class="contents" aria-label="Sections"><a class="brand" href="#top">xmcap</a>{links}</nav>
<main id="top">
<header class="page-head"><h1>{elements.escape(title)}</h1>
<p class="lede">{len(keys):,} image{"" if len(keys) == 1 else "s"}, {count}</p>
<p class="signature"><code>{_breakable(headline.short_signature(table.signature))}</code></p></header>
"""
  yield headline.notices(table, others, name if rest else "")
  yield headline.tiles(table, others, baseline)
  for _, body in sections.values():
    yield body
  yield "</main>\n"
  yield f"<script>\n{''.join(map(elements.resource, _SCRIPTS))}</script>\n"
  # After the scripts, so that the page can be used while the captions are still being read from the disk.
  yield from browser.data(systems, keys, found)
  yield "</body>\n</html>\n"


def _listed(names: Sequence[str]) -> str:
  return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _breakable(signature: str) -> str:
  return elements.escape(signature).replace("|", "<wbr>|")
