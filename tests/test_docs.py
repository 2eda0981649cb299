"""The documentation: files, gin files, commands and links that it names exist, and the README is short."""

import pathlib
import re

import pytest

from xmcap import cli

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(page: pathlib.Path) -> str:
  return page.read_text(encoding="utf-8")


def test_the_readme_is_short():
  assert len(text_of(ROOT / "README.md").splitlines()) <= 130


def test_pages_have_at_most_20000_words():
  assert sum(len(text_of(page).split()) for page in PAGES) <= 20_000  # as `wc -w` counts


@each_page
def test_links_lead_to_files(page):
  for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
    assert (page.parent / target).exists(), target


def test_linked_headings_have_one_anchor_on_github_and_mkdocs():
  """GitHub's and MkDocs' addresses differ where punctuation stands between two spaces, as in `K = 1`."""
  linked = set(re.findall(r"(\w+\.md)#([\w-]+)\)", "".join(map(text_of, PAGES))))
  for page in PAGES:
    for heading in re.findall(r"^##+ (.*)$", text_of(page), re.MULTILINE):
      ours = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
      if "--" in ours:
        assert (page.name, re.sub("-+", "-", ours)) not in linked and (page.name, ours) not in linked, heading


@each_page
def test_gin_files_that_are_named_are_there(page):
  for name in re.findall(r"(?<![\w/-])((?:models|data|runs|t5x)/\w+\.gin)", text_of(page)):
    assert (ROOT / "gin" / name).is_file(), name


@each_page
def test_modules_that_are_named_are_there(page):
  for name in re.findall(r"(?<![\w/.])((?:xmcap|tests|benchmarks)/[\w/]+\.(?:py|md|json))", text_of(page)):
    assert (ROOT / name).is_file(), name


def test_files_of_a_training_step_in_docs_exist():
  named = re.findall(
    r"^\d+\. `((?:training|models)/\w+\.py)`", text_of(ROOT / "docs/architecture.md"), re.MULTILINE
  )
  assert len(named) == 10
  for name in named:
    assert (ROOT / "xmcap" / name).is_file(), name


def test_commands_in_coming_from_exist():
  commands = re.findall(r"`(xmcap [^`]+)`", text_of(ROOT / "docs/coming_from.md"))
  assert len(commands) > 15
  for command in commands:
    parser, words = cli._parser(), command.split(" -- ")[0].split()[1:]
    for word in words:
      groups = [action for action in parser._actions if hasattr(action, "_name_parser_map")]
      if groups and not word.startswith("-"):
        assert word in groups[0].choices or word == "COMMAND", command
        parser = groups[0].choices.get(word, parser)
      elif word.startswith("--"):
        assert word.split("=")[0] in parser._option_string_actions or word.startswith("--gin."), command
