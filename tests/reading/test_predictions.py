"""Predictions: JSONL round trip, folders of languages, missing and unknown images."""

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError, XmcapError
from xmcap.reading.missing import fill_missing, match_references
from xmcap.scoring import read_predictions, write_predictions

_REFERENCES = {"k1": {"en": ["a"], "th": ["b"]}, "k2": {"en": ["c"]}}


def test_predictions_jsonl_round_trip(tmp_path):
  captions = [("k1", {"th": 'ข้อความ "\\\u2028'}), ("k0", {"en": ""}), ("k1", {"en": "a\nb"})]
  write_predictions(tmp_path / "p.jsonl", iter(captions))
  read = {"k1": {"th": 'ข้อความ "\\\u2028', "en": "a\nb"}, "k0": {"en": ""}}
  assert read_predictions(tmp_path / "p.jsonl") == read


def test_write_predictions_to_a_folder_is_refused(tmp_path):
  assert "cannot write" in refusal(write_predictions, tmp_path, [("k", {"en": "a"})], error=XmcapError)


_TWICE = r"1 prediction given twice, with another caption \(en k, line 2\)"


@pytest.mark.parametrize(
  "line, message",
  [
    ('{"image/key": "k", "language": "en"}', "line 2: 'caption' is missing or not a string"),
    ('{"image/key": "k", "language": "en", "caption": 7}', "line 2: 'caption' is missing or not a string"),
    ('{"image/key": [1], "language": "en", "caption": ""}', "line 2: 'image/key' is missing or neither"),
    ('{"image/key": "k", "language": 1, "caption": ""}', "line 2: 'language' is not a string"),
    ('{"image/key": "k", "language": "xx", "caption": ""}', "line 2: unknown language 'xx'"),
    ('{"image/key": "k", "language": "en", "caption": "b"}', _TWICE),
    ("{", "line 2: broken JSON"),
  ],
)
def test_malformed_prediction_rows_are_named(tmp_path, line, message):
  path = files.lines(tmp_path / "p.jsonl", '{"image/key": "k", "language": "en", "caption": "a"}', line)
  with pytest.raises(UsageError, match=message):
    read_predictions(path)


def test_language_option_must_agree_with_predictions(tmp_path):
  rows = {"image/key": "k", "caption": "a"}, {"image/key": "m", "language": "el", "caption": "b"}
  path = files.jsonl(tmp_path / "p.jsonl", *rows)
  assert read_predictions(path, "el") == {"k": {"el": "a"}, "m": {"el": "b"}}
  assert "line 1: 'language' is missing" in refusal(read_predictions, path)
  assert "line 2: language is el, but --language says en" in refusal(read_predictions, path, "en")
  assert "unknown language 'xx'" in refusal(read_predictions, path, "xx")


def _folder(tmp_path, contents):
  for name, content in contents.items():
    files.text(tmp_path / "predictions" / name, content)
  (tmp_path / "predictions").mkdir(exist_ok=True)
  return tmp_path / "predictions"


def test_predictions_folder_has_a_file_per_language(tmp_path):
  contents = {
    "el.jsonl": '{"image/key": "7", "caption": "a"}\n{"image/key": "8", "language": "el", "caption": "b"}\n',
    "de.json": '[{"image_id": 7, "caption": "c"}]',
    "en.json": '{"image/key": "9", "caption": "d"}',
    ".hidden": "?",
  }
  expected = {"7": {"de": "c", "el": "a"}, "8": {"el": "b"}, "9": {"en": "d"}}
  assert read_predictions(_folder(tmp_path, contents)) == expected


