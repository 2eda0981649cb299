"""Assignment of images to annotators, and coverage of the assignment; counts by hand."""

import collections
import itertools
import json

import pytest

from xmcap.errors import UsageError
from xmcap.human import annotation_assignment
from xmcap.human.annotation_assignment import Assigned
from xmcap.human.annotations import Annotation, Suggested


def _annotation(key, annotator, caption="a dog", skipped="", language="en"):
  return Annotation(
    key=key, language=language, annotator=annotator, caption=caption, tags=[], skipped=skipped,
    suggested=Suggested([], []), events=[],
  )  # fmt: skip


@pytest.mark.parametrize("pictures, people, replication", [(30, 3, 1), (31, 5, 2), (3, 5, 2), (7, 4, 4)])
def test_assignment_is_balanced_over_different_annotators(pictures, people, replication):
  keys = [f"k{i}" for i in range(pictures)]
  names = [f"a{i}" for i in range(people)]
  assigned = annotation_assignment.assign(keys, names, replication)
  assert list(assigned) == names
  assert collections.Counter(itertools.chain(*assigned.values())) == dict.fromkeys(keys, replication)
  assert all(len(set(own)) == len(own) for own in assigned.values())
  sizes = [len(own) for own in assigned.values()]
  assert max(sizes) - min(sizes) <= 1
  assert annotation_assignment.assign(keys[::-1], names, replication) == assigned


def test_assignment_pairs_of_annotators_share_images_in_other_orders():
  assigned = annotation_assignment.assign([f"k{i}" for i in range(60)], list("abcd"), 2)
  for one, other in itertools.combinations(assigned.values(), 2):
    shared = set(one) & set(other)
    assert len(shared) > 3
    assert [key for key in one if key in shared] != [key for key in other if key in shared]


def test_assignment_round_trip(tmp_path):
  annotation_assignment.write(tmp_path / "a.jsonl", "en", {"anna": ["k1", "k2"], "bo": ["k1"]})
  assert annotation_assignment.read([tmp_path / "a.jsonl", tmp_path / "a.jsonl"]) == [
    Assigned("k1", "en", "anna"), Assigned("k2", "en", "anna"), Assigned("k1", "en", "bo"),
  ]  # fmt: skip


@pytest.mark.parametrize(
  "row, error",
  [
    ({"image/key": "k", "language": "en"}, "line 1: no assignment .*`annotator`"),
    ({"image/key": "k", "language": "xx1", "annotator": "a"}, "line 1: unknown language 'xx1'"),
  ],
)
def test_damaged_assignment_is_refused_by_file_and_line(tmp_path, row, error):
  (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
  with pytest.raises(UsageError, match=error):
    annotation_assignment.read([tmp_path / "a.jsonl"])


def test_assignment_without_a_line_is_refused(tmp_path):
  (tmp_path / "a.jsonl").write_text("\n")
  with pytest.raises(UsageError, match="no assignment in it"):
    annotation_assignment.read([tmp_path / "a.jsonl"])


def test_coverage_counts_done_and_missing_annotations():
  assigned = [Assigned(key, "en", name) for name in ("anna", "bo", "chen") for key in ("k1", "k2")]
  done = [
    _annotation("k1", "anna"),
    _annotation("k2", "anna", caption="", skipped="dark"),
    _annotation("k1", "bo"),
    _annotation("k2", "bo", caption=""),  # rated, and not described yet
    _annotation("k3", "bo"),
  ]
  findings = annotation_assignment.coverage(done, assigned)
  rows = [
    (each.annotator, each.assigned, each.described, each.skipped, each.missing, each.others)
    for each in findings.done
  ]
  assert rows == [
    ("anna", 2, 1, 1, 0, 0), ("bo", 2, 2, 0, 1, 1), ("chen", 2, 0, 0, 2, 0), ("all", 6, 3, 1, 3, 1),
  ]  # fmt: skip
  assert findings.notes == ["en: of 2 assigned pictures 1 have no caption, and 1 fewer than assigned"]


def test_coverage_without_an_assignment_has_nothing_missing():
  findings = annotation_assignment.coverage(
    [_annotation("k1", "anna"), _annotation("k1", "anna", language="de")], []
  )
  rows = [(each.language, each.assigned, each.described, each.missing, each.others) for each in findings.done]
  assert rows == [("de", None, 1, None, None), ("en", None, 1, None, None)] and not findings.notes
