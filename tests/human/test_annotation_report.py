"""The annotation report, by hand; distances are those of `edit_distance` of NLTK 3.10.4."""

import pytest

from xmcap.human import annotation_report
from xmcap.human.annotations import Annotation, Event, Suggested

_SUGGESTED = Suggested(["a dog on a chair", "two cats"], ["dog", "chair", "red", "cat", "home"])


def _annotation(key="k1", annotator="anna", caption="a dog on a chair", tags=(), events=(), **more):
  return Annotation(
    **{
      "key": key, "language": "en", "annotator": annotator, "caption": caption, "tags": list(tags),
      "suggested": _SUGGESTED, "events": [Event(*event) for event in events], **more,
    }
  )  # fmt: skip


_COPY = (0, "copy_sentence", "a dog on a chair")


def test_annotation_report_accepted_tags_and_tags_per_sentence():
  findings = annotation_report.evaluate(
    [
      _annotation("k1", tags=["dog", "red", "sofa"]),
      _annotation("k2", tags=["dog"]),
      _annotation("k3", tags=["dog", "old"], suggested=Suggested([], [])),
      _annotation("k4", tags=["dog"], caption="", skipped="dark"),
    ]
  )
  (work,) = findings.work
  assert (work.pictures, work.skipped, work.sentences) == (4, 1, 3)
  assert (work.tags, work.recommended, work.accepted) == (2.0, 5.0, 1.5)


def test_annotation_report_edit_distances_from_suggestions():
  (work,) = annotation_report.evaluate(
    [
      _annotation("k1", caption="a big dog on the chair", events=[_COPY]),  # 7
      _annotation("k2", caption="two old cats"),
      _annotation("k3", caption="a dog on a chair", events=[_COPY]),  # 0
      _annotation("k4", caption="kittens", suggested=Suggested([], [])),
    ]
  ).work
  assert work.begun == 50.0
  assert (work.distance, work.characters) == (3.5, (22 + 12 + 16 + 7) / 4)


@pytest.mark.parametrize(
  "events, begun",
  [
    ([], None),
    ([_COPY], "a dog on a chair"),
    ([_COPY, (1, "edit_sentence", "a dog")], "a dog on a chair"),
    ([_COPY, (1, "edit_sentence", ""), (2, "edit_sentence", "mine")], None),
    ([_COPY, (1, "copy_sentence", "two cats")], "two cats"),
    ([(0, "edit_sentence", "mine"), (1, "copy_sentence", "two cats")], "two cats"),
  ],
)
def test_annotation_begins_from_the_last_copied_suggestion(events, begun):
  assert _annotation(events=events).begun_from == begun


def test_annotation_report_compares_edits_with_and_without_suggestion():
  comparison = annotation_report.evaluate(
    [
      # Distances from "a dog on a chair", which was clicked; NLTK 3.9.1.
      _annotation("k1", caption="a big dog on the chair", events=[_COPY]),  # 7
      _annotation("k2", caption="two old cats"),
      _annotation("k3", caption="a dog on a chair", events=[_COPY]),  # 0
      _annotation("k4", caption="kittens", suggested=Suggested([], [])),
    ]
  ).comparison
  begun, everything = comparison.compared
  assert (begun.suggestion, begun.sentences, begun.distance, begun.edited) == ("with", 2, 3.5, 1)
  assert (begun.low, begun.high) == (0.0, 7.0)  # of two pictures: each twice, or both
  # From no suggestion, the distance is the length.
  assert (everything.suggestion, everything.sentences, everything.distance) == (
    "without",
    4,
    (22 + 12 + 16 + 7) / 4,
  )
  assert everything.edited is None
  rows = [(each.least, each.most, each.with_suggestion, each.without) for each in comparison.distances]
  assert rows == [(0, 0, 1, 0), (1, 5, 0, 0), (6, 10, 1, 1), (11, 15, 0, 1), (16, 20, 0, 1), (21, 25, 0, 1)]


def test_annotation_report_counts_recommended_and_accepted_by_tag():
  (first, second, *others) = annotation_report.evaluate(
    [
      _annotation("k1", tags=["dog", "red", "sofa"]),
      _annotation("k2", tags=["dog"], suggested=Suggested([], ["dog"])),
      _annotation("k3", tags=["dog"], caption="", skipped="dark"),
    ]
  ).comparison.recommended
  assert (first.tag, first.recommended, first.accepted) == ("dog", 2, 2)
  assert (second.tag, second.recommended, second.accepted) == ("red", 1, 1) and len(others) == 3


