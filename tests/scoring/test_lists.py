"""Scoring of lists by place."""

import pytest

import xmcap
from xmcap import scoring
from xmcap.errors import UsageError

REFERENCES = {
  "en": [["a dog runs", "the dog"], ["two cats"], ["a red car"]],
  "de": [["ein Hund"], "zwei Katzen", ["Auto"]],
}
PREDICTIONS = {"en": ["a dog", "two cats", "a car"], "de": ["ein Hund", "Katzen", "ein Auto"]}


def test_scores_are_those_of_captions_by_key():
  keyed = [
    {f"k{place}": {code: lists[code][place] for code in lists} for place in range(3)}
    for lists in (REFERENCES, PREDICTIONS)
  ]
  keyed[0]["k1"]["de"] = ["zwei Katzen"]
  by_key = scoring.score(*keyed)
  by_place = xmcap.score(REFERENCES, PREDICTIONS)
  assert by_place.table.rows == by_key.table.rows
  assert by_place.table.rows["en"]["cider"] > 0


def test_statistics_are_in_the_order_of_the_lists():
  result = xmcap.score({"en": [["a cat"], ["b dog"], ["c"]] * 5}, {"en": ["a cat", "x", "y"] * 5})
  (statistics,) = result.statistics.values()
  assert list(statistics.keys) == sorted(statistics.keys) and len(statistics.keys) == 15


def test_tuples_do_too_and_options_reach_the_scorer():
  result = xmcap.score({"en": (("a dog",), ("b",))}, {"en": ("a dog", "c")}, metrics="bleu", bootstrap=10)
  assert "bleu" in str(result.table.rows["en"]) and result.table.intervals["en"]


@pytest.mark.parametrize(
  ("references", "predictions", "message"),
  [
    ([["a"]], {"en": ["a"]}, "references: .* must be a dictionary"),
    ({"en": [["a"]]}, {}, "predictions: .* must be a dictionary"),
    ({"en": [["a"]]}, {"de": ["a"]}, "only the references have 'en'"),
    ({"en": [["a"]]}, {"en": ["a"], "de": ["a"]}, "only the predictions have 'de'"),
    ({"en": [["a"], ["b"]]}, {"en": ["a"]}, "'en': references for 2 pictures, but 1 predictions"),
    ({"en": "a"}, {"en": ["a"]}, "must be a list"),
    ({"en": [["a"]]}, {"en": [["a"]]}, "must be a string"),
    ({"xx": [["a"]]}, {"xx": ["a"]}, "references: .*xx"),
  ],
)
def test_what_is_wrong_is_named(references, predictions, message):
  with pytest.raises(UsageError, match=message):
    xmcap.score(references, predictions)
