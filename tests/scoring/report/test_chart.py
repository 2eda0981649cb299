from xmcap.scoring import Table
from xmcap.scoring.report import chart

_ROWS = {code: {"images": 1, "cider": score} for code, score in (("ar", 1.0), ("en", 3.0), ("te", 2.0))}


def test_the_data_holds_each_system_and_language():
  other = Table.of_rows("s", {"en": _ROWS["ar"]})
  data = chart.data(Table.of_rows("s", _ROWS), [("b", other)], "a")
  assert [language["code"] for language in data["languages"]] == ["ar", "en", "te"]
  assert [system["name"] for system in data["systems"]] == ["a", "b"]
  assert data["systems"][0]["scores"] == {"cider": [[1.0, None, None], [3.0, None, None], [2.0, None, None]]}
  assert data["systems"][1]["scores"] == {"cider": [None, [1.0, None, None], None]}
  assert data["means"] == {"cider": 2.0}


def test_groups_stand_in_order():
  data = chart.data(Table.of_rows("s", _ROWS), [], "a")
  groups = {language["code"]: language["group"] for language in data["languages"]}
  assert groups["en"] < groups["ar"] < groups["te"]  # English, web, low-resource


def test_intervals_that_are_not_known_are_absent():
  ends = {"en": {"cider": (2.5, 3.5)}, "te": {"cider": (float("nan"), float("nan"))}}
  data = chart.data(Table.of_rows("s", _ROWS, intervals=ends), [], "a")
  assert data["systems"][0]["scores"]["cider"] == [[1.0, None, None], [3.0, 2.5, 3.5], [2.0, None, None]]


def test_a_system_that_was_not_scored_in_a_metric_has_no_scores():
  other = Table.of_rows("s", {"en": {"images": 1, "chrf": 30.0}})
  assert chart.data(Table.of_rows("s", _ROWS), [("b", other)], "a")["systems"][1]["scores"] == {}
