import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.scoring import read_predictions, write_predictions
from xmcap.scoring.predictions import check_predictions

_REFERENCES = {"k1": {"en": ["a"], "th": ["b"]}, "k2": {"en": ["c"]}}


def test_written_predictions_are_read_back(tmp_path):
  rows = [("k1", "th", 'ข้อความ "\\\u2028'), ("k0", "en", ""), ("k1", "en", "a\nb")]
  write_predictions(tmp_path / "p.jsonl", iter(rows))
  assert read_predictions(tmp_path / "p.jsonl") == {
    "k1": {"th": 'ข้อความ "\\\u2028', "en": "a\nb"},
    "k0": {"en": ""},
  }


def test_unwritable_place_is_one_line(tmp_path):
  with pytest.raises(XmcapError, match="cannot be written"):
    write_predictions(tmp_path, [("k", "en", "a")])


@pytest.mark.parametrize(
  "line, message",
  [
    ('{"image/key": "k", "language": "en"}', "line 2: 'caption' is missing or no text"),
    ('{"image/key": "k", "language": "en", "caption": null}', "line 2: 'caption' is missing or no text"),
    ('{"image/key": 1, "language": "en", "caption": ""}', "line 2: 'image/key' is missing or no text"),
    (
      '{"image/key": "k", "language": "eng", "caption": ""}',
      "line 2: unknown language 'eng'; did you mean 'en'",
    ),
    (
      '{"image/key": "k0", "language": "en", "caption": "b"}',
      r"1 prediction given twice \(en k0 on line 2\)",
    ),
    ("{", "line 2: broken JSON"),
  ],
)
def test_bad_rows_are_named(tmp_path, line, message):
  path = tmp_path / "p.jsonl"
  path.write_text('{"image/key": "k0", "language": "en", "caption": "a"}\n' + line + "\n")
  with pytest.raises(UsageError, match=message):
    read_predictions(path)


def test_empty_file_is_refused(tmp_path):
  (tmp_path / "p.jsonl").write_text("\n")
  with pytest.raises(UsageError, match="no prediction in it"):
    read_predictions(tmp_path / "p.jsonl")


def test_an_image_without_references_in_a_language_is_not_asked_for():
  assert check_predictions(_REFERENCES, {"k1": {"en": "", "th": ""}, "k2": {"en": ""}}) == ("en", "th")


def test_languages_choose_what_is_scored():
  predictions = {"k1": {"en": "", "de": ""}, "k2": {"en": ""}}
  assert check_predictions(_REFERENCES, predictions, ["en"]) == ("en",)


@pytest.mark.parametrize(
  "predictions, message",
  [
    ({"k1": {"en": ""}, "k2": {"en": ""}}, r"1 of 3 predictions are missing, in th \(th k1\)"),
    ({}, r"3 of 3 predictions are missing, in 2 languages \(en k1, th k1, en k2\)"),
    (
      {"k1": {"en": "", "th": ""}, "k2": {"en": "", "th": ""}},
      r"1 prediction without references, 0 unknown images among them \(th k2\)",
    ),
    (
      {"k1": {"en": "", "th": ""}, "k2": {"en": ""}, "k3": {"en": ""}},
      r"1 prediction without references, 1 unknown image among them \(en k3\)",
    ),
    ({"k1": {"en": "", "th": "", "de": ""}, "k2": {"en": ""}}, "no references in de"),
  ],
)
def test_what_does_not_fit_is_refused(predictions, message):
  with pytest.raises(UsageError, match=message):
    check_predictions(_REFERENCES, predictions)


def test_asking_for_a_language_without_references_is_refused():
  with pytest.raises(UsageError, match="no references in de"):
    check_predictions(_REFERENCES, {"k1": {"de": ""}}, ["de"])
  with pytest.raises(UsageError, match="the references hold no caption"):
    check_predictions({"k": {}}, {})


def test_only_the_first_few_are_listed():
  references = {f"k{i}": {"en": ["a"]} for i in range(5000)}
  with pytest.raises(UsageError, match=r"5,000 of 5,000 .* \(en k0, en k1, en k2, \.\.\.\)"):
    check_predictions(references, {})
