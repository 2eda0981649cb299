"""`xmcap.score` of lists of captions by place."""

import pytest

import xmcap
from xmcap import scoring
from xmcap.errors import UsageError

REFERENCES = {
  "en": [["a dog runs", "the dog"], ["two cats"], ["a red car"]],
  "de": [["ein Hund"], "zwei Katzen", ["Auto"]],
}
PREDICTIONS = {"en": ["a dog", "two cats", "a car"], "de": ["ein Hund", "Katzen", "ein Auto"]}


def test_score_of_lists_equals_score_by_key():
  keyed = [
    {f"k{place}": {code: lists[code][place] for code in lists} for place in range(3)}
    for lists in (REFERENCES, PREDICTIONS)
  ]
  keyed[0]["k1"]["de"] = ["zwei Katzen"]
  by_key = scoring.score(*keyed)
  by_place = xmcap.score(REFERENCES, PREDICTIONS)
  assert by_place.table.rows == by_key.table.rows
  assert by_place.table.rows["en"]["cider"] > 0


def test_statistics_of_lists_are_in_their_order():
  result = xmcap.score({"en": [["a cat"], ["b dog"], ["c"]] * 5}, {"en": ["a cat", "x", "y"] * 5})
  (statistics,) = result.statistics.values()
  assert list(statistics.keys) == sorted(statistics.keys) and len(statistics.keys) == 15


def test_score_of_tuples_with_options():
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
def test_score_of_lists_names_malformed_input(references, predictions, message):
  with pytest.raises(UsageError, match=message):
    xmcap.score(references, predictions)
