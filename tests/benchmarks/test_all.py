"""docs/benchmarks.md equals what benchmarks/all.py writes from benchmarks/results/*.json."""

import datetime
import pathlib
import re
import shlex

import pytest

from benchmarks import all as benchmarks

FOLDER = benchmarks.ROOT / "benchmarks"
PAGES = (benchmarks.ROOT / "README.md", *sorted((benchmarks.ROOT / "docs").glob("*.md")))
RESULTS = benchmarks.results()


def test_benchmarks_page_equals_the_results():
  text = benchmarks.PAGE.read_text(encoding="utf-8")
  assert text == benchmarks.page(), "run python benchmarks/all.py"
  assert len(text.split()) <= 900


def test_full_benchmarks_page_has_the_table_of_every_result():
  text = benchmarks.full_page()
  assert text.startswith(benchmarks.page())
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
