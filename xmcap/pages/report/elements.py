"""HTML fragments shared by the pages. Arguments are plain text unless their name ends in `_html`."""

import base64
import hashlib
import html
import importlib.resources
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xmcap import languages, wording
from xmcap.files import files
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.tables import note_order

_MAX_BUTTONS = 4  # more options than this become a drop-down list


def escape(text: str) -> str:
  """Escapes text for HTML, including attributes; characters that HTML forbids become U+FFFD."""
  return html.escape("".join(char if char >= " " or char in "\t\n" else "\ufffd" for char in text))


def tag(name: str, content_html: str, /, **attributes: str | int | bool | None) -> str:
  """Returns an element; `class_` and `data_value` become `class` and `data-value`; None and False are left out."""
  written = "".join(
    f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
    for key, value in attributes.items()
    if value is not None and value is not False
  )
  return f"<{name}{written}>{content_html}</{name}>"


def resource(name: str, package: str = "xmcap.pages.report") -> str:
  """Returns a style sheet, script or template of a package."""
  return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def resources(*names: str) -> str:
  """Returns several style sheets or scripts of the reports."""
  return "\n".join(map(resource, names))


def write_page(
  path: str | os.PathLike,
  title: str,
  *,
  style: str,
  header_html: str,
  sections_html: Mapping[str, str],
  data_html: str,
  script: str,
  images: str = "'none'",
  more_data_html: Iterable[str] = (),
) -> None:
  """Writes a page that loads nothing from a network; style and images as for `page_head`.

  Args:
    sections_html: id -> section, which may be "".
    data_html: data that the script reads at once.
    more_data_html: data behind the script, so that the page is usable while the browser still reads them.
  """

  def parts() -> Iterator[str]:
    yield page_head(title, style, script, images)
    yield _contents(sections_html)
    yield '<noscript><p class="notices">This page needs JavaScript.</p></noscript>\n'
    yield header_html
    yield from sections_html.values()
    yield f"</main>\n{data_html}{inline('script', script)}"
    yield from more_data_html
    yield "</body>\n</html>\n"

  # A name from the command line may contain undecodable bytes, which a page cannot.
  files.write_lines(path, (part.encode("utf-8", "replace").decode() for part in parts()))


def page_head(
  title: str,
  style: str,
  script: str = "",
  images: str = "'none'",
  reload_seconds: int = 0,
  language: str = "en",
) -> str:
  """Returns a page up to `<body>`, with a Content-Security-Policy under which it can load nothing.

  Only this style sheet and this script apply, by their hashes: `script` is the text of the page's one `inline` script.
  Style attributes and handlers in attributes do not work. `images` is the policy's value for images. The page reloads
  itself every so many seconds; 0: never. `language` is that of its words.
  """
  style = resource("shared.css") + style
  policy = f"default-src 'none'; img-src {images}; style-src {_hash(style)}"
  if script:
    policy += f"; script-src {_hash(script)}"
  direction = ' dir="rtl"' if languages.get(language).direction == "rtl" else ""
  reload = f'\n<meta http-equiv="refresh" content="{reload_seconds}">' if reload_seconds else ""
  return f"""<!doctype html>
<html lang="{language}"{direction}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">{reload}
<title>{escape(title)}</title>
{inline("style", style)}</head>
<body>
"""


def card_page(
  title: str, style: str, lede_html: str, header_html: str, cards_html: Iterable[str], reload_seconds: int = 0
) -> Iterator[str]:
  """Yields a page of cards with pictures, and with no script; `style` is the name of their style sheet."""
  yield page_head(title, resources("base.css", style), images="data:", reload_seconds=reload_seconds)
  yield f"""<main id="top">
<header class="page-head"><h1>{escape(title)}</h1>
<p class="lede">{lede_html}</p>
{header_html}</header>
<div class="cards">
"""
  yield from cards_html
  yield "</div>\n</main>\n</body>\n</html>\n"


def picture_uri(content: bytes, kind: str = "jpeg") -> str:
  """Returns a picture as a data URI."""
  return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def inline(name: str, text: str) -> str:
  """Returns a `<style>` or `<script>` with this text, as a page's policy names it."""
  return f"<{name}>\n{text}</{name}>\n"


