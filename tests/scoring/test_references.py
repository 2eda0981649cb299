import json
import pathlib

import pytest

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import read_references

_SAMPLE = pathlib.Path(__file__).parents[3] / "shared" / "xm3600_sample" / "captions.jsonl"


def _write(tmp_path, *rows):
  path = tmp_path / "captions.jsonl"
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  return path


def test_captions_are_kept_as_released(tmp_path):
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


def test_languages_choose(tmp_path):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a"]}, "th": {"caption": ["b"]}})
  assert read_references(path, ["th", "de"]) == {"k": {"th": ["b"]}}
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    read_references(path, ["xx"])


@pytest.mark.parametrize(
  "row, message",
  [
    ({"en": {"caption": ["a"]}}, "line 2: no image/key"),
    ({"image/key": 7}, "line 2: no image/key"),
    ({"image/key": ""}, "line 2: no image/key"),
    ({"image/key": "k"}, "line 2: image/key 'k' is on line 1 already"),
    ({"image/key": "m", "image/locale": 1}, "line 2: image/locale must be a text"),
    ({"image/key": "m", "xx": {"caption": ["a"]}}, "line 2: unknown language 'xx'"),
    ({"image/key": "m", "x" * 10_000_000: {}}, "line 2: unknown language 'xxxx"),
    ({"image/key": "m", "en": ["a"]}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {}}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {"caption": "a"}}, "line 2: 'en' must be an object"),
    ({"image/key": "m", "en": {"caption": ["a", float("nan")]}}, "line 2: 'en' must be an object"),
  ],
)
def test_bad_rows_are_named(tmp_path, row, message):
  path = _write(tmp_path, {"image/key": "k", "en": {"caption": ["a"]}}, row)
  with pytest.raises(UsageError, match=message) as caught:
    read_references(path)
  assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


def test_empty_file_is_refused(tmp_path):
  with pytest.raises(UsageError, match="no image in it"):
    read_references(_write(tmp_path))


@pytest.mark.skipif(not _SAMPLE.is_file(), reason="no sample of the XM3600 release beside the checkout")
def test_real_sample_of_the_release():
  references = read_references(_SAMPLE)
  assert list(references) == ["06c5f87181c30e00"]
  assert references["06c5f87181c30e00"].keys() == set(languages.LANGUAGES)
  english = references["06c5f87181c30e00"]["en"]
  assert english[0] == "The branded classic cars in a row at display."
