import dataclasses

import pytest

from tests.make.refusals import refusal
from xmcap import languages, papers
from xmcap.digests import of_images
from xmcap.scoring import score
from xmcap.scoring.baselines import check_images, read_baseline, with_beside, with_published

_REFERENCES = {"k1": {"en": ["a dog"], "de": ["ein Hund"]}, "k2": {"en": ["two cats"], "de": ["Katzen"]}}
_PREDICTIONS = {"k1": {"en": "a dog", "de": "Hund"}, "k2": {"en": "a cat", "de": "Katze"}}


def _score(**options):
  return score(_REFERENCES, _PREDICTIONS, **options)


@pytest.fixture
def folder(tmp_path):
  """A folder with a table in CIDEr and chrF."""
  _score(title="first", metrics="cider,chrf").table.write(tmp_path)
  return tmp_path


def test_baseline_column_of_the_chosen_metric(folder):
  (column,) = read_baseline(folder, "chrf").items()
  assert column == ("first (chrF)", {"de": column[1]["de"], "en": column[1]["en"]})
  assert column[1]["de"] == _score(metrics="chrf").table.rows["de"]["chrf"]


def test_baseline_column_defaults_to_the_primary_metric(folder):
  assert list(read_baseline(folder)) == ["first (CIDEr)"]


def test_baseline_without_a_title_is_named_by_its_folder(folder):
  _score().table.write(folder / "ours")
  assert list(read_baseline(folder / "ours")) == ["ours (CIDEr-D)"]


def test_baseline_column_has_intervals_if_bootstrapped(folder):
  scored = _score(title="second", metrics="chrf", bootstrap=50).table
  scored.write(folder / "second")
  table = with_beside(_score(metrics="chrf", scale=100), read_baseline(folder / "second")).table
  assert table.beside_intervals == {
    "second (chrF)": {name: scored.intervals[name]["chrf"] for name in ("de", "en", "2 languages")}
  }
  cell = table.cell_beside("de", "second (chrF)", "{:.3f}".format)
  assert cell == scored.cell("de", "chrf", "{:.3f}".format) and cell.count("[") == 1
  assert cell in table.terminal() and cell in table.as_markdown().replace("\\", "")
  assert _score(metrics="chrf").table.cell("de", "chrf", "{:.1f}".format) in table.as_latex()
  without = with_beside(_score(metrics="chrf"), read_baseline(folder, "chrf")).table
  assert "[" not in without.cell_beside("de", "first (chrF)", "{:.3f}".format)


def test_baseline_interval_of_a_mean_needs_the_same_languages(folder):
  _score(title="second", metrics="chrf", bootstrap=50).table.write(folder / "second")
  table = with_beside(_score(metrics="chrf", languages=["de"]), read_baseline(folder / "second")).table
  assert {*table.beside_intervals["second (chrF)"]} == {"de", "1 language"}  # which is that of de


def test_a_baseline_without_the_metric_is_refused(folder):
  message = "was scored in cider, chrf, not in cider_d: score it again so, or give scores of the same command"
  assert message in refusal(read_baseline, folder, "cider_d")


@pytest.mark.parametrize(
  "options, note",
  [
    ({}, None),
    ({"bootstrap": 10, "missing": "empty"}, None),
    (
      {"tokenizer": "char"},
      "columns first (chrF): scored in another way, so compare with care; document_freq",
    ),
    ({"languages": ["en"]}, "languages: de en against en"),
  ],
)
def test_baseline_scored_with_other_options_is_noted(folder, options, note):
  table = with_beside(_score(metrics="chrf", **options), read_baseline(folder, "chrf")).table
  assert list(table.beside) == ["first (chrF)"]
  if note is None:
    assert table.notes == ()
  else:
    assert len(table.notes) == 1 and note in table.notes[0]


def test_notes_of_the_baseline_are_carried(folder):
  table = _score(metrics="chrf").table
  dataclasses.replace(table, notes=("2 missing",)).write(folder / "noted")
  table = with_beside(_score(metrics="chrf"), read_baseline(folder / "noted", "chrf")).table
  assert table.notes == ("columns noted (chrF): 2 missing",)
  assert table.own_notes == ()


def test_baseline_paper_is_refused_for_other_images(monkeypatch):
  message = "on the 3,600 pictures of XM3600, and the references are for other"
  assert message in refusal(check_images, "paper", _REFERENCES)
  check_images("a folder", _REFERENCES)
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(_REFERENCES))
  check_images("paper", _REFERENCES)


def test_published_rows_are_as_printed():
  # PaliGemma 2 (arXiv 2412.03555), Table 13; Centurio (arXiv 2501.05122), Table 5.
  rows = {row["model"]: row for name in papers.ROWS for row in papers.protocol_rows(name)}
  assert len(rows) == 15 + 15
  assert rows["PaliGemma 2 10B 448"] == {
    "model": "PaliGemma 2 10B 448",
    "en": pytest.approx(0.815),
    "all but en": pytest.approx(0.446),
    "paper": "arXiv 2412.03555",
    "table": "Table 13",
  }
  assert rows["Centurio Qwen"]["all but en"] == pytest.approx(0.344)


def test_published_rows_stand_below_a_table_of_all_languages(monkeypatch):
  codes = [code for code in languages.LANGUAGES if code not in ("ja", "th", "zh")] + ["ja", "th", "zh"]
  references = {key: dict.fromkeys(codes, [f"{key} dog"]) for key in ("one", "two")}
  predictions = {key: dict.fromkeys(codes, "one dog") for key in references}
  result = score(references, predictions, scale=100)
  table = with_published(result, "paligemma").table
  assert len(table.published) == 15 and "  78.0  " in table.terminal()
  assert table.notes[-1].endswith("this table is of other pictures, so compare with care")
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(references))
  assert with_published(result, "paligemma").table.notes[-1].endswith("by the protocol paligemma, as printed")
  assert with_published(result, "paper") is result
