"""The caption browser of the report: its controls, and the data for the scripts.

The captions of a language are one compressed block, so a browser decompresses only the languages that are viewed.
"""

import base64
import dataclasses
import gzip
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from xmcap import languages
from xmcap import processes as processes_lib
from xmcap.pages.report import elements, notes
from xmcap.pages.report.heat_map import region_name
from xmcap.pages.report.pictures import ReportPictures
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.health.faults import FAULTS
from xmcap.scoring.result import Result
from xmcap.scoring.tables import score_table

_PAGE_SIZE = 24  # cards
_LEVEL = 3  # gzip level: a third of the time of level 6 for a sixth more bytes
_WORDS = '<label class="check"><input type="checkbox" name="words"> as words</label>'
_PAGER = (
  '<button type="button" data-step="-1">Previous</button>'
  '<label>Page <input type="number" name="page" min="1" value="1" inputmode="numeric"></label>'
  '<span class="pages"></span><button type="button" data-step="1">Next</button>'
)


def keys_of(result: Result) -> list[str]:
  """Returns the keys of the images that were scored in any language, in the order of the references."""
  scored = {key for of_language in result.statistics.values() for key in of_language.keys}
  return [key for key in result.references if key in scored]


def section(
  systems: Mapping[str, Result], keys: Sequence[str], pictures: ReportPictures, baseline: str | None = None
) -> str:
  """Returns the section without the captions themselves, which come from `blocks`.

  The first system determines the images and languages. A card shows the difference of each system to the `baseline`,
  or else to the first system.
  """
  first = next(iter(systems.values()))
  table = first.table
  spoken = sorted((languages.get(language).english_name, language) for language in table.rows)
  shown = [(language, f"{name} ({language})") for name, language in spoken]
  orders = [("file", "file order"), ("worst", "lowest score first"), ("best", "highest score first")]
  names = list(systems)
  for i, name in enumerate(names[1:], 1):
    orders += [
      (f"differ-{i}", f"largest difference to {name}"),
      (f"ahead-{i}", f"furthest above {name}"),
      (f"behind-{i}", f"furthest below {name}"),
    ]
  scored_by = [(str(i), metrics_lib.METRICS[name].heading) for i, name in enumerate(table.metrics)]
  locales = getattr(first.references, "locales", {})
  region_of = [locales.get(key, "") for key in keys]
  regions = sorted({region for region in region_of if region})
  faults = _faults_of(systems.values())
  body = string.Template(elements.resource("captions.html")).substitute(
    languages=elements.options(shown, "en" if "en" in table.rows else next(iter(table.rows))),
    also="".join(
      f'<label class="check"><input type="checkbox" name="also" value="{language}"> {elements.escape(name)}</label>'
      for language, name in shown
    ),
    hide_also="" if len(shown) > 1 else " hidden",
    orders=elements.options(orders, "differ-1" if len(names) > 1 else "file"),
    metrics=elements.options(scored_by, str(table.metrics.index(table.primary))),
    hide_metrics="" if len(table.metrics) > 1 else " hidden",
    regions=elements.options([(region, f"{region_name(region)} ({region})") for region in regions], ""),
    hide_regions="" if regions else " hidden",
    faults=elements.options([(name, heading) for name, (heading, _) in faults.items()], ""),
    hide_faults="" if faults else " hidden",
    words=_WORDS if any(result.words for result in systems.values()) else "",
    pager=_PAGER,
    compare=" compare" if len(systems) > 1 else "",
  )
  heading = metrics_lib.METRICS[table.primary].heading
  note = f"All scored images, each with its {heading}. {elements.escape(pictures.note)}".strip()
  data = {
    **described(table, names),
    "pageSize": _PAGE_SIZE,
    "baseline": 0 if baseline is None else names.index(baseline),
    "keys": list(keys),
    "regions": [{"code": region, "name": region_name(region)} for region in regions],
    "regionOf": _places(region_of, regions),
    "faults": {name: {"heading": heading, "about": about} for name, (heading, about) in faults.items()},
    "pictures": pictures.data,
  }
  return elements.section("captions", "Captions", body, note) + elements.script_json("report-data", data)


def _faults_of(systems: Iterable[Result]) -> dict[str, tuple[str, str]]:
  """Returns those of `FAULTS` that a caption has."""
  healths = [health for system in systems for health in system.health.values()]
  return {
    name: about for name, about in FAULTS.items() if any(len(health.rows.get(name, ())) for health in healths)
  }


def described(table: score_table.Table, systems: Sequence[str]) -> dict[str, Any]:
  """Returns the data about systems, metrics and languages that the scripts of every report need."""
  metrics = [metrics_lib.METRICS[name] for name in table.metrics]
  return {
    "systems": systems,
    "metrics": [
      {
        "name": metric.name,
        "heading": metric.heading,
        "percent": metric.percent,
        "about": notes.anchor(metric.name),
        # The score of a caption that could not be better, of metrics in which a right caption may score less.
        "highest": 10 * table.factor(metric.name) if metric.name in ("cider", "cider_d") else 0,
        # As a percentage, or at scale 100, it shows two fewer.
        "decimals": metric.decimals - 2 * (metric.percent or table.factor(metric.name) == 100),
      }
      for metric in metrics
    ],
    "languages": {language: elements.language(language) for language in table.rows},
  }


