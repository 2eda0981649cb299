"""Problems of a release: counted by kind, with the first examples, a list and a summary; or --on_bad=stop."""

import io
import json

import pytest

from xmcap.corpora.building.options import Options
from xmcap.corpora.building.problems import KINDS, Problems
from xmcap.errors import UsageError, XmcapError


def found(*kinds: str) -> Problems:
  problems = Problems()
  for number, kind in enumerate(kinds):
    problems.add(kind, f"file, line {number}", "words")
  return problems


def test_problems_count_kinds_and_keep_first_places():
  problems = found("missing", "crlf", "missing", "missing", "missing")
  assert problems.counts == {"missing": 4, "crlf": 1}
  assert problems.examples["missing"] == [(f"file, line {number}", "words") for number in (0, 2, 3)]


def test_problems_are_listed_in_memory_or_in_a_file():
  listed = [("missing", "file, line 0", "words"), ("bom", "file, line 1", "words")]
  assert found("missing", "bom").listed == listed
  file = io.BytesIO()
  problems = Problems(file=file)
  problems.extend(listed)
  assert [tuple(json.loads(line).values()) for line in file.getvalue().splitlines()] == listed
  assert problems.listed == [] and problems.counts == {"missing": 1, "bom": 1}


def test_problems_extend_equals_adding_in_order():
  together = found("missing", "bom", "missing", "missing", "missing")
  parts = found("missing", "bom")
  parts.extend(json.loads(json.dumps([("missing", f"file, line {number}", "words") for number in (2, 3, 4)])))
  assert (parts.counts, parts.examples, parts.listed) == (together.counts, together.examples, together.listed)
  with pytest.raises(XmcapError, match="file, line 0: words"):
    Problems("stop").extend(together.listed)


@pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.rule == "skip"])
def test_on_bad_stop_names_the_place(kind):
  with pytest.raises(XmcapError, match="file, line 9: words .*fix it, or skip .* --on_bad=skip"):
    Problems("stop").add(kind, "file, line 9", "words")


@pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.rule == "use"])
def test_on_bad_stop_ignores_problems_of_used_records(kind):
  problems = Problems("stop")
  problems.add(kind, "file, line 9")
  assert problems.counts == {kind: 1}


def test_problems_summary_has_a_line_per_kind():
  lines = found("missing", "missing", "crlf").summary().splitlines()
  assert len(lines) == 2
  assert lines[0].split()[:2] == ["1", "crlf:"] and "; used. First: file, line 2: words" in lines[0]
  assert lines[1].split()[:2] == ["2", "missing:"] and "; left out. First: file, line 0: words" in lines[1]


def test_on_bad_refuses_unknown_values():
  with pytest.raises(UsageError, match="--on_bad=mend: choose skip or stop"):
    Options(on_bad="mend")
