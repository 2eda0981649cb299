"""Parsing single lines of the XM3600 release."""

import json

import pytest

from xmcap.corpora.building.problems import Problems
from xmcap.corpora.releases import xm3600
from xmcap.reading.inputs import Input


def parse(line, **counts):
  problems = Problems()
  if not isinstance(line, bytes):
    line = json.dumps(line).encode()
  image = xm3600.parse_line(line, "f, line 1", problems)
  assert problems.counts == counts
  return image


def captions(image):
  return [(caption.language, caption.text, caption.text_tokenized) for caption in image.captions]


def test_xm3600_line_becomes_an_image_with_captions():
  english = {
    "caption": ["A dog.", "B"],
    "caption/tokenized": ["A dog .", "B"],
    "caption/tokenized/lowercase": [],
  }
  image = parse(
    {
      "image/key": "00a1",
      "image/locale": "en",
      "en": english,
      "th": {"caption": ["หมา"]},
      "quz": {"caption": []},
    }
  )
  assert (image.key, image.locale) == ("00a1", "en")
  assert captions(image) == [("en", "A dog.", "A dog ."), ("en", "B", "B"), ("th", "หมา", "")]


@pytest.mark.parametrize(
  ("line", "kind"),
  [
    (b'{"image/key": "00', "cut_line"),
    (b'{"image/key": "a", "en": {"caption": ["x"]}', "cut_line"),
    (b"<html>", "not_json"),
    (b"[1]", "not_json"),
    (b'{"image/key" "a"}', "not_json"),
    (b'{"image/key": "\xff"}', "bad_utf8"),
    (b'{"image/locale": "en"}', "missing_field"),
    (b'{"image/key": 7}', "missing_field"),
    (b'{"image/key": "a", "image/locale": []}', "missing_field"),
    (b'{"image/key": "../a"}', "unknown_id"),
    (b'{"image/key": ""}', "unknown_id"),
    (b"[" * 100_000, "not_json"),
    (
      b'{"image/key": "a", "en": {"caption": ["\\ud800 and more"]}, "de": {"caption": ["gut"]}}',
      "not_json",
    ),  # unpaired surrogate
  ],
)
def test_unusable_xm3600_lines_are_counted(line, kind):
  assert parse(line, **{kind: 1}) is None


@pytest.mark.parametrize(
  ("languages", "counts", "kept"),
  [
    ({"iw": {"caption": ["x"]}}, {"unknown_language": 1}, []),
    ({"en": ["x"]}, {"missing_field": 1}, []),
    ({"en": {"captions": ["x"]}}, {"missing_field": 1}, []),
    ({"en": {"caption": "x"}}, {"missing_field": 1}, []),
    (
      {"en": {"caption": ["x", "y"], "caption/tokenized": ["x"]}},
      {"missing_field": 1},
      [("en", "x", ""), ("en", "y", "")],
    ),
    ({"en": {"caption": ["", "\u200b", "y"]}}, {"empty_caption": 2}, [("en", "y", "")]),
    ({"en": {"caption": ["é" * 6_000, "y"]}}, {"long_caption": 1}, [("en", "y", "")]),
    (
      {"en": {"caption": ["a\x07b"], "caption/tokenized": ["a\x07 b"]}},
      {"control_characters": 1},
      [("en", "ab", "a b")],
    ),
    ({"fa": {"caption": ["می\u200cرود"]}}, {}, [("fa", "می\u200cرود", "")]),
  ],
)
def test_xm3600_line_faults_are_isolated(languages, counts, kept):
  image = parse({"image/key": "a", **languages, "de": {"caption": ["gut"]}}, **counts)
  assert captions(image) == [*kept, ("de", "gut", "")]


def test_unknown_fields_of_xm3600_lines_are_ignored():
  image = parse({"image/key": "a", "image/width": 7, "de": {"caption": ["gut"], "x": 1}})
  assert captions(image) == [("de", "gut", "")]


def test_xm3600_lines_with_repeated_keys_bom_and_crlf(tmp_path):
  text = b'\xef\xbb\xbf{"image/key": "a"}\r\n\n{"image/key": "a"}\n{"image/key": "b"}'
  (tmp_path / "captions.jsonl").write_bytes(text)
  problems = Problems()
  with Input(tmp_path / "captions.jsonl") as source:
    images = list(xm3600.read_pictures(source, "f", problems))
  assert [image.key for image in images] == ["a", "b"]
  assert problems.counts == {"bom": 1, "crlf": 1, "duplicate_line": 1}
  assert problems.examples["duplicate_line"] == [("f, line 3", "a is already on line 1")]
