"""Statistics: what is counted, and how it is shown."""

import json

import pytest

from xmcap.data import records
from xmcap.data.records import Caption, Record
from xmcap.data.statistics import Row, statistics
from xmcap.errors import UsageError, XmcapError

PNG = b"\x89PNG\r\n\x1a\n"


def two_records(_):
  yield Record("a", PNG, [Caption("en", "a red dog"), Caption("en", "dog"), Caption("ar", "كلب أحمر")])
  yield Record("b", PNG, [Caption("en", "cat")])


@pytest.fixture
def corpus(tmp_path):
  split = records.write_split(tmp_path, "train", [0], two_records, dataset="toy", processes=1)
  records.write_metadata(tmp_path, [split], dataset="toy")
  line = {"image/key": "c", "image/locale": "", "en": {"caption": ["two words", "one"]}}
  (tmp_path / "test").mkdir()
  (tmp_path / "test" / "captions.jsonl").write_text(json.dumps(line) + "\n")
  return tmp_path


def test_counts(corpus):
  found = statistics(corpus)
  assert found.images == {"train (records)": 2, "test (release)": 1}
  assert found.rows == [
    Row("train (records)", "ar", images=1, captions=1, words=2, characters=8),
    Row("train (records)", "en", images=2, captions=3, words=5, characters=15),
    Row("test (release)", "en", images=1, captions=2, words=3, characters=12),
  ]


def test_table_names_languages_and_sums(corpus):
  lines = str(statistics(corpus)).splitlines()
  assert lines[0] == "train (records): 2 images"
  assert any(line.split() == ["en", "English", "2", "3", "5", "15", "1.7", "5.0"] for line in lines)
  assert any(line.split() == ["2", "languages", "2", "4", "7", "23", "1.8", "5.8"] for line in lines)


def test_folder_of_a_release_itself(corpus):
  assert statistics(corpus / "test").images == {"test (release)": 1}


def test_words_without_spaces_are_segmented(tmp_path):
  pytest.importorskip("jieba")
  line = {"image/key": "c", "image/locale": "", "zh": {"caption": ["红苹果和自行车"]}}
  (tmp_path / "captions.jsonl").write_text(json.dumps(line) + "\n")
  (row,) = statistics(tmp_path).rows
  assert (row.captions, row.characters) == (1, 7)
  assert 2 <= row.words <= 6


def test_folder_without_a_corpus_is_a_usage_error(tmp_path):
  with pytest.raises(UsageError, match="holds no corpus"):
    statistics(tmp_path)


def test_broken_release_names_file_and_line(tmp_path):
  (tmp_path / "captions.jsonl").write_text("{}\n{")
  with pytest.raises(XmcapError, match=r"captions.jsonl.*1"):
    statistics(tmp_path)
