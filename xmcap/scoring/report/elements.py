"""Pieces of HTML that the sections share. Arguments are plain text unless their name ends in `_html`."""

import html
import importlib.resources
import json
from collections.abc import Sequence

from xmcap import languages
from xmcap.scoring import metrics as metrics_lib

_MAX_BUTTONS = 4  # more options than these go into a list that unfolds

NUM_MARKS = 4
"""Number of shapes (and colours, in the style sheet) that tell systems apart; further ones repeat."""


def escape(text: str) -> str:
  """Returns text as HTML, also inside quotes."""
  return html.escape(text)


def resource(name: str, package: str = __package__) -> str:
  """Returns a style sheet or script of this package, or of another."""
  return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def page_head(title_html: str, style: str, scripts: bool = False, images: str = "'none'") -> str:
  """Returns a page up to `<body>`; it may load nothing from anywhere.

  Args:
    title_html: of the window.
    style: its style sheet.
    scripts: whether it has scripts, which stand in the page itself.
    images: what it may show, as a Content-Security-Policy says it.
  """
  policy = f"default-src 'none'; img-src {images}; style-src 'unsafe-inline'"
  if scripts:
    policy += "; script-src 'unsafe-inline'"
  return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title_html}</title>
<style>
{style}</style>
</head>
<body>
"""


def script_json(name: str, value: object) -> str:
  """Returns a `<script>` of data, with an id, for the page's scripts to read."""
  # Inside <script> only "<" can end the element or open a comment.
  text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
  return f'<script type="application/json" id="{name}">{text}</script>\n'


def section(name: str, title: str, body_html: str, note_html: str = "", controls_html: str = "") -> str:
  """Returns a section of the page, to which `#name` leads."""
  note = f'<p class="note">{note_html}</p>' if note_html else ""
  controls = f'<div class="controls">{controls_html}</div>' if controls_html else ""
  return f"""<section id="{name}" aria-labelledby="{name}-title">
<header class="section-head"><div><h2 id="{name}-title">{escape(title)}</h2>{note}</div>{controls}</header>
{body_html}
</section>
"""


def choice(
  name: str, legend: str, options: Sequence[tuple[str, str]], chosen: str = "", buttons: bool = True
) -> str:
  """Returns a control to choose one of (value, text): buttons where they are few, else a list that unfolds.

  Nothing for a single option, which is no choice. `buttons` is False where the texts may be long.
  """
  if len(options) < 2:
    return ""
  chosen = chosen or options[0][0]
  if not buttons or len(options) > _MAX_BUTTONS:
    items = "".join(
      f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(text)}</option>'
      for value, text in options
    )
    return f'<label class="pick">{escape(legend)} <select name="{name}">{items}</select></label>'
  items = "".join(
    f'<label><input type="radio" name="{name}" value="{escape(value)}"{" checked" if value == chosen else ""}>'
    f"<span>{escape(text)}</span></label>"
    for value, text in options
  )
  return f'<fieldset class="choice"><legend>{escape(legend)}</legend>{items}</fieldset>'


def metric_choice(name: str, metrics: Sequence[str], chosen: str) -> str:
  """Returns a control to choose a metric."""
  return choice(name, "Metric", [(metric, metrics_lib.METRICS[metric].heading) for metric in metrics], chosen)


def mark(number: int, x: float, y: float, size: float = 4.6) -> str:
  """Returns the SVG mark of a system or baseline other than the first, by its number from 0."""
  number %= NUM_MARKS
  s = size
  path = (
    f"M{x - s:.1f} {y:.1f}L{x:.1f} {y - s:.1f}L{x + s:.1f} {y:.1f}L{x:.1f} {y + s:.1f}Z",
    f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0Z",
    f"M{x - s:.1f} {y + s * 0.8:.1f}L{x:.1f} {y - s:.1f}L{x + s:.1f} {y + s * 0.8:.1f}Z",
    f"M{x - s * 0.85:.1f} {y - s * 0.85:.1f}h{1.7 * s:.1f}v{1.7 * s:.1f}h{-1.7 * s:.1f}Z",
  )[number]
  return f'<path class="mark mark-{number}" d="{path}"/>'


def key(number: int | None) -> str:
  """Returns what stands before a system's name: the mark of its number, or the bar of the first (None)."""
  shape = (
    '<rect class="bar" x="2" y="2" width="10" height="10" rx="2"/>' if number is None else mark(number, 7, 7)
  )
  return f'<svg class="key" viewBox="0 0 14 14" aria-hidden="true">{shape}</svg>'


def named(name: str, number: int | None) -> str:
  """Returns the name of a system with its mark before it."""
  return f'<span class="named">{key(number)}<bdi>{escape(name)}</bdi></span>'


def language_name(code: str) -> str:
  """Returns the name of a language, in English and in itself."""
  language = languages.get(code)
  return (
    f'{language.english_name} <bdi class="native" lang="{code}" dir="{language.direction}">'
    f"{language.native_name}</bdi>"
  )


def decimals(metric: str) -> int:
  """Returns how many decimals `Metric.format` shows, those of a percentage if it shows one."""
  return len(metrics_lib.METRICS[metric].format(0.0).rstrip("%").partition(".")[2])


def signed(metric: str, difference: float) -> str:
  """Returns a difference of scores with its sign, such as `+0.012`; none before what is shown as zero."""
  text = metrics_lib.METRICS[metric].format(abs(difference))
  if not any(digit in text for digit in "123456789"):
    return text
  return ("\u2212" if difference < 0 else "+") + text
