import csv
import io
import json

import pytest

from xmcap import languages
from xmcap.scoring import Table
from xmcap.scoring.tables import mean_label


def _row(score, images=3600):
  return {"images": images, "cider": score, "cider_d": score / 2, "exact": 0.125}


def _table(codes, title=""):
  return Table.of_rows("signature", {code: _row(float(i)) for i, code in enumerate(codes)}, title)


def test_means_over_35_and_36():
  table = _table(languages.LANGUAGES)
  quz = table.rows["quz"]["cider"]
  assert list(table.means) == ["35", "36"]
  assert table.means["36"]["cider"] == pytest.approx(17.5)
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
def test_a_mean_is_called_by_what_it_is_over(codes, name):
  assert list(_table(codes).means) == [name]


def test_json_is_as_documented():
  value = json.loads(_table(["en", "de"]).as_json())
  assert value == {
    "signature": "signature",
    "languages": {"de": _row(1.0), "en": _row(0.0)},
    "means": {"2 languages": {"cider": 0.5, "cider_d": 0.25, "exact": 0.125}},
  }


def test_csv_keeps_every_digit():
  table = Table.of_rows("s", {"en": _row(1 / 3)})
  rows = list(csv.DictReader(io.StringIO(table.as_csv())))
  assert [row["language"] for row in rows] == ["en", "mean_1_language"]
  assert float(rows[0]["cider"]) == 1 / 3 and rows[1]["images"] == ""


def test_markdown_and_latex():
  table = _table(languages.LANGUAGES, title="a <b> | c")
  assert "| ar | Arabic | 3,600 | 0.000 | 0.000 | 12.5% |" in table.as_markdown()
  assert "| **mean** | **35 trained languages** | |" in table.as_markdown()
  assert "### a \\<b\\> \\| c" in table.as_markdown()
  assert "Arabic & ar & 3600 & 0.000 & 0.000 & 12.5\\% \\\\" in table.as_latex()
  assert table.as_latex().count("\\\\\n") == 1 + 36 + 2


def test_terminal_shows_baselines_beside():
  text = _table(["en", "de"]).terminal({"most frequent": _table(["de"])})
  lines = text.splitlines()
  assert lines[0].endswith("most frequent (CIDEr-D)")
  assert lines[2].split() == ["de", "German", "3,600", "1.000", "0.500", "12.5%", "0.000"]
  assert lines[3].split()[-1] == "-"


def test_write_makes_four_files(tmp_path):
  _table(["en"]).write(tmp_path / "a" / "b")
  assert sorted(file.name for file in (tmp_path / "a" / "b").iterdir()) == [
    "table.csv",
    "table.json",
    "table.md",
    "table.tex",
  ]


def test_mean_labels():
  assert [mean_label(name) for name in ("35", "36", "3 languages")] == [
    "35 trained languages",
    "all 36 languages",
    "3 languages",
  ]