@pytest.mark.parametrize(
  "contents, language, message",
  [
    ({}, None, "contains no predictions"),
    ({"README.md": ""}, None, "README.md is not the only file of predictions in a language"),
    ({"xx.jsonl": ""}, None, "xx.jsonl is not the only file of predictions in a language"),
    ({"en.json/file": ""}, None, "en.json is not the only file"),
    ({"en.jsonl": "\n"}, None, "en.jsonl: contains no predictions"),
    ({"en.jsonl": "[]", "en.json": "[]"}, None, "en.jsonl is not the only file"),
    ({"en.jsonl": "[]"}, "el", "en.jsonl is not the only file of predictions in el"),
    ({"en.jsonl": '{"image/key": "k", "language": "el", "caption": ""}'}, None, "line 1: language is el, but the"),
    ({"en.jsonl": '{"image/key": "k", "caption": ""}\n{"image/key": "k", "caption": "a"}'}, "en", _TWICE),
  ],
)  # fmt: skip
def test_predictions_folder_with_other_files_is_refused(tmp_path, contents, language, message):
  with pytest.raises(UsageError, match=message):
    read_predictions(_folder(tmp_path, contents), language)


def test_missing_empty_fills_missing_predictions():
  predictions = {"k1": {"en": "x"}}
  scored = match_references(_REFERENCES, predictions, missing="empty")
  assert scored == ("en", "th")
  filled, missing = fill_missing(_REFERENCES, predictions, scored)
  assert filled == {"k1": {"en": "x", "th": ""}, "k2": {"en": ""}}
  assert missing == {"en": 1, "th": 1}
  assert predictions == {"k1": {"en": "x"}}
  assert fill_missing(_REFERENCES, filled, scored) == (filled, {})
  assert fill_missing(_REFERENCES, predictions, ["th"]) == ({"k1": {"en": "x", "th": ""}}, {"th": 1})


def test_match_references_returns_scored_languages():
  assert match_references(_REFERENCES, {"k1": {"en": "", "th": ""}, "k2": {"en": ""}}) == ("en", "th")
  assert match_references(_REFERENCES, {"k1": {"en": "", "de": ""}, "k2": {"en": ""}}, ["en"]) == ("en",)


_WHOLE = {"k1": {"en": "", "th": ""}, "k2": {"en": ""}}


@pytest.mark.parametrize(
  "predictions, options, message",
  [
    ({"k1": {"en": ""}, "k2": {"en": ""}}, {}, r"1 of 3 predictions are missing \(th k1\)"),
    ({}, {}, r"3 of 3 predictions are missing \(en k1, th k1, en k2\)"),
    (_WHOLE | {"k2": {"en": "", "th": ""}}, {}, r"1 prediction without references, 0 unknown .* \(th k2\)"),
    (_WHOLE | {"k3": {"en": ""}}, {}, r"1 prediction without references, 1 unknown image among them \(en k3\)"),
    ({"k1": {"en": ""}, "k3": {"en": ""}}, {"missing": "empty"}, "1 unknown image among them"),
    ({"x": {"en": "", "de": ""}}, {}, "none of the 1 predicted images.*'x' and 'k1'.*write them as.*--key"),
    (
      {"k1": {"en": "", "th": ""}, "k2.x": {"en": ""}}, {},
      r"1 of 3 predictions are missing \(en k2\); 1 prediction without .* \(en k2.x\); .*--key",
    ),
    (_WHOLE | {"k1": {"en": "", "th": "", "de": ""}}, {}, "no references in de:"),
    ({"k1": {"de": ""}}, {"languages": ["de"]}, "no references in de"),
    ({"k1": {"th": "", "en-GB": ""}}, {}, r"no references in en-GB \(there is en, read .* with references=\)[:,]"),
    ({"k1": {"th": "", "en-Cyrl": ""}}, {}, r"no references in en-Cyrl \(there is en, in another script\)[:,]"),
    ({}, {"missing": "drop"}, "--missing=drop: choose refuse or empty"),
  ],
)  # fmt: skip
def test_predictions_that_mismatch_references_are_refused(predictions, options, message):
  with pytest.raises(UsageError, match=message):
    match_references(_REFERENCES, predictions, **options)


def test_references_without_captions_are_refused():
  assert "the references have no captions" in refusal(match_references, {"k": {}}, {})


def test_missing_predictions_error_lists_the_first_few():
  references = {f"k{i}": {"en": ["a"]} for i in range(5000)}
  message = refusal(match_references, references, {})
  assert "5,000 of 5,000" in message and "(en k0, en k1, en k2, ...)" in message
