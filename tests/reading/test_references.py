"""References in JSONL and in the XM3600 release."""

import pathlib
import zipfile

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap import languages
from xmcap.scoring import read_references

_SAMPLE = pathlib.Path(__file__).parents[3] / "shared" / "xm3600_sample" / "captions.jsonl"


def _write(tmp_path, *rows):
  return files.jsonl(tmp_path / "captions.jsonl", *rows)


def test_references_keep_captions_as_released(tmp_path):
  path = _write(
    tmp_path,
    {
      "image/key": "k1",
      "image/locale": "de",
      "image/width": 640,
      "en": {"caption": ["A  dog.", ""], "caption/tokenized": ["A dog ."]},
      "th": {"caption": ["สุนัข"]},
    },
    {"image/key": "k0", "en": {"caption": ["A cat"]}, "mi": {"caption": []}},
  )
  assert read_references(path) == {"k1": {"en": ["A  dog.", ""], "th": ["สุนัข"]}, "k0": {"en": ["A cat"]}}
  assert list(read_references(path)) == ["k1", "k0"]


def test_references_keep_locales(tmp_path):
  path = _write(
    tmp_path, {"image/key": "a", "image/locale": "de"}, {"image/key": "b", "en": {"caption": ["a"]}}
  )
  assert read_references(path).locales == {"a": "de", "b": ""}


def test_released_tokenized_captions_are_read_on_request(tmp_path):
  english = {"caption": ["A dog.", "Dog"], "caption/tokenized": ["A dog .", "Dog"]}
  thai = {"caption": ["b"], "caption/tokenized": ["c"]}
  path = _write(tmp_path, {"image/key": "k", "en": english, "th": thai})
  references = read_references(path, ["en"], tokenized=True)
  assert references == {"k": {"en": ["A dog.", "Dog"]}}
  assert references.tokenized == {"k": {"en": ["A dog .", "Dog"]}}
  assert read_references(path).tokenized == {}


@pytest.mark.parametrize(
  "member", [{}, {"caption/tokenized": ["a"]}, {"caption/tokenized": ["a", 1]}, {"caption/tokenized": None}]
)
def test_mismatched_tokenized_captions_are_refused(tmp_path, member):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a", "b"], **member}})
  message = "line 1: 'en': caption/tokenized must have an entry for each caption (2)"
  assert message in refusal(read_references, path, tokenized=True)


def test_xm3600_references_are_read_from_zip(tmp_path):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a"]}})
  with zipfile.ZipFile(tmp_path / "captions.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write(path, "captions.jsonl")
  assert read_references(tmp_path / "captions.zip") == {"k": {"en": ["a"]}}


def test_references_jsonl_rows_of_an_image_are_merged(tmp_path):
  path = _write(
    tmp_path,
    {"image/key": "b", "language": "en", "caption": ["x", "y"], "caption/tokenized": ["x", "y"]},
    {"image/key": "a", "language": "en", "caption": "z", "caption/tokenized": "z z", "image/locale": "de"},
    {"image/key": "b", "language": "th", "caption": []},
    {"image/key": "b", "language": "en", "caption": "x", "caption/tokenized": "x", "image/locale": "fr"},
  )
  references = read_references(path, tokenized=True)
  assert references == {"b": {"en": ["x", "y", "x"]}, "a": {"en": ["z"]}}
  assert references.tokenized == {"b": {"en": ["x", "y", "x"]}, "a": {"en": ["z z"]}}
  assert references.locales == {"b": "fr", "a": "de"}


def test_references_language_option_fills_missing_languages(tmp_path):
  rows = {"image/key": "a", "caption": "x"}, {"image/key": "a", "language": "en", "caption": "y"}
  path = _write(tmp_path, *rows)
  assert read_references(path, language="el") == {"a": {"el": ["x"], "en": ["y"]}}
  assert "line 1: 'language' is missing" in refusal(read_references, path)


@pytest.mark.parametrize(
  "row, message",
  [
    ({"image/key": "k", "caption": "a"}, "line 2: 'language' is missing"),
    ({"image/key": "k", "language": "xx", "caption": "a"}, "line 2: unknown language 'xx'"),
    ({"image/key": "k", "language": "en"}, "line 2: 'caption' must be a string or a list"),
    ({"image/key": "k", "language": "en", "caption": ["a", None]}, "line 2: 'caption' must be"),
    ({"image/key": "k", "en": {"caption": ["a"]}}, "line 2: 'caption' must be a string"),
    (
      {"image/key": "k", "image/locale": "fr", "language": "en", "caption": ""},
      "line 2: image/locale is 'fr', but",
    ),
  ],
)
def test_malformed_references_jsonl_rows_are_refused(tmp_path, row, message):
  first = {"image/key": "k", "image/locale": "de", "language": "en", "caption": "a"}
  assert message in refusal(read_references, _write(tmp_path, first, row))


def test_references_are_filtered_by_languages(tmp_path):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a"]}, "th": {"caption": ["b"]}})
  assert read_references(path, ["th", "de"]) == {"k": {"th": ["b"]}}
  assert "unknown language 'xx'" in refusal(read_references, path, ["xx"])


@pytest.mark.parametrize(
  "row, message",
  [
    ({"en": {"caption": ["a"]}}, "line 2: 'image/key' is missing or not a string"),
    ({"image/key": 7}, "line 2: 'image/key' is missing or not a string"),
    ({"image/key": ""}, "line 2: 'image/key' is empty"),
    ({"image/key": "k"}, "line 2: image/key 'k' is already on line 1"),
    ({"image/key": "m", "image/locale": 1}, "line 2: image/locale must be a string"),
    ({"image/key": "m", "xx": {"caption": ["a"]}}, "line 2: unknown language 'xx'"),
    ({"image/key": "m", "x" * 10_000_000: {}}, "line 2: unknown language 'xxxx"),
    ({"image/key": "m", "en": ["a"]}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {}}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {"caption": "a"}}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {"caption": ["a", 1]}}, "line 2: 'en' must be an object"),
  ],
)
def test_malformed_xm3600_rows_are_refused(tmp_path, row, message):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a"]}}, row)
  assert message in refusal(read_references, path)


def test_empty_references_file_is_refused(tmp_path):
  assert "contains no images" in refusal(read_references, _write(tmp_path))


@pytest.mark.skipif(not _SAMPLE.is_file(), reason="no sample of the XM3600 release beside the checkout")
def test_xm3600_sample_has_references_in_36_languages():
  references = read_references(_SAMPLE)
  assert list(references) == ["06c5f87181c30e00"]
  assert references["06c5f87181c30e00"].keys() == set(languages.LANGUAGES)
  english = references["06c5f87181c30e00"]["en"]
  assert english[0] == "The branded classic cars in a row at display."
