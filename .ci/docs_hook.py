"""MkDocs' hook: pictures in four variants, and Mermaid drawn at build time: a page loads nothing from afar.

A page shows a picture by one line, `![what it shows](images/NAME.webp)`. Beside NAME lie the variants that
`pictures.py` and `plots.py` make: `NAME-dark`, `NAME-400`, `NAME-400-dark`. The reader sees the one for the width of
the window and the palette of the site. A block of `mermaid` becomes two drawings, for both palettes.
"""

import html
import pathlib
import re
from typing import Any

_IMAGE = re.compile(r'<img alt="([^"]*)" src="([^"]*images/)([\w-]+)\.(webp|svg)"\s*/?>')
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_THEMES = {"light": "neutral", "dark": "dark"}
_CONFIG = """---
config:
  look: classic
  theme: {theme}
  fontFamily: system-ui, sans-serif
  flowchart:
    nodeSpacing: 20
    rankSpacing: 30
---
"""
_SMALLEST = 0.55
"""Of the size in which a drawing is made."""
NARROW = 400
"""CSS pixels of the narrow variant."""
_BOOSTS = {"benchmarks.md": 0.5, "gin_reference.md": 0.5, "pods.md": 1.5}
"""Of pages in the search: those of tables rank below the others, and the bucket of a pod above length buckets."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
  """Draws the blocks of Mermaid, and ranks the page in the search."""
  if page and page.file.src_uri in _BOOSTS:
    page.meta["search"] = {"boost": _BOOSTS[page.file.src_uri]}
  numbers = iter(range(1_000))
  return _BLOCK.sub(lambda block: drawing(block[1], next(numbers)), markdown)


def on_page_content(content: str, config: Any, **_: Any) -> str:
  """Gives each picture its variants."""
  images = pathlib.Path(config["docs_dir"]) / "images"
  return _IMAGE.sub(lambda found: _variants(found, images), content)


def drawing(source: str, number: int) -> str:
  """The SVG of a block of Mermaid for both palettes, on one line, as Markdown wants it.

  Args:
    source: of the block; its `accDescr` says what it shows to those who do not see it.
    number: of the block on its page: names in an SVG are the page's.
  """
  import mmdr

  parts = []
  for palette, theme in _THEMES.items():
    svg = str(mmdr.render(_CONFIG.format(theme=theme) + source).svg())
    name = f"drawing-{number}-{palette}"
    svg = svg.replace("#merman", f"#{name}").replace('"merman', f'"{name}').replace("\n", " ")
    # It shrinks to the column, but not so far that its letters are too small: then it scrolls.
    if box := re.search(r'viewBox="\S+ \S+ (\S+) ', svg):
      svg = svg.replace('style="', f'style="min-width:{_SMALLEST * float(box[1]):.0f}px;', 1)
    parts.append(f'<div class="only-{palette}">{svg}</div>')
  return f'<div class="drawing">{"".join(parts)}</div>'


def _variants(found: re.Match[str], images: pathlib.Path) -> str:
  alt, folder, name, suffix = found.groups()
  if not (images / f"{name}-dark.{suffix}").is_file():
    return found[0]
  parts = []
  for palette, dark in (("light", ""), ("dark", "-dark")):
    wide, narrow = f"{name}{dark}.{suffix}", f"{name}-{NARROW}{dark}.{suffix}"
    source = ""
    if (images / narrow).is_file():
      source = f'<source media="(max-width: 600px)" srcset="{folder}{narrow}">'
    shown = f'<img alt="{html.escape(html.unescape(alt))}" src="{folder}{wide}" loading="lazy">'
    parts.append(f'<a class="only-{palette}" href="{folder}{wide}"><picture>{source}{shown}</picture></a>')
  return "".join(parts)
