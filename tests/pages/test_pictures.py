"""Images of the docs: made by scripts, with alt texts, in two palettes and two widths."""

import importlib.util
import pathlib
import re
import sys
import types

import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
_SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
_TAG = re.compile(r"<img\b[^>]*>")
_ENDING = re.compile(r"(-400)?(-dark)?$")
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _script(name) -> types.ModuleType:
  """A script of `.ci`, which is no package."""
  spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / f".ci/{name}.py")
  assert spec and spec.loader
  module = importlib.util.module_from_spec(spec)
  # A NamedTuple looks for its module.
  sys.modules[spec.name] = module
  spec.loader.exec_module(module)
  return module


hook, pictures, plots = map(_script, ("docs_hook", "pictures", "plots"))


def _shown(page):
  """(alt text, path) of the pictures of a page."""
  text = page.read_text(encoding="utf-8")
  tags = [(re.search(r'alt="([^"]*)"', tag), re.search(r'src="([^"]*)"', tag)) for tag in _TAG.findall(text)]
  return _SHOWN.findall(text) + [(alt[1] if alt else "", source[1] if source else "") for alt, source in tags]


def test_docs_images_folder_equals_the_output_of_scripts():
  made = {*pictures.files(), *plots.files()}
  assert {path.name for path in IMAGES.iterdir()} == made


def test_docs_images_total_size_is_limited():
  assert sum(path.stat().st_size for path in IMAGES.iterdir()) < 1_500_000


@each_page
def test_docs_images_are_made_by_scripts_and_have_alt_texts(page):
  for alt, source in _shown(page):
    path = page.parent / source.partition("#")[0]
    assert path.is_file(), source
    assert path.parent == IMAGES and _ENDING.sub("", path.stem) in {*pictures.PICTURES, *plots.PLOTS}, source
    assert len(alt.split()) >= 4, f"{source}: {alt!r} does not say what it shows"


def test_docs_images_are_all_used():
  on_pages = {_ENDING.sub("", pathlib.Path(source).stem) for page in PAGES for _, source in _shown(page)}
  doors = {name for name in pictures.PICTURES if name.startswith("door_")}
  assert {*pictures.PICTURES, *plots.PLOTS} - doors <= on_pages


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_docs_images_have_declared_sizes(name):
  for ending, (width, height, scale) in pictures.PICTURES[name].sizes.items():
    for dark in ("", "-dark"):
      with Image.open(IMAGES / f"{name}{ending}{dark}.webp") as image:
        assert image.size == (round(width * scale), round(height * scale))


def test_docs_plots_equal_the_benchmark_results():
  for name, text in plots.files().items():
    assert (IMAGES / name).read_text(encoding="utf-8") == text, "run python .ci/plots.py"


def test_plot_has_a_mark_per_measured_point():
  plot = plots.Lines("t", "x", "y", [plots.Series("a", [(1, 10), (10, 1000), (100, 100)], 2)])
  svg = plots.draw(plot, 720, plots._PALETTES[""])
  marks = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3.5" fill="(\S+)"', svg)
  (first, second, third) = [(float(x), float(y), fill) for x, y, fill in marks]
  # Logarithmic axes: equal steps to the right, and from 10 to 1000 twice as far up as from 1000 down to 100.
  assert second[0] - first[0] == pytest.approx(third[0] - second[0])
  assert first[1] - second[1] == pytest.approx(2 * (third[1] - second[1]), abs=0.2)
  assert [mark[2] == "none" for mark in (first, second, third)] == [False, False, True]


def test_docs_hook_selects_image_width_and_palette(tmp_path):
  (tmp_path / "images").mkdir()
  for name in ("a.webp", "a-dark.webp", "a-400.webp", "a-400-dark.webp", "b.webp"):
    (tmp_path / "images" / name).touch()
  config = {"docs_dir": str(tmp_path)}
  made = hook.on_page_content('<p><img alt="A &amp; B" src="../images/a.webp" /></p>', config=config)
  assert re.findall(r'class="only-(\w+)".*?srcset="(\S+)".*?src="(\S+)"', made) == [
    ("light", "../images/a-400.webp", "../images/a.webp"),
    ("dark", "../images/a-400-dark.webp", "../images/a-dark.webp"),
  ]
  assert made.count('alt="A &amp; B"') == 2
  alone = '<img alt="B" src="images/b.webp" />'
  assert hook.on_page_content(alone, config=config) == alone


@pytest.fixture(scope="module")
def drawn() -> str:
  """The pages' blocks of Mermaid, and the drawing of the packages, which is made with the site."""
  blocks = [block[0] for page in PAGES for block in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
  return "\n".join([*blocks, _script("architecture").drawing()])


def test_mermaid_diagrams_have_accessible_descriptions(drawn):
  for block in _BLOCK.findall(drawn):
    assert re.search(r"^\s*accDescr: \w+", block, re.MULTILINE), block[:60]


def test_mermaid_is_drawn_at_build_time_without_external_resources(drawn):
  pytest.importorskip("mmdr", reason="the extra docs is not installed")
  blocks, made = _BLOCK.findall(drawn), hook.on_page_markdown(drawn)
  assert blocks and "```mermaid" not in made and made.count("<svg") == 2 * len(blocks)
  drawings = re.findall(r'<div class="drawing">.*', made)
  names = [name for one in drawings for name in re.findall(r'<svg id="([^"]+)"', one)]
  assert len(set(names)) == len(names) == 2 * len(blocks)
  assert not re.search(r'(?:src|href)="http|url\("?http|@import|<script', "".join(drawings))
