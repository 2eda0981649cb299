"""The report for scores of embeddings or tags: means, chart, table; for zero-shot, also classes and images."""

import math
import os
import pathlib
from typing import Any

import numpy as np

from xmcap import languages, wording
from xmcap.files import files
from xmcap.pages.report import captions, elements, heat_map, notes, scores
from xmcap.pages.report import pictures as pictures_lib
from xmcap.ranked import class_curve
from xmcap.ranked.zero_shot import ZeroShot
from xmcap.scoring.statistics import means
from xmcap.scoring.statistics.statistics_file import STATISTICS_FILE, write_statistics
from xmcap.scoring.system import System
from xmcap.scoring.tables import score_table

_SCRIPTS = ("shared.js", "base.js", "drawing.js", "tables.js", "heat_map.js", "chart.js", "scores.js")
_SYSTEM = "these scores"
_TITLES = {
  "classes": "Zero-shot classification",
  "captions": "Retrieval",
  "candidates": "Retrieval",
  "tags": "Tags",
}
_CURVE = "class_curve.csv"
_MAX_CLASSES = 60
_MAX_EXAMPLES = 48
_MAX_GUESSES = 6  # languages per example


def write_results(
  out: str | os.PathLike, result: System, images_dir: str | os.PathLike | None = None
) -> None:
  """Writes tables, statistics and report into a folder; for zero-shot classification also classes.csv.

  The report is one HTML file that loads nothing from a network. The same input gives the same bytes. For zero-shot
  classification it shows some of the images of `images_dir`, a folder with `KEY.jpg` or `KEY.png`.
  """
  table = result.table
  table.write(out)
  write_statistics(pathlib.Path(out, STATISTICS_FILE), result.statistics)
  zero_shot = result if isinstance(result, ZeroShot) else None
  if zero_shot:
    files.write_text(pathlib.Path(out, "classes.csv"), zero_shot.classes_csv())
    if zero_shot.curves:
      files.write_text(pathlib.Path(out, _CURVE), class_curve.csv(zero_shot.curves))
    else:
      files.remove(pathlib.Path(out, _CURVE))  # of an earlier run
  title = table.title or next(title for count, title in _TITLES.items() if count in table.counts)
  images = int(max(row["images"] for row in table.rows.values()))
  counts = f"{wording.count(images, 'image')}, {wording.count(len(table.rows), 'language')}"
  header = notes.header(title, counts, table.signature)
  elements.write_page(
    pathlib.Path(out, "report.html"),
    title,
    style=elements.resources("base.css", "scores.css", "heat_map.css", "examples.css"),
    header_html=header + scores.TILES + notes.notices(table, ()),
    sections_html={
      "languages": scores.chart_section(table),
      "table": scores.table_section(table),
      "means": _means(table) if zero_shot else "",
      "curve": _curve(zero_shot) if zero_shot and zero_shot.curves else "",
      "classes": _classes(zero_shot) if zero_shot else "",
      "pictures": _examples(zero_shot, images_dir) if zero_shot and images_dir else "",
      "reading": notes.reading(table, ()),
    },
    data_html=elements.script_json("report-data", captions.described(table, [_SYSTEM]))
    + elements.script_json("scores-data", scores.data(table, (), _SYSTEM)),
    script=elements.resources(*_SCRIPTS),
    images="data:",
  )


def _means(table: score_table.Table) -> str:
  """Returns the languages that each mean is over."""
  items = "".join(
    f"<div><dt>{elements.escape(score_table.mean_label(name))}</dt><dd>{wording.count(len(codes), 'language')}: "
    f"{elements.escape(', '.join(codes))}</dd></div>"
    for name, codes in means.mean_groups(table.rows).items()
  )
  return elements.section("means", "Languages of each mean", f'<dl class="entries">{items}</dl>')


def _curve(result: ZeroShot) -> str:
  """Returns top-1 over the number of classes."""
  note = f"A dot is a draw of random classes; the line is the log-linear fit. {_CURVE} has every draw."
  label = "Top-1 over the number of classes"
  body = elements.tag(
    "div", class_curve.svg(result.curves), class_="sheet scroll", tabindex=0, role="group", aria_label=label
  )
  return elements.section("curve", label, body, note)


