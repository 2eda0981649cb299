"""Predictions: JSONL round trip, folders of languages, missing and unknown images."""

import pytest

from xmcap.errors import UsageError, XmcapError
from xmcap.reading.predictions import fill_missing, match_references
from xmcap.scoring import read_predictions, write_predictions

_REFERENCES = {"k1": {"en": ["a"], "th": ["b"]}, "k2": {"en": ["c"]}}


def test_predictions_jsonl_round_trip(tmp_path):
  captions = [("k1", {"th": 'ข้อความ "\\\u2028'}), ("k0", {"en": ""}), ("k1", {"en": "a\nb"})]
  write_predictions(tmp_path / "p.jsonl", iter(captions))
  assert read_predictions(tmp_path / "p.jsonl") == {
    "k1": {"th": 'ข้อความ "\\\u2028', "en": "a\nb"},
    "k0": {"en": ""},
  }


def test_write_predictions_to_a_folder_is_refused(tmp_path):
  with pytest.raises(XmcapError, match="cannot write"):
    write_predictions(tmp_path, [("k", {"en": "a"})])


@pytest.mark.parametrize(
  "line, message",
  [
    ('{"image/key": "k", "language": "en"}', "line 2: 'caption' is missing or not a string"),
    ('{"image/key": "k", "language": "en", "caption": 7}', "line 2: 'caption' is missing or not a string"),
    ('{"image/key": [1], "language": "en", "caption": ""}', "line 2: 'image/key' is missing or neither"),
    ('{"image/key": "k", "language": 1, "caption": ""}', "line 2: 'language' is not a string"),
    ('{"image/key": "k", "language": "xx", "caption": ""}', "line 2: unknown language 'xx'"),
    (
      '{"image/key": "k0", "language": "en", "caption": "b"}',
      r"1 prediction given twice, with another caption \(en k0, line 2\)",
    ),
    ("{", "line 2: broken JSON"),
  ],
)
def test_malformed_prediction_rows_are_named(tmp_path, line, message):
  path = tmp_path / "p.jsonl"
  path.write_text('{"image/key": "k0", "language": "en", "caption": "a"}\n' + line + "\n")
  with pytest.raises(UsageError, match=message):
    read_predictions(path)


def test_empty_predictions_file_is_refused(tmp_path):
  (tmp_path / "p.jsonl").write_text("\n")
  with pytest.raises(UsageError, match="contains no predictions"):
    read_predictions(tmp_path / "p.jsonl")


def test_language_option_must_agree_with_predictions(tmp_path):
  path = tmp_path / "p.jsonl"
  path.write_text(
    '{"image/key": "k", "caption": "a"}\n{"image/key": "m", "language": "el", "caption": "b"}\n'
  )
  assert read_predictions(path, "el") == {"k": {"el": "a"}, "m": {"el": "b"}}
  with pytest.raises(UsageError, match="line 1: 'language' is missing"):
    read_predictions(path)
  with pytest.raises(UsageError, match="line 2: language is el, but --language says en"):
    read_predictions(path, "en")
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    read_predictions(path, "xx")


def _folder(tmp_path, **contents):
  folder = tmp_path / "predictions"
  folder.mkdir()
  for name, content in contents.items():
    (folder / name.replace("_", ".")).write_text(content)
  return folder


def test_predictions_folder_has_a_file_per_language(tmp_path):
  folder = _folder(
    tmp_path,
    el_jsonl='{"image/key": "7", "caption": "a"}\n{"image/key": "8", "language": "el", "caption": "b"}\n',
    de_json='[{"image_id": 7, "caption": "c"}]',
    en_json='{"image/key": "9", "caption": "d"}',
    _hidden="?",
  )
  assert read_predictions(folder) == {"7": {"de": "c", "el": "a"}, "8": {"el": "b"}, "9": {"en": "d"}}