def _hash(text: str) -> str:
  """The source of an inline style sheet or script by its hash (Content Security Policy 3, hash-source)."""
  digest = hashlib.sha256(f"\n{text}".encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"


def _contents(sections_html: Mapping[str, str]) -> str:
  """Returns the bar of links to the non-empty sections (id -> HTML), and the start tag of `<main>`.

  A hidden first link lets keyboard users skip to the table, whose section is `table`, or else the first.
  """
  names = [name for name, body in sections_html.items() if body]
  items = "".join(tag("a", name.capitalize(), href=f"#{name}") for name in names)
  return f"""<a class="skip" href="#{"table" if "table" in names else names[0]}">Skip to the table</a>
<nav class="contents" aria-label="Sections"><a class="brand" href="#top">xmcap</a>{items}</nav>
<main id="top">
"""


def notices(lines_html: Sequence[str]) -> str:
  """Returns a box with the lines, of many only the first open; "" if there are none."""
  items = [tag("li", line) for line in lines_html]
  most = len(items) if len(items) <= note_order.MOST_OPEN + 1 else note_order.MOST_OPEN
  folded = ""
  if items[most:]:
    more = tag("summary", wording.count(len(items) - most, "more note"))
    folded = tag("details", more + tag("ul", "".join(items[most:])))
  box = tag("ul", "".join(items[:most])) + folded
  return f'<aside class="notices" aria-label="Notes">{box}</aside>\n' if items else ""


def section(name: str, title: str, body_html: str, note_html: str = "", controls_html: str = "") -> str:
  """Returns a section of the page, with the anchor `#name`."""
  note = tag("p", note_html, class_="note") if note_html else ""
  controls = tag("div", controls_html, class_="controls") if controls_html else ""
  return f"""<section id="{name}" aria-labelledby="{name}-title">
<header class="section-head"><div><h2 id="{name}-title">{escape(title)}</h2>{note}</div>{controls}</header>
{body_html}
</section>
"""


def language(code: str) -> dict[str, str]:
  """Returns what scripts need to know about a language."""
  entry = languages.get(code)
  return {
    "code": entry.code,
    "name": entry.english_name,
    "native": entry.native_name,
    "direction": entry.direction,
  }


def script_json(name: str, value: object) -> str:
  """Returns a `<script>` with JSON data and an id, for the scripts of the page."""
  # Inside <script>, only "<" can end the element or start a comment.
  text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
  return f'<script type="application/json" id="{name}">{text}</script>\n'


def options(texts: Sequence[tuple[str, str]], chosen: str) -> str:
  """Returns the `<option>`s of (value, text)."""
  return "".join(tag("option", escape(text), value=value, selected=value == chosen) for value, text in texts)


def choice(
  name: str, legend: str, texts: Sequence[tuple[str, str]], chosen: str = "", buttons: bool = True
) -> str:
  """Returns a control to choose one of (value, text): radio buttons if they are few, else a drop-down list.

  Returns "" for a single option. `buttons` is False for texts that may be long.
  """
  if len(texts) < 2:
    return ""
  chosen = chosen or texts[0][0]
  if not buttons or len(texts) > _MAX_BUTTONS:
    return tag("label", f"{escape(legend)} {tag('select', options(texts, chosen), name=name)}", class_="pick")
  items = "".join(
    f'<label><input type="radio" name="{name}" value="{escape(value)}"{" checked" if value == chosen else ""}>'
    f"<span>{escape(text)}</span></label>"
    for value, text in texts
  )
  return tag("fieldset", f"<legend>{escape(legend)}</legend>{items}", class_="choice")


def metric_choice(name: str, metrics: Sequence[str], chosen: str) -> str:
  """Returns a control to choose a metric."""
  return choice(name, "Metric", [(metric, metrics_lib.METRICS[metric].heading) for metric in metrics], chosen)


def panels(attribute: str, panels_html: Mapping[str, str]) -> str:
  """Returns panels with the attribute `data-ATTRIBUTE`; the first is visible until a script shows another."""
  return "".join(
    tag("div", panel, class_="panel", **{f"data_{attribute}": value}, hidden=place > 0)
    for place, (value, panel) in enumerate(panels_html.items())
  )


def table_holder(label: str, **attributes: str) -> str:
  """Returns the scrollable box of a table that a script fills; `label` is for screen readers."""
  return tag("div", "", class_="sheet scroll", tabindex=0, role="group", aria_label=label, **attributes)
