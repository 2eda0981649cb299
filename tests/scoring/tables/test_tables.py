import csv
import dataclasses
import io
import json

import pytest

from tests.make.refusals import refusal
from xmcap import languages
from xmcap.scoring import Table
from xmcap.scoring.result import read_table
from xmcap.scoring.tables.score_table import column, mean_label

_SIGNATURE = "metric.cider:n=4|tokenizer:default-1[all]|xmcap:0.1.0"


def _row(score, images=3600):
  return {"images": images, "references": 2 * images, "cider": score, "cider_d": score / 2, "exact": 0.125}


def _table(codes, title="", **more):
  return Table.of_rows(_SIGNATURE, {code: _row(float(i)) for i, code in enumerate(codes)}, title, **more)


def _intervals(table):
  return {
    name: {metric: (scores[metric] - 0.5, scores[metric] + 0.5) for metric in table.metrics}
    for name, scores in [*table.rows.items(), *table.means.items()]
  }


def test_means_over_35_and_36():
  table = _table(languages.LANGUAGES)
  quz = table.rows["quz"]["cider"]
  assert list(table.means) == ["35", "all but en", "36"]
  assert table.means["36"]["cider"] == pytest.approx(17.5)
  assert table.means["all but en"]["cider"] == pytest.approx((17.5 * 36 - table.rows["en"]["cider"]) / 35)
  assert table.means["35"]["cider"] == pytest.approx((17.5 * 36 - quz) / 35)


@pytest.mark.parametrize(
  "codes, name",
  [
    (languages.TRAINED, "35"),
    ([code for code in languages.LANGUAGES if code != "en"], "35 languages"),
    (["en", "th", "quz"], "3 languages"),
    (["en"], "1 language"),
  ],
)
def test_table_mean_is_named_by_its_languages(codes, name):
  assert list(_table(codes).means) == [name]


def test_json_is_as_documented():
  value = json.loads(_table(["en", "de"], "t", notes=("n",)).as_json())
  assert value.pop("signature_short").startswith("cider#")
  assert value == {
    "title": "t",
    "signature": _SIGNATURE,
    "scale": 1,
    "metrics": ["cider", "cider_d", "exact"],
    "languages": {"de": _row(1.0), "en": _row(0.0)},
    "means": {"2 languages": {"cider": 0.5, "cider_d": 0.25, "exact": 0.125}},
    "shares": {},
    "beside": {},
    "differences": {},
    "published": [],
    "notes": ["n"],
  }


def test_table_json_with_intervals():
  table = _table(["en", "de"])
  value = json.loads(dataclasses.replace(table, intervals=_intervals(table)).as_json())
  assert value["languages"]["de"]["cider_d"] == {"score": 0.5, "low": 0.0, "high": 1.0}
  assert value["languages"]["de"]["images"] == 3600
  assert value["means"]["2 languages"]["cider"] == {"score": 0.5, "low": 0.0, "high": 1.0}


def test_table_scale_100_is_shown_and_not_stored(tmp_path):
  table = dataclasses.replace(
    _table(["en", "de"], beside={"x (CIDEr-D)": {"de": 0.25}}),
    intervals=_intervals(_table(["en", "de"])),
    scale=100,
  )
  assert table.rows["de"]["cider_d"] == 0.5
  assert table.cell("de", "cider_d") == "50.0 [0.0, 100.0]"
  assert table.cell("de", "exact") == "12.5% [-37.5%, 62.5%]"  # per cent already
  assert "  25.0       +25.0" in table.terminal()
  value = json.loads(table.as_json())
  assert value["scale"] == 100
  assert value["languages"]["de"] == {
    "images": 3600,
    "references": 7200,
    "cider": {"score": 100.0, "low": 50.0, "high": 150.0},
    "cider_d": {"score": 50.0, "low": 0.0, "high": 100.0},
    "exact": {"score": 0.125, "low": -0.375, "high": 0.625},
  }
  assert value["beside"] == {"x (CIDEr-D)": {"de": 25.0}}
  assert value["differences"]["x (CIDEr-D)"]["de"] == 25.0
  (row,) = [row for row in csv.DictReader(io.StringIO(table.as_csv())) if row["language"] == "de"]
  assert row["cider"] == "100.0" and row["cider_d_high"] == "100.0" and row["exact"] == "0.125"
  table.write(tmp_path)
  read = read_table(tmp_path / "table.json")
  names = ("rows", "means", "intervals", "scale")
  assert [getattr(read, name) for name in names] == [getattr(table, name) for name in names]


@pytest.mark.parametrize("scale", [10, 0, -1, "100", 100.5, None])
def test_table_json_of_an_invalid_scale_is_refused(tmp_path, scale):
  _table(["en"]).write(tmp_path)
  value = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
  (tmp_path / "table.json").write_text(json.dumps(value | {"scale": scale}), encoding="utf-8")
  assert "not a table of xmcap score" in refusal(read_table, tmp_path / "table.json")


