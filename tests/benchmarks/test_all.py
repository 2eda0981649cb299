"""The tables that benchmarks/all.py makes of benchmarks/results/*.json, and the scripts that the docs name."""

import datetime
import pathlib
import re
import shlex

import pytest

from benchmarks import all as benchmarks

FOLDER = benchmarks.ROOT / "benchmarks"
PAGES = (benchmarks.ROOT / "README.md", *sorted((benchmarks.ROOT / "docs").glob("*.md")))
RESULTS = benchmarks.results()


def test_headline_figures_are_cells_of_the_results():
  head, _, *rows = benchmarks.headlines().splitlines()
  assert head == "| measured | xmcap | beside it | script |" and len(rows) == len(benchmarks.HEADLINES)
  for headline, row in zip(benchmarks.HEADLINES, rows, strict=True):
    cells = {cell.partition(" (")[0] for line in RESULTS[headline.result]["rows"] for cell in line}
    figure = row.split(" | ")[1]
    assert any(cell in figure for cell in cells) and "{" not in row, row


def test_all_tables_have_that_of_every_result():
  text = f"\n{benchmarks.all_tables()}"
  assert all(f"\n### {result['title']}\n" in text for result in RESULTS.values())


@pytest.mark.parametrize("name", RESULTS)
def test_benchmark_result_has_all_fields(name):
  result = RESULTS[name]
  assert set(result) == {"title", "command", "date", "machine", "columns", "rows", "notes"}
  program, script, *rest = shlex.split(result["command"])
  assert program == "python"
  if script != "-m" and rest[-2:-1] != ["commit"]:
    assert (benchmarks.ROOT / script).is_file()
  datetime.date.fromisoformat(result["date"])
  assert result["machine"]["cores"] > 0
  assert result["rows"] and all(len(row) == len(result["columns"]) for row in result["rows"])


@pytest.mark.parametrize(
  "name", sorted({path.stem for path in FOLDER.glob("*.py")} - set(benchmarks._SHARED))
)
def test_benchmark_script_has_a_result(name):
  assert any(result["command"].startswith(f"python benchmarks/{name}.py") for result in RESULTS.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_benchmark_scripts_named_in_docs_exist(page: pathlib.Path):
  for script in re.findall(r"benchmarks/[\w/]+\.py", page.read_text(encoding="utf-8")):
    assert (benchmarks.ROOT / script).is_file(), script
