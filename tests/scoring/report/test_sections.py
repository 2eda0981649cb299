"""The tables of the report: what their cells say."""

import dataclasses
import re

import pytest

from xmcap.scoring import compare
from xmcap.scoring.report import differences, elements, headline, health_table, heat_map, score_table


def _cells(html, start):
  row = next(row for row in html.split("<tr>") if row.startswith(start))
  texts = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
  return [re.sub("<[^>]*>", "", text) for text in texts]


def _headings(html):
  return [re.sub("<[^>]*>", "", text) for text in re.findall(r"<th scope=\"col\".*?</th>", html)]


def test_the_table_shows_the_difference_to_the_reference(ours, theirs):
  html = score_table.section(ours.table, [("theirs", theirs.table)], 0)
  assert _headings(html)[2:5] == ["CIDEr-D", "theirs CIDEr-D", "difference to theirs"]
  cells = _cells(html, '<td class="first"><code>de</code>')
  score, other = (float(re.match(r"\d+\.\d{3}", cells[i])[0]) for i in (2, 3))
  assert float(cells[4].replace("\u2212", "-")) == pytest.approx(score - other, abs=0.0015)


def test_all_differences_of_a_comparison_are_of_a_system_less_the_baseline(ours, theirs):
  row = next(row for row in compare({"ours": ours, "theirs": theirs}, resamples=20).rows if row.name == "de")
  html = score_table.section(ours.table, [("theirs", theirs.table)], None, baseline="ours")
  assert _headings(html)[2] == "ours CIDEr-D"
  assert _headings(html)[4] == "difference of theirs"
  expected = elements.signed("cider_d", row.difference)
  assert expected != elements.signed("cider_d", -row.difference)
  assert _cells(html, '<td class="first"><code>de</code>')[4] == expected
  means = [table.means["3 languages"]["cider_d"] for table in (theirs.table, ours.table)]
  tiles = headline.tiles(ours.table, [("theirs", theirs.table)], baseline="ours")
  assert elements.signed("cider_d", means[0] - means[1]) in tiles


def test_the_table_shows_intervals_and_published_columns(ours):
  table = dataclasses.replace(ours.table, beside={"BB (paper)": {"en": 0.25}})
  html = score_table.section(table, [], None)
  low, high = table.intervals["en"]["cider_d"]
  english, german = (_cells(html, f'<td class="first"><code>{code}</code>') for code in ("en", "de"))
  assert english[2].endswith(f"{low:.3f} \u2013 {high:.3f}")
  assert (english[3], german[3]) == ("0.250", "\u2013")


def test_the_headline_compares_the_means(ours, theirs):
  html = headline.tiles(ours.table, [("theirs", theirs.table)])
  mean, other = (table.means["3 languages"]["cider_d"] for table in (ours.table, theirs.table))
  assert elements.signed("cider_d", mean - other) in html
  assert html.index("CIDEr-D") < html.index("Exact") and html.count("primary") == 1


def test_differences_have_a_sign_unless_they_show_as_zero():
  assert elements.signed("cider", 0.0004) == "0.000" and elements.signed("cider", -0.0006) == "\u22120.001"
  assert elements.signed("exact", 0.05) == "+5.0%"


def test_health_is_tinted_by_what_exceeds_the_references(ours):
  health = dataclasses.replace(
    ours.health["en"], wrong_language=0.3, wrong_language_references=0.3, truncated=0.2,
    truncated_references=0.1, empty=0.0, repetitive=None, copy=0.9, wrong_script=0.0,
  )  # fmt: skip
  html = health_table.section({"ours": {"en": health}, "bare": {}})
  assert re.findall(r'--strength:(\d+)%">([\d.]+%)', html) == [("40", "20.0%"), ("100", "90.0%")]
  assert health_table.section({"bare": {}}) == ""


def test_the_heat_map_holds_all_regions_then_each(ours, theirs):
  data = heat_map.data({"ours": ours, "theirs": theirs})
  assert [region["code"] for region in data["regions"]] == ["de", "mi", "th"]
  assert [column["code"] for column in data["columns"]] == ["ar", "de", "en", "mean"]
  rows = data["scores"][0]["cider_d"]
  assert rows[0][1] == pytest.approx(ours.table.rows["de"]["cider_d"], abs=5e-5)
  assert rows[2][3] == pytest.approx(ours.slices.regions["mi"]["3 languages"]["cider_d"], abs=5e-5)
  assert data["scores"][1]["cider_d"][0][0] == pytest.approx(theirs.table.rows["ar"]["cider_d"], abs=5e-5)


def test_regions_beyond_the_limit_are_counted(ours, monkeypatch):
  monkeypatch.setattr(heat_map, "MAX_REGIONS", 2)
  assert "1 regions with fewer images are not shown." in heat_map.section({"ours": ours})


def test_too_few_resamples_are_told(ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, resamples=59)
  assert "Of 3 languages none can be marked with 59 resamples" in differences.section(held)


def test_differences_of_a_comparison_are_told_and_drawn(ours, theirs):
  held = compare({"ours": ours, "theirs": theirs}, ["cider_d"], resamples=50)
  html = differences.section(held)
  row = next(row for row in held.rows if row.name == "de")
  cells = _cells(html, '<td class="first"><code>de</code>')
  assert cells[2] == elements.signed("cider_d", row.difference)
  assert cells[4] == " to ".join(elements.signed("cider_d", end) for end in (row.low, row.high))
  assert html.count('class="forest') == 4  # three languages and their mean
  assert html.count("circle") == 4
