"""The published tables of XM3600 and its baselines, against their transcription."""

import pathlib
import re

import pytest

from xmcap import languages, papers

_PAPER = pathlib.Path(__file__).parents[3] / "shared" / "paper"


# Rows picked from several papers.
_OTHERS = {*(f"{protocol}_xm3600" for protocol in papers.ROWS), *papers.LANGUAGE_ROWS.values()}
# Made here: the released file's ids stand for captions; from the paper's text; from the XLM-R paper.
_OWN = {"thumb_examples", "babel_imagenet_table6", "babel_imagenet_table7", "xlmr_tokens"}
_TABLES = sorted(
  table
  for table in pathlib.Path(papers.__file__).parent.glob("*.csv")
  if table.stem not in _OTHERS | _OWN and "draft" not in table.stem
)


@pytest.mark.parametrize("table", _TABLES, ids=lambda table: table.stem)
def test_published_tables_equal_the_transcription(table):
  if not _PAPER.is_dir():
    pytest.skip("the transcribed tables are not beside this checkout (../shared/paper)")
  assert table.read_bytes() == (_PAPER / table.name).read_bytes()


def test_published_tables_of_adapters_and_distilled_languages_are_lines_of_the_paper():
  texts = list((_PAPER.parent / "seeds").glob("001_*.txt"))
  if not texts:
    pytest.skip("the paper's text is not beside this checkout (../shared/seeds)")
  lines = texts[0].read_text(encoding="utf-8").splitlines()
  for cells in papers.rows("babel_imagenet_table6").values():
    assert any(line.endswith(" ".join(cells.values())) for line in lines), cells
  means = [name for group in ("low", "mid", "high") for name in (group, f"{group}_delta")]
  for row in papers.read("babel_imagenet_table7"):
    assert " ".join([row["model"], *(row[name] for name in means if row[name])]) in lines


@pytest.mark.parametrize(
  "table, columns, rows",
  [
    ("table1_caption_stats", (), 35),
    ("table2_quality", (), 25),
    ("table5_sxs", ("m2", "m1", "lang", "delta_sxs", "delta_cider_3600", "delta_cider_val"), 18),
    ("table6_correlations", ("coefficient", "cider_3600", "cider_val"), 4),
  ],
)
def test_published_draft_tables_equal_the_text(table, columns, rows):
  texts = list((_PAPER.parent / "seeds").glob("003_*.txt"))
  if not texts:
    pytest.skip("the draft's text is not beside this checkout (../shared/seeds)")
  # How strong a coefficient is said to be; a letter misread; names cut off.
  text = re.sub(r" \((strong|medium|weak)\)", "", texts[0].read_text()).lower().replace("fi1\t", "fil\t")
  stored = papers.read(f"xm3600_draft_{table}")
  lines = {"\t".join(row[column] for column in columns or row).lower() for row in stored}
  assert len(stored) == len(lines) == rows
  assert {re.sub("-cm[gi]d\t", "-cmg\t", line) for line in lines} <= {*text.splitlines()}


def test_published_rows_keep_the_printed_digits():
  rows = papers.read("xm3600_table6_correlations")
  assert rows[1] == {"coefficient": "Spearman", "langs": "ALL", "n": "130", "xm600": "0.87", "xm3600": "0.92",
                     "coco_dev": "0.30"}  # fmt: skip


@pytest.mark.parametrize("model, english", [("BB+CC", 0.584), ("BB", 0.297), ("Bg", 0.337), ("Lg", 0.343)])
def test_published_models_have_the_35_trained_languages(model, english):
  # Table 4 of the paper prints the English values once more.
  rows = papers.table_rows(model)
  assert set(rows) == set(languages.TRAINED)
  assert rows["en"] == english


# The means that are printed beside them: Tables 5 and 26 of Centurio's paper, Table 9 of the Gemini 1.0 report.
@pytest.mark.parametrize("baseline, mean", [("centurio", "all but en"), ("gemini", "mean")])
def test_published_language_scores_have_the_printed_means(baseline, mean):
  rows = {row["model"]: row for row in papers.read(papers.LANGUAGE_ROWS[baseline])}
  for model, scores in papers.language_rows(baseline).items():
    values = [score for code, score in scores.items() if code != "en" or baseline == "gemini"]
    assert 100 * sum(values) / len(values) == pytest.approx(float(rows[model][mean]), abs=0.05)
    assert 100 * scores["en"] == pytest.approx(float(rows[model]["en"]))
  printed = {row["model"]: row for row in papers.read("centurio_xm3600")}
  for model in printed.keys() & rows.keys():
    assert rows[model]["en"] == printed[model]["en"] and rows[model][mean] == printed[model]["all but en"]
