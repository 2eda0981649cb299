"""Markdown and LaTeX: a renderer shows texts as they are. markdown-it-py 4.3.0 and Python-Markdown 3.11 render."""

import html
import re

import pytest

from xmcap import grid, latex, markdown

HOSTILE = (
  "<img src=x onerror=alert(1)>", "</td><script>alert(1)</script>", "<!-- a", "&lt;b&gt; &amp; &#60;", "a & b < c",
  "x` <img src=x> `", "``` a", "[a](javascript:alert(1))", "![a](http://a.example/b.png)", "<http://a.example>",
  "http://a.example/b", "see www.a.example now", "a | b", "# a", "- a", "+ a", "-", "---", "===", "1. a", "12) a",
  "*a* _b_ __c__ ~~d~~ $e$", "a\\", "a\n\n<b>", "> a", "`", "`` ` ``", " a ", "-0.5",
)  # fmt: skip


def _plain(rendered):
  return " ".join(html.unescape(re.sub("</?(p|h3|ul|li|td|tr|tbody|code)>", " ", rendered)).split())


def _renderers():
  library = pytest.importorskip("markdown_it")
  yield library.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("begin", ["", "- ", "### "])
def test_a_text_is_rendered_as_it_is(text, begin):
  for render in _renderers():
    assert _plain(render(f"{begin}{markdown.text(text)}\n")) == " ".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_and_a_span_of_code_are_rendered_as_they_are(text):
  table = grid.Grid(("a", "b"), ((text, "1"),)).markdown()
  for render in _renderers():
    rendered = render(table)
    (row,) = re.findall("<tbody>.*</tbody>", rendered, re.DOTALL)
    assert _plain(re.sub(' style="[^"]*"', "", row)) == f"{' '.join(text.split())} 1"
    assert _plain(render(f"Signature: {markdown.code(text)}\n")) == f"Signature: {' '.join(text.split())}"


@pytest.mark.parametrize("text", HOSTILE)
def test_tensorboards_renderer_makes_no_html(text):
  library = pytest.importorskip("markdown")
  rendered = library.markdown(f"a {markdown.cell(text)} {markdown.code(text)}", extensions=["tables"])
  assert not re.search("<(?!/?(p|code)>)", rendered), rendered


def test_bare_addresses_are_not_linked_by_github():
  """cmark-gfm links `http://` and `www.` only where no escape parts them."""
  assert markdown.cell("http://a and www.b") == r"http\://a and www\.b"


@pytest.mark.parametrize("cell", ["[a", "*", "[1, 2]"])
def test_a_row_of_latex_does_not_begin_as_an_argument_of_the_row_above(cell):
  body = [[latex.text(cell), "b"]]
  assert f"{{}}{cell} & b \\\\" in latex.tabular("ll", ["a", "b"], body)
