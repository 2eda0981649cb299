"""docs/benchmarks.md equals what benchmarks/all.py writes from benchmarks/results/*.json."""

import datetime
import pathlib
import re
import shlex

import pytest

from benchmarks import all as benchmarks

PAGES = (benchmarks.ROOT / "README.md", *sorted((benchmarks.ROOT / "docs").glob("*.md")))


def test_benchmarks_page_equals_the_results():
  assert benchmarks.PAGE.read_text(encoding="utf-8") == benchmarks.page(), "run python benchmarks/all.py"


@pytest.mark.parametrize("name", benchmarks.results())
def test_benchmark_result_has_all_fields(name):
  result = benchmarks.results()[name]
  assert set(result) == {"title", "command", "date", "machine", "columns", "rows", "notes"}
  program, script, *_ = shlex.split(result["command"])
  assert program == "python" and (benchmarks.ROOT / script).is_file()
  datetime.date.fromisoformat(result["date"])
  assert result["machine"]["cores"] > 0
  assert result["rows"] and all(len(row) == len(result["columns"]) for row in result["rows"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_benchmark_scripts_named_in_docs_exist(page: pathlib.Path):
  for script in re.findall(r"benchmarks/[\w/]+\.py", page.read_text(encoding="utf-8")):
    assert (benchmarks.ROOT / script).is_file(), script