def blocks(
  systems: Mapping[str, Result], keys: Sequence[str], pictures: ReportPictures, processes: int = 1
) -> Iterator[str]:
  """Yields the captions, one `<script>` per language, then the embedded pictures; `processes` share the languages."""
  places = {key: place for place, key in enumerate(keys)}
  results = list(systems.values())
  codes = tuple(results[0].table.rows)
  columns = {
    language: processes_lib.unshared(column(language, places, results), processes) for language in codes
  }
  packed = processes_lib.map_forked(
    lambda language: block(language, columns[language](), results), codes, processes
  )
  for language, content in zip(codes, packed, strict=True):
    kind = "application/octet-stream;base64"
    yield elements.tag("script", content, type=kind, id=f"captions-{language}") + "\n"
  for place, content in enumerate(pictures.blocks):
    yield elements.tag("script", content, type="text/plain", id=f"pictures-{place}") + "\n"


@dataclasses.dataclass(frozen=True)
class Column:
  """The captions of a language, without the strings of a result (see `processes.unshared`).

  Attributes:
    images: for each of I images, in the order of the report, its index there; None if it has all of them.
    rows: for each system, the row of each image in its statistics; -1 if it has no caption.
    references: the references of each image.
    captions: for each system, the caption of each image; None if it has none.
  """

  images: list[int] | None
  rows: list[list[int]]
  references: Sequence[Sequence[str]]
  captions: list[list[str | None]]


def column(language: str, places: Mapping[str, int], systems: Sequence[Result]) -> Column:
  """Returns the captions of a language; `places` has the index of each image in the report."""
  first = systems[0]
  keys = sorted(first.statistics[language].keys, key=places.__getitem__)
  images: list[int] | None = [places[key] for key in keys]
  images = None if images == list(range(len(places))) else images
  rows, captions = [], []
  for system in systems:
    order = _places(keys, system.statistics[language].keys if language in system.statistics else ())
    rows.append(order)
    captions.append(
      [system.predictions[key][language] if i >= 0 else None for key, i in zip(keys, order, strict=True)]
    )
  references = [first.references[key][language] for key in keys]
  return Column(images, rows, references, captions)


def block(language: str, column: Column, systems: Sequence[Result]) -> str:
  """Returns the captions of a language as base64 of gzip of JSON.

  The JSON object has
    images: for each of I images, in the order of the report, its index there; null if it has all of them.
    rows: for each image: the references; their words; then for each system its caption and the caption's words. Words
      are null if they were not kept, and a system's two entries are null if it has no caption. Similar texts are
      adjacent, which helps compression.
    scores: for each system and each metric of the first system: I numbers; null without a caption.
    faults: for each system an object: name of a fault -> the places in `rows` of the images whose caption has it.
  """
  first = systems[0]
  joined = [system.words[language].joined() if language in system.words else None for system in systems]
  of_references = [None if joined[0] is None else joined[0][i][1] for i in column.rows[0]]
  columns: list[Sequence] = [column.references, of_references]
  scores, faults = [], []
  for system, words, order, captions in zip(systems, joined, column.rows, column.captions, strict=True):
    scored = system.statistics.get(language)
    columns += [captions, [None if words is None or i < 0 else words[i][0] for i in order]]
    scores.append(
      [_scores(scored, metric, order, first.table.factor(metric)) for metric in first.table.metrics]
    )
    faults.append(_faults(system, language, order))
  value = {
    "images": column.images,
    "rows": list(zip(*columns, strict=True)),
    "scores": scores,
    "faults": faults,
  }
  try:
    text = msgspec.json.encode(value)
  except UnicodeEncodeError:  # an unpaired surrogate: impossible in a file, but a caller may pass one
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
  packed = gzip.compress(text, _LEVEL, mtime=0)
  return base64.b64encode(packed).decode("ascii")


def _scores(scored, metric: str, order: Sequence[int], factor: int) -> list[float | None] | None:
  if scored is None or metric not in scored.values:
    return None
  scores = np.round(factor * scored.image_scores(metric), metrics_lib.METRICS[metric].decimals).tolist()
  return [scores[i] if i >= 0 else None for i in order]


def _faults(system: Result, language: str, order: Sequence[int]) -> dict[str, list[int]]:
  """Returns fault -> its places in `order`, which has the rows of the statistics."""
  if language not in system.health:
    return {}
  place_of = {row: place for place, row in enumerate(order)}
  rows = system.health[language].rows
  return {
    name: [place_of[row] for row in rows[name].tolist() if row in place_of]
    for name in FAULTS
    if len(rows.get(name, ()))
  }


def _places(keys: Sequence[str], among: Sequence[str]) -> list[int]:
  """Returns the index of each string in `among`; -1 if absent."""
  place = {text: i for i, text in enumerate(among)}
  return [place.get(text, -1) for text in keys]
