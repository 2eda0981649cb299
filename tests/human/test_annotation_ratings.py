"""Ratings of machine captions on annotation pages, by hand; alpha is that of `krippendorff` 0.9.0 (interval)."""

import pytest

from xmcap.human import annotation_ratings, annotation_report
from xmcap.human.annotation_procedures import PROCEDURES
from xmcap.human.annotations import Annotation, Event, Rated, Suggested


def _annotation(key, annotator, rating, caption="two cats", events=(), language="en"):
  return Annotation(
    key=key, language=language, annotator=annotator, rated=Rated("en", "A dog.", rating), caption=caption, tags=[],
    suggested=Suggested([], []), events=[Event(*event) for event in events],
  )  # fmt: skip


def _evaluate(annotations):
  findings = annotation_ratings.evaluate(annotations)
  assert findings is not None
  return findings


def test_annotation_ratings_equal_the_levels_of_the_xm3600_procedure():
  assert set(PROCEDURES["xm3600"].levels("en")) == set(annotation_ratings.RATINGS)
  assert all(not each.ratings or each.batch for each in PROCEDURES.values())


def test_annotation_ratings_absent_are_none():
  assert annotation_ratings.evaluate([_annotation("k1", "anna", "")]) is None


def test_annotation_ratings_shares_and_repeated_captions():
  rated = [
    _annotation("k1", "anna", "GOOD", "a dog"),  # the words of the caption
    _annotation("k2", "anna", "BAD"),
    _annotation("k3", "anna", "NOT-ENOUGH-INFO", ""),
    _annotation("k4", "anna", "GOOD"),
    _annotation("k5", "anna", ""),
  ]
  findings = _evaluate(rated)
  (row,) = findings.ratings
  assert (row.rated, row.shares) == (4, (0, 50, 0, 25, 25))
  assert row.same == pytest.approx(100 / 3)
  assert findings.as_json()["ratings"][0]["shares"]["BAD"] == 25 and not findings.agreement


def test_annotation_ratings_repeated_captions_need_the_same_language():
  (row,) = _evaluate([_annotation("k1", "anna", "GOOD", "A dog.", language="nl")]).ratings
  assert row.language == "nl" and row.same is None


def test_annotation_ratings_agreement_excludes_not_enough_info():
  values = {
    "anna": ["EXCELLENT", "GOOD", "BAD", "GOOD"],
    "bo": ["GOOD", "GOOD", "MEDIUM", "NOT-ENOUGH-INFO"],
  }
  rated = [_annotation(f"k{i}", name, value) for name, own in values.items() for i, value in enumerate(own)]
  (row,) = _evaluate(rated).agreement
  assert (row.captions, row.equal) == (4, 25)
  # krippendorff.alpha([[0, 1, 3, 1], [1, 1, 2, nan]], level_of_measurement="interval")
  assert row.alpha == pytest.approx(0.6875)


def test_annotation_times_of_rating_and_describing_are_separate():
  events = [(0, "open_rating"), (3_000, "rate", "GOOD"), (4_000, "done"), (60_000, "open"), (69_000, "done")]
  found = _annotation("k1", "anna", "GOOD", events=events)
  assert annotation_report.seconds(found) == 9
  assert annotation_report.seconds(found, "open_rating") == 4
