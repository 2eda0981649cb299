"""MkDocs' hook: pages that are made and not committed, pictures in four variants, Mermaid drawn at build time.

`index.md` is the README. `gin_reference.md` and `commands.md` come from the code, `reference/` from its docstrings.
`<!-- table: NAME -->` becomes a table of `tables.py`, and `<!-- file: PATH -->` the text of a program. Names of gin
configurables in code style, `Partitioning.fsdp`, lead to the reference of gin.

A page shows a picture by one line, `![what it shows](images/NAME.webp)`. Beside NAME lie the variants that
`pictures.py` and `plots.py` make: `NAME-dark`, `NAME-400`, `NAME-400-dark`. The reader sees the one for the width of
the window and the palette of the site. A block of `mermaid` becomes two drawings, for both palettes.
"""

import functools
import html
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]

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
_BOOSTS = {"benchmarks.md": 0.5, "gin_reference.md": 0.5, "commands.md": 0.5, "index.md": 0.5, "pods.md": 1.5}
"""Of pages in the search: those of tables rank below the others, and the bucket of a pod above length buckets."""
_API_BOOST = 0.1
_API = {
  "scoring": ("Scoring", "scoring ranked human pages published"),
  "models": ("Models", "models families"),
  "data": ("Data", "data corpora"),
  "training": ("Training", "training"),
  "evaluation": ("Evaluation", "evaluation"),
  "convert": ("Convert", "convert"),
  "planning": ("Planning", "planning"),
  "ground": ("Base modules", "errors languages configuration files reading"),
}
"""Page of the API reference -> title, modules."""
_GIN_PAGE = "gin_reference.md"
_GIN_NAME = re.compile(
  r"<(?P<tag>pre|a|h\d)\b.*?</(?P=tag)>|<code>@?(?P<name>\w+)(?:\.(?P<parameter>\w+))?(?:\(\))?(?: = [^<]*)?</code>",
  re.DOTALL,
)
_PACKAGES = "<!-- the drawing of the packages -->"
_MADE = re.compile(r"^<!-- (table|file): (\S+) -->$", re.MULTILINE)


def on_files(files: Any, config: Any, **_: Any) -> Any:
  """Adds the pages that are made."""
  made = {"index.md": index(), _GIN_PAGE: output_of("gin_reference"), "commands.md": output_of("commands")}
  for name, (title, modules) in _API.items():
    made[f"reference/{name}.md"] = f"# {title}\n" + "".join(f"\n::: xmcap.{one}\n" for one in modules.split())
  for name, text in made.items():
    files.append(File.generated(config, name, content=text))
  return files


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
  """Draws the blocks of Mermaid, and ranks the page in the search."""
  name = page.file.src_uri if page else ""
  boost = _API_BOOST if name.startswith("reference/") else _BOOSTS.get(name)
  if boost:
    page.meta["search"] = {"boost": boost}
  if _PACKAGES in markdown:
    markdown = markdown.replace(_PACKAGES, output_of("architecture"))
  markdown = _MADE.sub(lambda made: table(made[2]) if made[1] == "table" else program(made[2]), markdown)
  numbers = iter(range(1_000))
  return _BLOCK.sub(lambda block: drawing(block[1], next(numbers)), markdown)


def on_page_content(content: str, config: Any, page: Any = None, files: Any = None, **_: Any) -> str:
  """Gives each picture its variants, and links the names of gin configurables."""
  images = pathlib.Path(config["docs_dir"]) / "images"
  content = _IMAGE.sub(lambda found: _variants(found, images), content)
  if not files or page.file.src_uri == _GIN_PAGE or page.file.src_uri.startswith("reference/"):
    return content
  address = files.get_file_from_path(_GIN_PAGE).url_relative_to(page.file)
  return _GIN_NAME.sub(lambda match: _linked(match, address), content)


def index() -> str:
  """The README as the first page: links lead within the site, and those to other files are text."""
  text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
  return re.sub(
    r"(?<!!)\[([^\]]+)\]\(([^):#]+)\)",
    lambda link: link[0] if (ROOT / "docs" / link[2]).exists() else link[1],
    text,
  )


def table(name: str) -> str:
  """A table that comes from the code."""
  return json.loads(output_of("tables"))[name]


def program(path: str) -> str:
  """A block with the Python of a file."""
  return f"```python\n{(ROOT / path).read_text(encoding='utf-8')}```"


@functools.cache
def output_of(script: str) -> str:
  """What a script beside this one prints, in a process of its own: it imports all of xmcap."""
  command = [sys.executable, str(ROOT / f".ci/{script}.py")]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
  if done.returncode:
    raise RuntimeError(f".ci/{script}.py failed:\n{done.stderr}")
  return done.stdout


@functools.cache
def configurables() -> dict[str, set[str]]:
  """Name of a configurable -> its parameters, of the reference of gin."""
  text = output_of("gin_reference")
  names: dict[str, set[str]] = {name: set() for name in re.findall(r"^### (\w+)$", text, re.MULTILINE)}
  for name, parameter in re.findall(r"^\| `(\w+)\.(\w+)` \|", text, re.MULTILINE):
    names[name].add(parameter)
  return names


def _linked(match: re.Match[str], address: str) -> str:
  name, parameter = match["name"] or "", match["parameter"]
  parameters = configurables().get(name)
  # `train` alone is a split or a command.
  if parameters is None or (parameter not in parameters if parameter else name.islower()):
    return match[0]
  return f'<a href="{address}#{name.lower()}">{match[0]}</a>'


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
