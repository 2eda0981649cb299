"""The page of the report: headline, chart, table, gallery, and how to read and reproduce it."""

import html
import importlib.resources
import os
from collections.abc import Mapping

from xmcap import languages
from xmcap.scoring import files, tables
from xmcap.scoring.predictions import Predictions
from xmcap.scoring.references import References
from xmcap.scoring.report import chart, gallery
from xmcap.scoring.scores import Scores

_METRICS = ("cider_d", "cider", "exact")
_BASELINE_METRIC = "cider_d"
_SORTED = ' aria-sort="ascending"'
_GROUPS = {"english": "English", "web": "web", "low_resource": "low-resource"}
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(
  path: str | os.PathLike,
  table: tables.Table,
  scores: Mapping[str, Scores],
  references: References,
  predictions: Predictions,
  images_dir: str | os.PathLike | None = None,
  baselines: Mapping[str, tables.Table] | None = None,
) -> None:
  """Writes the report: one HTML file that loads nothing, from a disk or from anywhere else.

  Args:
    path: the file to write.
    table: the scores by language.
    scores: the scores of every image, as `score_images` returned them.
    references, predictions: the captions that were scored.
    images_dir: folder with `KEY.jpg` or `KEY.png`; None: captions without pictures.
    baselines: name -> table of other predictions, shown beside in chart and table.

  Raises:
    XmcapError: the file cannot be written.
  """
  baselines = dict(baselines or {})
  title = html.escape(table.title or "Captions in many languages")
  images = len({key for of_language in scores.values() for key in of_language.keys})
  count = f"{len(table.rows)} language{'' if len(table.rows) == 1 else 's'}"
  files.write_text(
    path,
    f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>{_resource("report.css")}</style>
</head>
<body>
<a class="skip" href="#table-title">Skip to the table</a>
<main>
<header class="page-head"><p class="brand">xmcap report</p><h1>{title}</h1>
<p class="lede">{images:,} image{"" if images == 1 else "s"}, {count}</p></header>
{_headline(table, baselines)}
{_chart_section(table, baselines)}
{_table_section(table, baselines)}
{gallery.gallery(scores, references, predictions, images_dir)}
{_reading(table, baselines)}
</main>
<script>{_resource("report.js")}</script>
</body>
</html>
""",
  )


def _resource(name: str) -> str:
  return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _headline(table: tables.Table, baselines: Mapping[str, tables.Table]) -> str:
  name, mean = list(table.means.items())[-1]
  tiles = []
  for metric in _METRICS:
    beside = [(tables.mean_label(other), values) for other, values in table.means.items() if other != name]
    beside += [
      (label, baseline.means[name]) for label, baseline in baselines.items() if name in baseline.means
    ]
    items = "".join(
      f"<div><dt>{html.escape(label)}</dt><dd>{tables.format_score(metric, values[metric])}</dd></div>"
      for label, values in beside
    )
    tiles.append(
      f'<div class="tile"><p class="tile-name">{tables.COLUMNS[metric]}</p>'
      f'<p class="tile-score">{tables.format_score(metric, mean[metric])}</p>'
      f'<p class="note">mean, {tables.mean_label(name)}</p><dl>{items}</dl></div>'
    )
  return f'<section class="tiles" aria-label="Mean scores">{"".join(tiles)}</section>'


def _chart_section(table: tables.Table, baselines: Mapping[str, tables.Table]) -> str:
  metrics = "".join(
    _choice("metric", metric, tables.COLUMNS[metric], metric == _METRICS[0]) for metric in _METRICS
  )
  sorts = "".join(
    _choice("sort", by, text, by == "code")
    for by, text in (("code", "Code"), ("score", "Score"), ("group", "Group"))
  )
  panels = "".join(
    f'<div class="panel" data-metric="{metric}"{"" if metric == _METRICS[0] else " hidden"}>'
    f"{chart.chart(metric, table, baselines)}</div>"
    for metric in _METRICS
  )
  keys = [
    '<span><svg viewBox="0 0 14 14"><rect class="bar" x="2" y="2" width="10" height="10" rx="2"/></svg>'
    "this model</span>",
    '<span><svg viewBox="0 0 14 14"><line class="mean" x1="0" x2="14" y1="7" y2="7"/></svg>'
    f"its mean, {tables.mean_label(list(table.means)[-1])}</span>",
  ]
  keys += [
    f'<span><svg viewBox="0 0 14 14">{chart.mark(number, 7, 7)}</svg>{html.escape(name)}</span>'
    for number, name in enumerate(baselines)
  ]
  return f"""<section aria-labelledby="chart-title">
<header class="section-head"><div><h2 id="chart-title">By language</h2>
<p class="legend">{"".join(keys)}</p></div>
<div class="controls">
<fieldset class="choice"><legend>Metric</legend>{metrics}</fieldset>
<fieldset class="choice"><legend>Sort by</legend>{sorts}</fieldset>
</div></header>
<div class="sheet scroll" tabindex="0" role="group" aria-label="Chart of scores">{panels}</div>
</section>"""


def _choice(name: str, value: str, text: str, chosen: bool) -> str:
  return (
    f'<label><input type="radio" name="{name}" value="{value}"{" checked" if chosen else ""}>'
    f"<span>{text}</span></label>"
  )


def _table_section(table: tables.Table, baselines: Mapping[str, tables.Table]) -> str:
  headings = [
    ("Code", "text"),
    ("Language", "text"),
    ("Group", "text"),
    ("Images", "number"),
    *((text, "number") for text in tables.COLUMNS.values()),
  ]
  headings += [
    (f"{html.escape(name)} <small>{tables.COLUMNS[_BASELINE_METRIC]}</small>", "number baseline")
    for name in baselines
  ]
  head = "".join(
    f'<th scope="col" class="{kind}"{"" if place else _SORTED}><button type="button">{text}'
    '<span aria-hidden="true" class="arrow"></span></button></th>'
    for place, (text, kind) in enumerate(headings)
  )
  body = "".join(_row(code, row, baselines) for code, row in table.rows.items())
  foot = "".join(
    f'<tr><th scope="row" colspan="4">Mean, {tables.mean_label(name)}</th>'
    + "".join(_number(column, mean[column]) for column in tables.COLUMNS)
    + "".join(_baseline(baseline.means.get(name)) for baseline in baselines.values())
    + "</tr>"
    for name, mean in table.means.items()
  )
  return f"""<section aria-labelledby="table-title">
<header class="section-head"><h2 id="table-title">Table</h2></header>
<div class="sheet scroll" tabindex="0" role="group" aria-labelledby="table-title">
<table id="scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table>
</div></section>"""


def _row(code: str, row: Mapping[str, float], baselines: Mapping[str, tables.Table]) -> str:
  language = languages.get(code)
  group = _GROUPS[language.group] + ("" if language.trained else ", not trained")
  return (
    f'<tr><td><code>{code}</code></td><th scope="row" data-value="{language.english_name}">'
    f'{language.english_name} <bdi class="native" lang="{code}" dir="{language.direction}">'
    f"{language.native_name}</bdi></th>"
    f'<td class="group">{group}</td>'
    f'<td class="number" data-value="{row["images"]}">{row["images"]:,}</td>'
    + "".join(_number(column, row[column]) for column in tables.COLUMNS)
    + "".join(_baseline(baseline.rows.get(code)) for baseline in baselines.values())
    + "</tr>"
  )


def _number(column: str, score: float) -> str:
  return f'<td class="number" data-value="{score!r}">{tables.format_score(column, score)}</td>'


def _baseline(row: Mapping[str, float] | None) -> str:
  if row is None:
    return '<td class="number baseline" data-value="-1">–</td>'
  score = row[_BASELINE_METRIC]
  text = tables.format_score(_BASELINE_METRIC, score)
  return f'<td class="number baseline" data-value="{score!r}">{text}</td>'


def _reading(table: tables.Table, baselines: Mapping[str, tables.Table]) -> str:
  other = [name for name, baseline in baselines.items() if baseline.signature != table.signature]
  warning = (
    f'<p class="warning">Scored under another signature, so not strictly comparable: '
    f"{html.escape(', '.join(other))}.</p>"
    if other
    else ""
  )
  return f"""<section aria-labelledby="reading-title" class="reading">
<header class="section-head"><h2 id="reading-title">How to read this</h2></header>
<dl>
<div><dt>CIDEr</dt><dd>Agreement of a caption with its references: the mean cosine of their tf-idf vectors of
1- to 4-word sequences, times 10 (Vedantam et al., 2015, without stemming). From 0 to 10; a rare sequence
weighs more.</dd></div>
<div><dt>CIDEr-D</dt><dd>The same with repeated words clipped and length differences penalised, as in the COCO
evaluation. What many papers call CIDEr.</dd></div>
<div><dt>Exact</dt><dd>Share of captions equal to one of the references, but for case and
punctuation.</dd></div>
<div><dt>Between languages</dt><dd>Scores depend on what a word is and on how much references agree, so
compare systems in a language, not languages of a system.</dd></div>
</dl>
{warning}<p>Signature, all that is needed to get the same numbers again:</p>
<pre tabindex="0"><code>{html.escape(table.signature).replace("|", "<wbr>|")}</code></pre>
</section>"""
