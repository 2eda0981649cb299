"""Sections of the report: data for scripts, and HTML written by Python."""

import dataclasses

import pytest

from xmcap import languages
from xmcap.pages.report import differences, health_table, heat_map, notes, scores
from xmcap.scoring import Table, compare, score
from xmcap.scoring.health import MEASURES

_ROWS = {code: {"images": 1, "cider": score} for code, score in (("ar", 1.0), ("en", 3.0), ("te", 2.0))}


def test_scores_data_has_each_system_and_row():
  other = Table.of_rows("s", {"en": _ROWS["ar"]})
  data = scores.data(Table.of_rows("s", _ROWS), [("b", other)], "a")
  assert [language["code"] for language in data["languages"]] == ["ar", "en", "te"]
  assert [system["name"] for system in data["systems"]] == ["a", "b"]
  assert [score[0] for score in data["systems"][0]["scores"]["cider"]] == [1.0, 3.0, 2.0, 2.0]
  assert data["systems"][1]["scores"] == {"cider": [None, [1.0, None, None], None, None]}
  assert data["means"] == ["3 languages"]


def test_scores_data_orders_language_groups():
  data = scores.data(Table.of_rows("s", _ROWS), [], "a")
  groups = {language["code"]: language["group"] for language in data["languages"]}
  assert groups["en"] < groups["ar"] < groups["te"]  # English, web, low-resource


def test_scores_data_nan_intervals_are_null():
  ends = {"en": {"cider": (2.5, 3.5)}, "te": {"cider": (float("nan"), float("nan"))}}
  data = scores.data(Table.of_rows("s", _ROWS, intervals=ends), [], "a")
  assert data["systems"][0]["scores"]["cider"][:3] == [[1.0, None, None], [3.0, 2.5, 3.5], [2.0, None, None]]


def test_scores_data_of_a_system_without_the_metric_is_empty():
  other = Table.of_rows("s", {"en": {"images": 1, "chrf": 30.0}})
  assert scores.data(Table.of_rows("s", _ROWS), [("b", other)], "a")["systems"][1]["scores"] == {}


def test_scores_data_has_published_columns_by_row(ours):
  table = dataclasses.replace(ours.table, beside={"BB (paper)": {"en": 0.25}})
  assert scores.data(table, [], "a")["beside"] == {"BB (paper)": [None, None, [0.25, None, None], None]}
  assert scores.data(table, [], "a", [])["beside"] == {}


def test_scores_data_intervals_beside_use_the_scale_of_the_table(ours):
  table = dataclasses.replace(
    ours.table, beside={"x": {"en": 0.25}}, beside_intervals={"x": {"en": (0.125, 0.5)}}, scale=100
  )
  assert scores.data(table, [], "a")["beside"]["x"][2] == [25.0, 12.5, 50.0]


def test_health_table_tints_values_above_the_references(ours):
  health = dataclasses.replace(
    ours.health["en"], wrong_language=0.3, wrong_language_references=0.3, truncated=0.2,
    truncated_references=0.1, empty=0.0, repetitive=None, copy=0.9, wrong_script=0.0,
  )  # fmt: skip
  cells = health_table.data({"en": health})["rows"]["en"][: list(MEASURES).index("words")]
  assert [(text, tint) for _, text, tint in cells if tint] == [("20.0%", 40), ("90.0%", 100)]
  assert (None, "\u2013", 0) in cells
  assert health_table.section({"bare": {}}) == ""


def test_report_notes_name_groups_and_scripts_with_languages(ours):
  text = notes.reading(ours.table, (), has_scripts=True)
  assert "Low-resource languages: te" in notes.reading(
    Table.of_rows(ours.table.signature, _ROWS), (), has_scripts=True
  )
  assert "Arabic script (Arab): ar" in text and "Latin script (Latn): de, en" in text
  assert notes.group_name("script", "Hans") == "Simplified Han script (Hans)"
  for script in {language.script for language in languages.LANGUAGES.values()} | {"Geor"}:
    assert notes.group_name("script", script).startswith(f"{languages.script_name(script)} ")


@pytest.mark.parametrize("count, highest", [(1, 2.5), (2, 5.0), (3, 7.5), (4, 10.0)])
def test_cider_of_equal_short_captions_is_as_explained(count, highest):
  """The numbers of the explanation, which follow from the definition: one of four n-gram lengths each."""
  caption = " ".join(f"w{place}" for place in range(count))
  references = {"a": {"en": [caption]}, "b": {"en": ["other words than those before"]}}
  found = score(references, {"a": {"en": caption}, "b": {"en": "nothing"}}, metrics=("cider", "cider_d"))
  for metric in ("cider", "cider_d"):
    assert found.statistics["en"].image_scores(metric)[0] == pytest.approx(highest)


def test_heat_map_data_has_all_regions_first(ours, theirs):
  data = heat_map.data({"ours": ours, "theirs": theirs})
  assert [region["code"] for region in data["regions"]] == ["de", "mi", "th"]
  assert [column["code"] for column in data["columns"]] == ["ar", "de", "en", "mean"]
  rows = data["scores"][0]["cider_d"]
  assert rows[0][1] == pytest.approx(ours.table.rows["de"]["cider_d"], abs=5e-5)
  assert rows[2][3] == pytest.approx(ours.slices.regions["mi"]["3 languages"]["cider_d"], abs=5e-5)
  assert data["scores"][1]["cider_d"][0][0] == pytest.approx(theirs.table.rows["ar"]["cider_d"], abs=5e-5)


def test_heat_map_counts_regions_beyond_the_limit(ours, monkeypatch):
  monkeypatch.setattr(heat_map, "MAX_REGIONS", 2)
  assert "1 regions with fewer images are not shown." in heat_map.section({"ours": ours})


def test_differences_section_notes_too_few_resamples(ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, resamples=59)
  assert "With 59 resamples none of 3 languages can be significant" in differences.section(held)
