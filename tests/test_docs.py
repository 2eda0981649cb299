"""The documentation: files, gin files, commands and links that it names exist, and the README is short."""

import csv
import pathlib
import re
import tomllib

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


def refuse_unless_there(command: str) -> None:
  """Fails where a command line names a subcommand or an option that is not there."""
  parser = cli._parser()
  for word in command.split(" -- ")[0].split():
    groups = [action for action in parser._actions if hasattr(action, "_name_parser_map")]
    if groups and not word.startswith("-"):
      assert word in groups[0].choices or word == "COMMAND", command
      parser = groups[0].choices.get(word, parser)
    elif word.startswith("--"):
      assert word.split("=")[0] in parser._option_string_actions or word.startswith("--gin."), command


def test_commands_in_coming_from_exist():
  commands = re.findall(r"`xmcap ([^`]+)`", text_of(ROOT / "docs/coming_from.md"))
  assert len(commands) > 15
  for command in commands:
    refuse_unless_there(command)


ITEMS = {
  "crossmodal_3600": "xm3600",
  "plugs": "xm3600-draft",
  "thumb": "thumb",
  "coco_cn": "coco-cn",
  "babel_imagenet": "babel-imagenet",
}
"""Page with a table of its paper's items -> the paper in citations.toml."""


@pytest.mark.parametrize(("page", "paper"), ITEMS.items())
def test_items_of_a_paper_have_its_sections_and_commands_that_exist(page, paper):
  parts = tomllib.loads((ROOT / "tests/citations.toml").read_text(encoding="utf-8"))[paper]
  with (ROOT / f"docs/items/{page}.csv").open(encoding="utf-8", newline="") as f:
    items = list(csv.DictReader(f))
  for item in items:
    for place in item["section"].split(", "):
      kind, _, number = place.rpartition(" ")
      kind = {"": "sections", "Appendix": "sections"}.get(kind) or f"{kind.lower()}s"
      assert number in parts[kind], item
    assert item["state"] == "works" or (item["state"] in ("partly", "not") and item["why"]), item
    for command in filter(None, item["command"].split("; ")):
      if command.endswith(".gin"):
        assert (ROOT / "gin" / command).is_file(), item
      elif not command.startswith("xmcap."):  # a module
        refuse_unless_there(command)
  assert f"<!-- table: items/{page} -->" in text_of(ROOT / f"docs/{page}.md")


def test_items_are_the_107_of_the_five_papers():
  rows = [line for page in ITEMS for line in text_of(ROOT / f"docs/items/{page}.csv").splitlines()[1:]]
  assert sorted(int(row.split(",")[0]) for row in rows) == list(range(1, 108))
