"""The browser of all pictures in all languages: controls, the data that scripts need, and a card to copy."""

from collections.abc import Iterator, Mapping, Sequence

from xmcap import languages
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.report import blocks, elements
from xmcap.scoring.report.heat_map import region_name
from xmcap.scoring.report.pictures import Pictures
from xmcap.scoring.result import Result

PAGE = 24
"""Cards on a page."""

BLOCK_TYPE = "application/octet-stream;base64"

_CARD = """<template id="card"><article class="card"><div class="picture"></div><div class="body">
<div class="systems"></div><ul class="references" aria-label="References"></ul>
<footer><span class="region"></span><code class="image-key"></code></footer></div></article></template>
<template id="system"><div class="system"><p class="system-head"><span class="system-name"></span>
<span class="score"></span></p><p class="caption"></p></div></template>"""


def keys_of(result: Result) -> list[str]:
  """Returns the keys of the images that were scored in some language, in the order of the references."""
  scored = {key for of_language in result.statistics.values() for key in of_language.keys}
  return [key for key in result.references if key in scored]


def section(systems: Mapping[str, Result], keys: Sequence[str], pictures: Pictures) -> str:
  """Returns the section, without the captions themselves: those are `data`.

  Args:
    systems: name -> result; the first one says which images and languages there are.
    keys: of the images.
    pictures: of the images.
  """
  names, first = list(systems), next(iter(systems.values()))
  metric = metrics_lib.METRICS[first.table.primary].heading
  start = "en" if "en" in first.table.rows else next(iter(first.table.rows))
  orders = [("file", "order of the file"), ("worst", "lowest score first"), ("best", "highest score first")]
  for i, name in enumerate(names[1:], 1):
    orders += [
      (f"differ-{i}", f"largest difference to {name}"),
      (f"ahead-{i}", f"most above {name}"),
      (f"behind-{i}", f"most below {name}"),
    ]
  locales = sorted({locale for locale in map(_locales(first).get, keys) if locale})
  regions = "".join(
    f'<option value="{elements.escape(locale)}">{elements.escape(region_name(locale))} ({elements.escape(locale)})'
    "</option>"
    for locale in locales
  )
  region = f'<label>Region <select name="region"><option value="">all</option>{regions}</select></label>'
  options = "".join(
    f'<option value="{code}"{" selected" if code == start else ""}>{languages.get(code).english_name} ({code})'
    "</option>"
    for code in sorted(first.table.rows, key=lambda code: languages.get(code).english_name)
  )
  words = '<label class="check"><input type="checkbox" name="words"> as words</label>'
  scored_by = "".join(
    f'<option value="{place}"{" selected" if name == first.table.primary else ""}>'
    f"{metrics_lib.METRICS[name].heading}</option>"
    for place, name in enumerate(first.table.metrics)
  )
  controls = f"""<div class="controls" role="search" aria-label="Choose captions">
<label>Language <select name="language">{options}</select></label>
<label>Order <select name="order">{
    "".join(f'<option value="{value}">{elements.escape(text)}</option>' for value, text in orders)
  }</select></label>
<label{"" if len(first.table.metrics) > 1 else " hidden"}>Score <select name="metric">{
    scored_by
  }</select></label>
{region if locales else ""}
<label>Text <input type="search" name="text" placeholder="caption or key" spellcheck="false"></label>
{words if any(result.words for result in systems.values()) else ""}</div>"""
  note = f"All images that were scored, with the {metric} of each. {elements.escape(pictures.note)}".strip()
  return elements.section(
    "captions",
    "Captions",
    f"""{controls}
<div class="status-line"><p id="shown" role="status" aria-live="polite">The captions are being unpacked.</p>
{_pager("top")}</div>
<noscript><p class="notices">The captions are packed: they need a browser that runs JavaScript.</p></noscript>
<div id="cards" class="cards{" compare" if len(systems) > 1 else ""}" tabindex="-1"></div>
<div class="status-line end">{_pager("bottom")}</div>
{_CARD}
""",
    note,
  ) + elements.script_json("report-data", _data(systems, keys, locales, pictures))


def data(systems: Mapping[str, Result], keys: Sequence[str], pictures: Pictures) -> Iterator[str]:
  """Yields the captions, a `<script>` a language, and then the embedded pictures."""
  places = {key: place for place, key in enumerate(keys)}
  results = list(systems.values())
  for code in results[0].table.rows:
    yield f'<script type="{BLOCK_TYPE}" id="captions-{code}">{blocks.block(code, places, results)}</script>\n'
  for place, held in enumerate(pictures.blocks):
    yield f'<script type="text/plain" id="pictures-{place}">{held}</script>\n'


def _pager(where: str) -> str:
  return (
    f'<nav class="pager" aria-label="Pages, {where}"><button type="button" data-step="-1">Previous</button>'
    '<label>Page <input type="number" name="page" min="1" value="1" inputmode="numeric"></label>'
    '<span class="pages"></span><button type="button" data-step="1">Next</button></nav>'
  )


def _data(
  systems: Mapping[str, Result], keys: Sequence[str], locales: Sequence[str], pictures: Pictures
) -> dict:
  first = next(iter(systems.values()))
  place = {locale: i for i, locale in enumerate(locales)}
  held = _locales(first)
  return {
    "pageSize": PAGE,
    "systems": list(systems),
    "metrics": [
      {
        "name": name,
        "heading": metrics_lib.METRICS[name].heading,
        "percent": metrics_lib.METRICS[name].percent,
        "decimals": elements.decimals(name),
        "scale": blocks.scale(name),
      }
      for name in first.table.metrics
    ],
    "languages": {
      code: {"name": languages.get(code).english_name, "direction": languages.get(code).direction}
      for code in first.table.rows
    },
    "keys": list(keys),
    "regions": [{"code": locale, "name": region_name(locale)} for locale in locales],
    "regionOf": [place.get(held.get(key, ""), -1) for key in keys],
    "pictures": pictures.data,
  }


def _locales(result: Result) -> Mapping[str, str]:
  return getattr(result.references, "locales", {})