def _classes(result: ZeroShot) -> str:
  """Returns the heat map of languages and the classes whose scores differ most between languages."""
  codes = list(result.table.rows)
  names = _names(result)
  classes = np.array(sorted(names))
  top1 = np.full((len(classes), len(codes)), np.nan)
  images = np.zeros(len(classes), np.int64)
  for column, language in enumerate(codes):
    of_language = result.classes[language]
    rows = np.searchsorted(classes, of_language.labels.indices)
    top1[rows, column] = of_language.top1
    images[rows] = np.maximum(images[rows], of_language.images)
  spread = np.full(len(classes), -1.0)
  in_several = np.count_nonzero(~np.isnan(top1), axis=1) > 1
  spread[in_several] = np.nanstd(top1[in_several], axis=1)
  chosen = np.sort(np.argsort(-spread, kind="stable")[:_MAX_CLASSES])
  mean = list(result.table.means)[-1]
  of_all = [*(result.table.rows[language]["top1"] for language in codes), result.table.means[mean]["top1"]]
  data: dict[str, Any] = {
    "regions": [
      {"code": names[index], "name": f"{index}", "images": count}
      for index, count in zip(classes[chosen].tolist(), images[chosen].tolist(), strict=True)
    ],
    "row": "class",
    "column": "names",
    "all": "all classes",
    "columns": [
      *({"code": language, "name": languages.get(language).english_name} for language in codes),
      {"code": "mean", "name": f"mean of these languages; of all classes, {score_table.mean_label(mean)}"},
    ],
    "scores": [{"top1": [of_all, *map(_with_mean, top1[chosen])]}],
    "pairs": [],
  }
  note = "A row is a class, a column a language. classes.csv has every class."
  if len(classes) > len(chosen):
    note = f"The {len(chosen)} of {len(classes):,} classes whose scores differ most between languages. {note}"
  views = [("score", "score"), ("own", "difference to all classes")]
  body = heat_map.holder("Top-1 by class and language", named=True) + elements.script_json("heat-data", data)
  return elements.section("classes", "Class by language", body, note, heat_map.view_controls(views))


def _with_mean(shares: np.ndarray) -> list[float | None]:
  """Returns the shares of a class in each language, then their mean; None if unknown."""
  scored = shares[~np.isnan(shares)]
  mean = float(scored.mean()) if len(scored) else math.nan
  return [None if math.isnan(share) else round(share, 5) for share in [*shares.tolist(), mean]]


def _examples(result: ZeroShot, folder: str | os.PathLike) -> str:
  """Returns images with their predicted classes in some languages; "" if the folder has none of the images."""
  classified = np.logical_or.reduce([classes >= 0 for classes in result.predicted.values()])
  keys = sorted(result.keys[place] for place in np.flatnonzero(classified).tolist())
  step = max(1, len(keys) // _MAX_EXAMPLES)
  cards = []
  for key, path in pictures_lib.find_all(folder, keys[::step][:_MAX_EXAMPLES]).items():
    uri = pictures_lib.data_uri(path)
    if uri is not None:
      picture = f'<img src="{uri}" alt="" loading="lazy">'
      cards.append(elements.tag("figure", f"{picture}<figcaption>{_guesses(result, key)}</figcaption>"))
  if not cards:
    return ""
  note = f"{wording.count(len(cards), 'picture')} of {len(keys):,}, evenly spaced. A tick marks a correct prediction."
  return elements.section(
    "pictures", "Predicted classes", elements.tag("div", "".join(cards), class_="examples"), note
  )


def _guesses(result: ZeroShot, key: str) -> str:
  place = result.keys.index(key)
  codes = [language for language in result.predicted if result.predicted[language][place] >= 0]
  codes = sorted(codes, key=lambda language: language != "en")[:: max(1, len(codes) // _MAX_GUESSES)][
    :_MAX_GUESSES
  ]
  lines = []
  for language in codes:
    name = result.classes[language].labels.names[result.predicted[language][place]]
    hit = result.statistics[language].image_scores("top1")[result.statistics[language].keys.index(key)]
    mark = "\u2713" if hit == 1 else "\u00b7"
    text = elements.tag("bdi", elements.escape(name), lang=language, dir=languages.get(language).direction)
    lines.append(
      elements.tag(
        "li", f"<b>{mark}</b> <code>{language}</code> {text}", class_="right" if hit == 1 else None
      )
    )
  return f"<code>{elements.escape(key)}</code><ul>{''.join(lines)}</ul>"


def _names(result: ZeroShot) -> dict[int, str]:
  """Returns class -> name: in English, or else in the first language that has it."""
  names: dict[int, str] = {}
  for language in sorted(result.classes, key=lambda language: language != "en"):
    labels = result.classes[language].labels
    names = dict(zip(labels.indices.tolist(), labels.names, strict=True)) | names
  return names