def test_annotation_report_counts_accepted_suggestions_by_number_and_place():
  comparison = annotation_report.evaluate(
    [
      _annotation("k1", tags=["dog", "red", "sofa"], events=[_COPY]),
      _annotation("k2", tags=["dog"]),
      _annotation("k3", tags=["old"], suggested=Suggested(["two cats"], [])),
      _annotation("k4", tags=["dog"], caption="", skipped="dark"),
    ]
  ).comparison
  assert [(each.accepted, each.pictures, each.share) for each in comparison.tags] == [
    (0, 0, 0.0), (1, 1, 50.0), (2, 1, 50.0), (3, 0, 0.0), (4, 0, 0.0), (5, 0, 0.0)
  ]  # fmt: skip
  assert [(each.place, each.tags, each.sentences) for each in comparison.places] == [
    (1, 100.0, pytest.approx(100 / 3)), (2, 0.0, 0.0), (3, 50.0, None), (4, 0.0, None), (5, 0.0, None),
  ]  # fmt: skip


def test_annotation_time_sums_the_visits_of_an_image():
  events = [(1_000, "open"), (4_000, "done"), (90_000, "open"), (91_500, "done"), (99_000, "open")]
  assert annotation_report.seconds(_annotation(events=events)) == 4.5


def test_annotation_report_median_seconds():
  annotations = [_annotation(f"k{i}", events=[(0, "open"), (1000 * i, "done")]) for i in (1, 2, 9)]
  assert annotation_report.evaluate(annotations).work[0].seconds == 2.0


def test_annotation_report_tag_agreement():
  findings = annotation_report.evaluate(
    [
      _annotation("k1", "anna", tags=["dog", "red", "sofa"]),
      _annotation("k1", "bo", tags=["dog", "sofa"]),  # Jaccard 2/3, F 4/5
      _annotation("k2", "anna", tags=["dog"]),
      _annotation("k2", "bo", tags=["cat"]),  # 0, 0
      _annotation("k3", "anna"),
      _annotation("k3", "bo"),  # without tags: left out
      _annotation("k1", "chen", tags=["dog", "sofa"]),  # 2/3, 4/5 with anna; 1, 1 with bo
    ]
  )
  rows = [(each.first, each.second, each.pictures, each.jaccard, each.f) for each in findings.agreement]
  assert rows == [
    ("anna", "bo", 2, pytest.approx(1 / 3), pytest.approx(0.4)),
    ("anna", "chen", 1, pytest.approx(2 / 3), pytest.approx(0.8)),
    ("bo", "chen", 1, 1.0, 1.0),
    ("all", "all", 4, pytest.approx((2 / 3 + 2 / 3 + 1) / 4), pytest.approx((0.8 + 0.8 + 1) / 4)),
  ]
  assert [each.annotator for each in findings.work] == ["anna", "bo", "chen", "all"]


@pytest.mark.parametrize(
  "people, together, pairs, pictures",
  [(6, 6, 15, 15), (60, 2, 0, 30), (60, 60, 0, 0)],
)
def test_annotation_report_counts_agreement_of_many_without_a_row_for_each_pair(
  people, together, pairs, pictures
):
  findings = annotation_report.evaluate(
    [_annotation(f"k{number // together}", f"p{number}", tags=["dog"]) for number in range(people)]
  )
  rows = [each.pictures for each in findings.agreement]
  assert rows == [1] * pairs + [pictures] * (pictures > 0)
  assert any("leaves out 1 pictures of over 50 annotators" in note for note in findings.notes) == (
    together > 50
  )


def test_annotation_report_work_grows_with_the_annotations():
  # A row for each pair would be a million, and a scan for each annotator too.
  evaluated = annotation_report.evaluate(
    [_annotation("k", f"p{number}", tags=["dog"]) for number in range(2_000)]
  )
  assert len(evaluated.work) == 2_001 and not evaluated.agreement


def test_annotation_time_does_not_go_back_with_the_clock():
  events = [(9_000, "open"), (1_000, "edit_sentence"), (4_000, "done")]
  assert annotation_report.seconds(_annotation(events=events)) == 3.0


def test_annotation_report_has_rows_per_language_and_annotator():
  findings = annotation_report.evaluate(
    [_annotation(), _annotation(language="de"), _annotation(annotator="bo")]
  )
  assert [(each.language, each.annotator) for each in findings.work] == [
    ("de", "anna"), ("en", "anna"), ("en", "bo"), ("en", "all"),
  ]  # fmt: skip


def test_annotation_report_of_skipped_images_has_no_means(tmp_path):
  findings = annotation_report.evaluate([_annotation(caption="", skipped="dark")], replaced=2)
  findings.write(tmp_path)
  assert findings.work[0].begun is None and findings.work[0].seconds is None
  assert "2 annotations were left out for later ones" in findings.terminal()
  assert {path.name for path in tmp_path.iterdir()} == {
    f"annotations.{form}" for form in ("json", "md", "tex", "csv")
  }
  assert "bootstrap interval" not in findings.terminal()
