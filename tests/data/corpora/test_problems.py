"""Problems: counted by kind, kept with the first few, listed one by one, merged and summed up; or an error at once."""

import json

import pytest

from xmcap.data.corpora.problems import KINDS, Problems
from xmcap.errors import UsageError, XmcapError


def found(*kinds: str) -> Problems:
  problems = Problems()
  for number, kind in enumerate(kinds):
    problems.add(kind, f"file, line {number}", "words")
  return problems


def test_counts_and_first_places():
  problems = found("missing", "crlf", "missing", "missing", "missing")
  assert problems.counts == {"missing": 4, "crlf": 1}
  assert problems.examples["missing"] == [(f"file, line {number}", "words") for number in (0, 2, 3)]


def test_list_is_handed_out_once():
  problems = found("missing", "bom")
  lines = [json.loads(line) for line in problems.take_listed().splitlines()]
  assert lines == [
    {"kind": "missing", "where": "file, line 0", "what": "words"},
    {"kind": "bom", "where": "file, line 1", "what": "words"},
  ]
  assert problems.take_listed() == ""
  assert problems.counts == {"missing": 1, "bom": 1}


def test_merged_as_if_found_one_after_the_other():
  together = found("missing", "bom", "missing", "missing", "missing")
  parts = found("missing", "bom")
  other = Problems()
  for number in (2, 3, 4):
    other.add("missing", f"file, line {number}", "words")
  parts.merge(other)
  assert parts.to_json() == together.to_json()


def test_comes_back_from_json():
  problems = found("missing", "bom")
  assert Problems.from_json(json.loads(json.dumps(problems.to_json()))).to_json() == problems.to_json()


@pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.rule == "skip"])
def test_stop_names_the_place(kind):
  with pytest.raises(XmcapError, match="file, line 9: words .*mend it, or leave .* --on_bad=skip"):
    Problems("stop").add(kind, "file, line 9", "words")


@pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.rule == "use"])
def test_what_is_used_stops_nothing(kind):
  problems = Problems("stop")
  problems.add(kind, "file, line 9")
  assert problems.counts == {kind: 1}


def test_summary_has_a_line_a_kind():
  lines = found("missing", "missing", "crlf").summary().splitlines()
  assert len(lines) == 2
  assert lines[0].split()[:2] == ["1", "crlf:"] and "; used. First: file, line 2: words" in lines[0]
  assert lines[1].split()[:2] == ["2", "missing:"] and "; left out. First: file, line 0: words" in lines[1]


def test_unknown_rule():
  with pytest.raises(UsageError, match="on_bad=mend: choose skip or stop"):
    Problems("mend")
