import re

from xmcap.scoring import Table
from xmcap.scoring.report import chart

_ROWS = {code: {"images": 1, "cider": score} for code, score in (("ar", 1.0), ("en", 3.0), ("te", 2.0))}


def test_a_column_a_language_and_a_mark_a_system():
  other = Table.of_rows("s", {"en": _ROWS["ar"]})
  svg = chart.chart("cider", Table.of_rows("s", _ROWS), [("b", other)])
  assert svg.count('class="column"') == 3 and svg.count("mark mark-0") == 1


def test_columns_know_their_places_in_every_order():
  svg = chart.chart("cider", Table.of_rows("s", _ROWS), [])
  places = {
    by: [float(x) for x in re.findall(f'data-by-{by}="([0-9.]+)"', svg)] for by in ("code", "score", "group")
  }
  assert places["code"] == sorted(places["code"])
  assert sorted(range(3), key=places["score"].__getitem__) == [1, 2, 0]  # en, te, ar
  assert sorted(range(3), key=places["group"].__getitem__) == [1, 0, 2]  # English, web, low-resource


def test_intervals_are_drawn_and_told_where_there_are_any():
  ends = {"en": {"cider": (2.5, 3.5)}, "te": {"cider": (float("nan"), float("nan"))}}
  svg = chart.chart("cider", Table.of_rows("s", _ROWS, intervals=ends), [])
  assert svg.count("whisker") == 1 and "nan" not in svg.replace("[nan, nan]", "")
  assert "3.000 [2.500, 3.500]" in svg


def test_a_system_that_was_not_scored_in_a_metric_has_no_marks():
  other = Table.of_rows("s", {"en": {"images": 1, "chrf": 30.0}})
  assert "mark mark" not in chart.chart("cider", Table.of_rows("s", _ROWS), [("b", other)])
