"""What the corpora of the paper cost: the tables of the pages, and the rates that `xmcap plan` knows, are measured."""

import importlib
import sys

import pytest

from benchmarks import all as benchmarks
from xmcap.planning import corpora


@pytest.fixture
def costs(monkeypatch):
  monkeypatch.setattr(sys, "path", [str(benchmarks.ROOT / "benchmarks"), *sys.path])
  return importlib.import_module("costs")


@pytest.mark.parametrize(
  ("page", "table", "sentence", "labels"),
  [
    ("corpora.md", "building", "takes {} hours on two cores and {} GB of disk",
     ["hours on 2 cores", "GB of disk, records"]),
    ("pods.md", "training", "take {} hours on a v4-128 as planned ({} dollars), and {} hours on one H200 at",
     ["hours on a v4-128, planned", "cost in dollars, at 3.22 per chip-hour",
      "hours on one H200, at its measured rate"]),
  ],
)  # fmt: skip
def test_costs_that_a_page_states_are_those_of_its_table(costs, page, table, sentence, labels):
  text = (benchmarks.ROOT / "docs" / page).read_text(encoding="utf-8")
  lines = [line.strip("| ").split(" | ") for line in getattr(costs, table)().splitlines()]
  cells = {line[0]: line[1] for line in lines}  # of CC3M-35L
  assert f"<!-- table: {table} -->\n" in text
  assert sentence.format(*map(cells.__getitem__, labels)) in " ".join(text.split())


def test_rates_of_a_build_are_the_measured_ones():
  result = benchmarks.results()["build_rates"]
  for corpus, row in zip(corpora.CORPORA.values(), result["rows"], strict=True):
    name, *figures = row
    milliseconds, lines, records, work, megabytes, lookup = (float(text.replace(",", "")) for text in figures)
    assert name == corpus.name.lower().replace("-", "")
    assert corpus.cpu_seconds == pytest.approx(milliseconds / 1e3)
    assert (corpus.line_bytes, corpus.record_bytes, corpus.work_bytes) == (lines, records, work)
    assert corpus.memory_bytes == megabytes * 1e6 and pytest.approx(lookup / 1e3) == corpora.LOOKUP_SECONDS