@pytest.mark.parametrize(
  "contents, language, message",
  [
    ({}, None, "contains no predictions"),
    ({"README_md": ""}, None, "README.md is not the only file of predictions in a language"),
    ({"xx_jsonl": ""}, None, "xx.jsonl is not the only file of predictions in a language"),
    ({"en_jsonl": ""}, None, "en.jsonl: contains no predictions"),
    ({"en_jsonl": "[]", "en_json": "[]"}, None, "en.jsonl is not the only file"),
    ({"en_jsonl": "[]"}, "el", "en.jsonl is not the only file of predictions in el"),
    (
      {"en_jsonl": '{"image/key": "k", "language": "el", "caption": ""}'},
      None,
      "line 1: language is el, but the file's name says en",
    ),
    (
      {"en_jsonl": '{"image/key": "k", "caption": ""}\n{"image/key": "k", "caption": "a"}'},
      "en",
      r"1 prediction given twice, with another caption \(en k, line 2\)",
    ),
  ],
)
def test_predictions_folder_with_other_files_is_refused(tmp_path, contents, language, message):
  with pytest.raises(UsageError, match=message):
    read_predictions(_folder(tmp_path, **contents), language)


def test_predictions_folder_with_subfolder_is_refused(tmp_path):
  (tmp_path / "en.json").mkdir()
  with pytest.raises(UsageError, match="en.json is not the only file"):
    read_predictions(tmp_path)


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


def test_missing_option_refuses_unknown_values():
  with pytest.raises(UsageError, match="--missing=drop: choose refuse or empty"):
    match_references(_REFERENCES, {}, missing="drop")


def test_unknown_images_are_refused_with_missing_empty():
  with pytest.raises(UsageError, match="1 unknown image among them"):
    match_references(_REFERENCES, {"k1": {"en": ""}, "k3": {"en": ""}}, missing="empty")


def test_unmatched_keys_error_suggests_the_key_option():
  with pytest.raises(UsageError, match="none of the 1 predicted images.*'x' and 'k1'.*write them as.*--key"):
    match_references(_REFERENCES, {"x": {"en": "", "de": ""}})


def test_image_without_references_in_a_language_needs_no_prediction():
  assert match_references(_REFERENCES, {"k1": {"en": "", "th": ""}, "k2": {"en": ""}}) == ("en", "th")


def test_languages_option_selects_scored_languages():
  predictions = {"k1": {"en": "", "de": ""}, "k2": {"en": ""}}
  assert match_references(_REFERENCES, predictions, ["en"]) == ("en",)


@pytest.mark.parametrize(
  "predictions, message",
  [
    ({"k1": {"en": ""}, "k2": {"en": ""}}, r"1 of 3 predictions are missing \(th k1\)"),
    ({}, r"3 of 3 predictions are missing \(en k1, th k1, en k2\)"),
    (
      {"k1": {"en": "", "th": ""}, "k2": {"en": "", "th": ""}},
      r"1 prediction without references, 0 unknown images among them \(th k2\)",
    ),
    (
      {"k1": {"en": "", "th": ""}, "k2": {"en": ""}, "k3": {"en": ""}},
      r"1 prediction without references, 1 unknown image among them \(en k3\)",
    ),
    ({"k1": {"en": "", "th": "", "de": ""}, "k2": {"en": ""}}, "no references in de:"),
    ({"k1": {"th": "", "en-GB": ""}}, r"no references in en-GB \(there is en, read .* with references=\):"),
    ({"k1": {"th": "", "en-Cyrl": ""}}, r"no references in en-Cyrl \(there is en, in another script\):"),
    (
      {"k1": {"en": "", "th": ""}, "k2.x": {"en": ""}},
      r"1 of 3 predictions are missing \(en k2\); 1 prediction without .* \(en k2.x\); .*--key",
    ),
  ],
)
def test_predictions_that_mismatch_references_are_refused(predictions, message):
  with pytest.raises(UsageError, match=message):
    match_references(_REFERENCES, predictions)


def test_language_without_references_is_refused():
  with pytest.raises(UsageError, match="no references in de"):
    match_references(_REFERENCES, {"k1": {"de": ""}}, ["de"])
  with pytest.raises(UsageError, match="the references have no captions"):
    match_references({"k": {}}, {})


def test_missing_predictions_error_lists_the_first_few():
  references = {f"k{i}": {"en": ["a"]} for i in range(5000)}
  with pytest.raises(UsageError, match=r"5,000 of 5,000 .* \(en k0, en k1, en k2, \.\.\.\)"):
    match_references(references, {})
