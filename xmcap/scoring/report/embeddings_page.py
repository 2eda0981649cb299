"""The report for scores of embeddings or tags: means, chart, table; for zero-shot, also classes and pictures."""

import math
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xmcap import languages
from xmcap.scoring import files, tables
from xmcap.scoring.report import captions, elements, heat_map, notes, scores
from xmcap.scoring.report import pictures as pictures_lib
from xmcap.scoring.statistics_file import STATISTICS_FILE, write_statistics
from xmcap.scoring.system import System
from xmcap.scoring.zero_shot import ZeroShot

_STYLES = ("base.css", "scores.css", "heat_map.css", "examples.css")
_SCRIPTS = ("base.js", "drawing.js", "tables.js", "heat_map.js", "chart.js", "scores.js")
_SYSTEM = "these scores"
_TITLES = {
  "classes": "Zero-shot classification",
  "captions": "Retrieval",
  "candidates": "Retrieval",
  "tags": "Tags",
}
_MAX_CLASSES = 60
_MAX_EXAMPLES = 48
_MAX_GUESSES = 6  # languages per example


def write_results(
  out: str | os.PathLike, result: System, images_dir: str | os.PathLike | None = None
) -> None:
  """Writes tables, statistics and report into a folder; for zero-shot classification also classes.csv."""
  result.table.write(out)
  write_statistics(pathlib.Path(out, STATISTICS_FILE), result.statistics)
  found = result if isinstance(result, ZeroShot) else None
  write_report(pathlib.Path(out, "report.html"), result.table, found, images_dir)
  if found:
    files.write_text(pathlib.Path(out, "classes.csv"), found.classes_csv())


def write_report(
  path: str | os.PathLike,
  table: tables.Table,
  found: ZeroShot | None = None,
  images_dir: str | os.PathLike | None = None,
) -> None:
  """Writes the report: one HTML file that loads nothing from a network. The same input gives the same bytes.

  Args:
    path: the file to write.
    table: the table of `score_zero_shot`, `score_retrieval`, `score_matrix` or `score_tags`.
    found: scores by class and predictions by picture; None: no such sections.
    images_dir: folder with `KEY.jpg` or `KEY.png`; some of the pictures are shown.
  """
  files.write_lines(
    path, (part.encode("utf-8", "replace").decode() for part in _parts(table, found, images_dir))
  )


def _parts(
  table: tables.Table, found: ZeroShot | None, images_dir: str | os.PathLike | None
) -> Iterator[str]:
  title = table.title or next(title for count, title in _TITLES.items() if count in table.counts)
  sections = {
    "languages": scores.chart_section(table),
    "table": scores.table_section(table),
    "classes": _classes(found) if found else "",
    "pictures": _examples(found, pathlib.Path(images_dir)) if found and images_dir else "",
    "reading": notes.reading(table, ()),
  }
  yield elements.page_head(title, "".join(map(elements.resource, _STYLES)), scripts=True, images="data:")
  yield elements.contents(sections, skip_to="table")
  yield '<noscript><p class="notices">The report needs JavaScript.</p></noscript>\n'
  most = max(row["images"] for row in table.rows.values())
  lede = f"{files.count(int(most), 'image')}, {files.count(len(table.rows), 'language')}"
  yield f"""<header class="page-head"><h1>{elements.escape(title)}</h1>
<p class="lede">{lede}</p>
<p class="signature">{notes.short_signature(table.signature)}</p></header>
"""
  yield notes.notices(table, ())
  yield scores.tiles_section()
  yield from sections.values()
  yield "</main>\n"
  yield elements.script_json("report-data", captions.described(table, [_SYSTEM]))
  yield elements.script_json("scores-data", scores.data(table, (), _SYSTEM))
  yield elements.tag("script", "\n".join(map(elements.resource, _SCRIPTS))) + "\n"
  yield "</body>\n</html>\n"


