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


def test_tables_of_costs_in_docs_are_computed(costs):
  for name, table in costs.TABLES.items():
    assert table() in (benchmarks.ROOT / "docs" / name).read_text(), "run python benchmarks/costs.py"


def test_rates_of_a_build_are_the_measured_ones():
  result = benchmarks.results()["build_rates"]
  for corpus, row in zip(corpora.CORPORA.values(), result["rows"], strict=True):
    name, *figures = row
    milliseconds, lines, records, work, megabytes, lookup = (float(text.replace(",", "")) for text in figures)
    assert name == corpus.name.lower().replace("-", "")
    assert corpus.cpu_seconds == pytest.approx(milliseconds / 1e3)
    assert (corpus.line_bytes, corpus.record_bytes, corpus.work_bytes) == (lines, records, work)
    assert corpus.memory_bytes == megabytes * 1e6 and pytest.approx(lookup / 1e3) == corpora.LOOKUP_SECONDS
