"""The HTML of a report: escaping, Content-Security-Policy, links, notes, sections and reproducible bytes."""

import dataclasses
import os
import subprocess
import sys

import pytest

from tests import policies
from tests.pages.markup import Markup
from xmcap.pages import report
from xmcap.scoring import compare


@pytest.fixture
def parsed(tmp_path):
  """Writes a report; returns it parsed."""

  def run(systems, **options):
    report.write_report(tmp_path / "r.html", systems, **options)
    return Markup(tmp_path / "r.html")

  return run


def _retold(result, **changes):
  return dataclasses.replace(result, table=dataclasses.replace(result.table, **changes))


def test_report_escapes_all_input(parsed, corpus, ours, theirs):
  hostile = corpus.hostile
  first = _retold(ours, title=hostile, notes=(hostile,), beside={hostile: {"en": 1.0}})
  first.references.locales["k01"] = hostile
  try:
    page = parsed({hostile: first, f"{hostile}2": theirs}, baselines={hostile: theirs.table})
  finally:
    first.references.locales["k01"] = "de"
  assert page.open == []
  # Data for the page's own script, that script, and the captions of each language.
  assert [attrs.get("id") for tag, attrs in page.tags if tag == "script"] == [
    "health-data", "heat-data", "groups-data", "report-data", "scores-data", None,
    "captions-ar", "captions-de", "captions-en",
  ]  # fmt: skip
  assert page.text.count(hostile) >= 5


def test_report_loads_nothing_from_other_origins(parsed, ours, tmp_path):
  page = parsed({"ours": ours})
  found = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
  allowed = policies.by_hash((tmp_path / "r.html").read_text(encoding="utf-8"))
  assert found == [f"default-src 'none'; img-src 'none'; {allowed}"]
  assert not [attrs for _, attrs in page.tags if "src" in attrs or attrs.get("href", "#")[0] != "#"]
  assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "base")]


def test_report_links_have_targets(parsed, ours):
  page = parsed({"ours": ours})
  ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
  assert len(ids) == len(set(ids))
  assert {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"} <= set(ids)


def test_report_shows_signatures_and_notes(parsed, ours, theirs):
  note = "2 missing predictions scored as empty captions: en 2"
  other = _retold(theirs, signature=theirs.table.signature.replace("subset:all", "subset:xm600:7"))
  page = parsed({"ours": _retold(ours, notes=(note,)), "theirs": other})
  assert f"ours: {note}" in page.text
  assert "subset: all against xm600:7" in page.text
  assert ours.table.signature in page.text and other.table.signature in page.text
  assert "|miss:refuse|" in page.text  # of the short form


def test_report_options_in_notes_do_not_wrap(parsed, ours):
  page = parsed({"ours": _retold(ours, notes=("all; (--clean=prefix) removes <it>",))})
  assert [tag for tag, attrs in page.tags if attrs.get("class") == "option"] == ["span"]
  assert "all; (--clean=prefix) removes <it>" in page.text


def test_report_notes_a_baseline_with_a_foreign_signature(parsed, ours, theirs):
  page = parsed({"ours": ours}, baselines={"x": dataclasses.replace(theirs.table, signature="sacre")})
  assert (
    "x was scored differently, so its scores are not comparable: its signature is not from xmcap" in page.text
  )


def test_report_of_equal_signatures_has_no_notice(parsed, ours, theirs):
  assert "in another way" not in parsed({"ours": ours, "theirs": theirs}).text


def test_report_omits_sections_without_data(parsed, bare):
  page = parsed({"bare": bare})
  sections = [attrs["id"] for tag, attrs in page.tags if tag == "section" and "id" in attrs]
  assert sections == ["languages", "table", "groups", "captions", "reading"]
  links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs["href"] != "#top"]
  assert links == ["#table", *(f"#{name}" for name in sections)]
  assert "95%" not in page.text
  assert not [attrs for _, attrs in page.tags if attrs.get("name") == "words"]


def test_report_title_with_surrogates_is_written(parsed, ours):
  assert "caf?" in parsed({"ours": _retold(ours, title="caf\udce9")}).text


def test_comparison_report_names_all_systems(parsed, ours, theirs):
  comparison = compare({"ours": ours, "theirs": theirs, "third": theirs}, resamples=20)
  page = parsed({"ours": ours, "theirs": theirs, "third": theirs}, comparison=comparison)
  assert page.text.count("theirs and third against ours") == 2  # the title, and the heading


_SCRIPT = """
import sys
from xmcap.pages import report
from xmcap.scoring.score import score
references = {"k1": {"en": ["a dog"], "ar": ["b"]}, "k2": {"en": ["a cat", "the cat"], "ar": ["c"]}}
result = score(references, {"k1": {"en": "dog", "ar": "b"}, "k2": {"en": "cat", "ar": "d"}}, keep=("words",))
report.write_report(sys.argv[1], {"a": result, "b": result})
"""


def test_report_bytes_are_independent_of_the_hash_seed(tmp_path, monkeypatch):
  seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # of this process it is random
  done = [sys.executable, "-c", _SCRIPT, tmp_path / "other"]
  subprocess.run(done, check=True, env={"PYTHONHASHSEED": seed})
  monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "here")])
  exec(_SCRIPT, {})
  assert (tmp_path / "here").read_bytes() == (tmp_path / "other").read_bytes()