def _classes(found: ZeroShot) -> str:
  """Returns the heat map of languages and the classes whose scores differ most between languages."""
  codes = list(found.table.rows)
  held = {
    code: dict(zip(of.labels.indices.tolist(), zip(of.top1, of.images, strict=True), strict=True))
    for code, of in found.classes.items()
  }
  every = sorted({index for of_language in held.values() for index in of_language})
  spread = {
    index: _spread([held[code][index][0] for code in codes if index in held[code]]) for index in every
  }
  chosen = sorted(sorted(every, key=lambda index: -spread[index])[:_MAX_CLASSES])
  names = _names(found)
  rows = []
  for index in chosen:
    images = max(int(held[code][index][1]) for code in codes if index in held[code])
    rows.append({"code": names[index], "name": f"{index}", "images": images})
  mean = list(found.table.means)[-1]
  first = [found.table.rows[code]["top1"] for code in codes]
  values: list[list[float | None]] = [[*first, found.table.means[mean]["top1"]]]
  for index in chosen:
    row = [_share(held[code][index][0]) if index in held[code] else None for code in codes]
    values.append(
      [*row, float(np.mean(known)) if (known := [one for one in row if one is not None]) else None]
    )
  data: dict[str, Any] = {
    "regions": rows,
    "row": "class",
    "column": "names",
    "all": "all classes",
    "columns": [
      *({"code": code, "name": languages.get(code).english_name} for code in codes),
      {"code": "mean", "name": f"mean of these languages; of all classes, {tables.mean_label(mean)}"},
    ],
    "scores": [{"top1": values}],
    "pairs": [],
  }
  note = "A row is a class, a column a language. classes.csv has every class."
  if len(every) > len(chosen):
    note = f"The {len(chosen)} of {len(every):,} classes whose scores differ most between languages. {note}"
  views = [("score", "score"), ("own", "difference to all classes")]
  body = heat_map.holder("Top-1 by class and language", named=True) + elements.script_json("heat-data", data)
  return elements.section("classes", "Class by language", body, note, heat_map.view_controls(views))


def _examples(found: ZeroShot, folder: pathlib.Path) -> str:
  """Returns pictures with their predicted classes in some languages; "" if the folder has none of the pictures."""
  keys = sorted({key for of_language in found.predicted.values() for key in of_language})
  step = max(1, len(keys) // _MAX_EXAMPLES)
  cards = []
  for key, path in pictures_lib.find_all(folder, keys[::step][:_MAX_EXAMPLES]).items():
    uri = pictures_lib.data_uri(path)
    if uri is not None:
      picture = f'<img src="{uri}" alt="" loading="lazy">'
      cards.append(elements.tag("figure", f"{picture}<figcaption>{_guesses(found, key)}</figcaption>"))
  if not cards:
    return ""
  note = f"{files.count(len(cards), 'picture')} of {len(keys):,}, evenly spaced. A tick marks a correct prediction."
  return elements.section(
    "pictures", "Predicted classes", elements.tag("div", "".join(cards), class_="examples"), note
  )


def _guesses(found: ZeroShot, key: str) -> str:
  codes = [code for code in found.predicted if key in found.predicted[code]]
  codes = sorted(codes, key=lambda code: code != "en")[:: max(1, len(codes) // _MAX_GUESSES)][:_MAX_GUESSES]
  lines = []
  for code in codes:
    name = found.classes[code].labels.names[found.predicted[code][key]]
    hit = found.statistics[code].image_scores("top1")[found.statistics[code].keys.index(key)]
    mark = "\u2713" if hit == 1 else "\u00b7"
    text = elements.tag("bdi", elements.escape(name), lang=code, dir=languages.get(code).direction)
    lines.append(
      elements.tag("li", f"<b>{mark}</b> <code>{code}</code> {text}", class_="right" if hit == 1 else None)
    )
  return f"<code>{elements.escape(key)}</code><ul>{''.join(lines)}</ul>"


def _names(found: ZeroShot) -> dict[int, str]:
  """Returns class -> name: in English, or else in the first language that has it."""
  names: dict[int, str] = {}
  for code in sorted(found.classes, key=lambda code: code != "en"):
    labels = found.classes[code].labels
    names = dict(zip(labels.indices.tolist(), labels.names, strict=True)) | names
  return names


def _spread(shares: Sequence[float]) -> float:
  known = [share for share in shares if not math.isnan(share)]
  return float(np.std(known)) if len(known) > 1 else -1.0


def _share(value: float) -> float | None:
  return None if math.isnan(value) else round(float(value), 5)