def test_published_rows_stand_below_table_rows():
  rows = ({"model": "m", "paper": "p", "table": "Table 1", "en": 0.78, "all but en": 0.419},)
  table = dataclasses.replace(_table(languages.LANGUAGES, "ours"), published=rows, scale=100)
  lines = table.terminal().split("\n")
  (heading,) = [line for line in lines if "paper" in line]
  assert heading.split("  ")[-2:] == ["CIDEr-D, en", "CIDEr-D, all but en"]
  (own,) = [line for line in lines if line.startswith("ours ")]
  (theirs,) = [line for line in lines if line.startswith("m ")]
  assert own.split() == ["ours", table.cell("en", "cider_d"), table.cell("all but en", "cider_d")]
  assert theirs.split() == ["m", "p", "Table", "1", "78.0", "41.9"]
  assert json.loads(table.as_json())["published"][0]["all but en"] == pytest.approx(41.9)
  assert "| m | p | Table 1 | 78.0 | 41.9 |" in table.as_markdown() and "41.9" in table.as_latex()


def test_csv_keeps_every_digit():
  table = Table.of_rows(_SIGNATURE, {"en": _row(1 / 3)})
  rows = list(csv.DictReader(io.StringIO(table.as_csv())))
  assert [row["language"] for row in rows] == ["en", "mean_1_language"]
  assert float(rows[0]["cider"]) == 1 / 3 and rows[1]["images"] == rows[1]["references"] == ""


def test_csv_with_intervals_and_a_column_beside():
  table = _table(["en", "de"])
  table = dataclasses.replace(table, intervals=_intervals(table), beside={"paper": {"de": 0.25}})
  rows = list(csv.DictReader(io.StringIO(table.as_csv())))
  assert (rows[0]["cider_low"], rows[0]["cider"], rows[0]["cider_high"]) == ("0.5", "1.0", "1.5")
  assert [row["paper"] for row in rows] == ["0.25", "", ""]
  assert [row["difference to paper"] for row in rows] == ["0.25", "", ""]
  assert json.loads(table.as_json())["differences"] == {"paper": {"de": 0.25}}


def test_table_markdown_and_latex():
  table = _table(languages.LANGUAGES, title="a <b> | c")
  assert "| ar | Arabic | 3,600 | 7,200 | 0.000 | 0.000 | 12.5% |" in table.as_markdown()
  assert "| **mean** | **35 languages (all but quz)** |  |" in table.as_markdown()
  assert "### a &lt;b\\> \\| c" in table.as_markdown()
  assert "ar & Arabic & 3,600 & 7,200 & 0.000 & 0.000 & 12.5\\% \\\\" in table.as_latex()
  assert table.as_latex().count("\\\\\n") == 1 + 36 + 3


def test_table_terminal_shows_baselines():
  lines = _table(["en", "de"], beside={"paper": {"de": 0.25}}).terminal().splitlines()
  assert lines[0].split()[-2:] == ["paper", "difference"]
  assert lines[2].split() == ["de", "German", "3,600", "7,200", "1.000", "0.500", "12.5%", "0.250", "+0.250"]
  assert lines[3].split()[-1] == "-"


def test_terminal_shows_intervals_notes_and_the_short_signature():
  table = _table(["en", "de"], notes=("3 missing",))
  text = dataclasses.replace(table, intervals=_intervals(table)).terminal()
  assert "1.000 [0.500, 1.500]" in text and "12.5% [-37.5%, 62.5%]" in text
  assert "note: 3 missing" in text and "signature: cider#" in text


def test_table_primary_metric():
  assert _table(["en"]).primary == "cider_d"
  assert Table.of_rows(_SIGNATURE, {"en": {"images": 1, "references": 1, "chrf": 50.0}}).primary == "chrf"


def test_column_has_means_of_complete_groups_only():
  rows = _table(languages.LANGUAGES).rows
  held = column(rows, dict.fromkeys(languages.TRAINED, 2.0))
  assert held["35"] == 2.0 and "36" not in held and "quz" not in held


def test_mean_labels():
  labels = {"35": "35 languages (all but quz)", "all but en": "all but en", "36": "all 36 languages"}
  assert {name: mean_label(name) for name in labels} == labels and mean_label("3 languages") == "3 languages"


def test_shares_stand_between_scores_and_baselines():
  rows = {
    "en": {"images": 1, "references": 2, "cider": 0.5},
    "mi": {"images": 1, "references": 1, "cider": 0.1},
  }
  table = Table.of_rows(_SIGNATURE, rows, shares={"fidelity": {"en": 0.957}}, beside={"other": {"en": 0.4}})
  assert json.loads(table.as_json())["shares"] == {"fidelity": {"en": 0.957}}
  header, en, mi, mean = table.as_csv().splitlines()
  assert header == "language,images,references,cider,fidelity,other,difference to other"
  assert en.startswith("en,1,2,0.5,0.957,0.4,") and mi == "mi,1,1,0.1,,," and mean.endswith(",,,")
  assert "| 0.500 | 95.7% | 0.400 |" in table.as_markdown()
  assert r" & \textbf{0.500} & 95.7\% & 0.400 & " in table.as_latex()
  assert "fidelity" in table.terminal()
