"""Corpus statistics: images, captions, words, token lengths, and published figures."""

import json
from collections import Counter

import pytest

from tests.make.command import xmcap
from xmcap import papers
from xmcap.corpora.checking import statistics as statistics_lib
from xmcap.corpora.checking.statistics import TextStatistics, statistics
from xmcap.corpora.checking.statistics_tables import figures, text
from xmcap.data import record_writer
from xmcap.data.records import Caption, Record
from xmcap.data.vocabulary import Vocabulary
from xmcap.digests import of_images
from xmcap.errors import XmcapError

PNG = b"\x89PNG\r\n\x1a\n"


def two_records(_):
  yield Record("a", PNG, [Caption("en", "a red dog"), Caption("en", "dog"), Caption("ar", "كلب أحمر")])
  yield Record("b", PNG, [Caption("en", "cat")])


@pytest.fixture
def corpus(tmp_path):
  split = record_writer.write_split(tmp_path, "train", [0], two_records, dataset="toy", processes=1)
  record_writer.write_metadata(tmp_path, [split], dataset="toy")
  line = {"image/key": "c", "image/locale": "", "en": {"caption": ["two words", "one"]}}
  (tmp_path / "test").mkdir()
  (tmp_path / "test" / "captions.jsonl").write_text(json.dumps(line) + "\n")
  return tmp_path


def test_statistics_counts_images_and_captions(corpus):
  found = statistics(corpus)
  assert found.images == {"train (records)": 2, "test (release)": 1}
  assert found.rows == [
    TextStatistics(
      "train (records)", "ar", 1, 1, words=2, characters=8, spaced_words=2, once=1, sources=Counter(human=1)
    ),
    TextStatistics(
      "train (records)",
      "en",
      2,
      3,
      words=5,
      characters=15,
      spaced_words=5,
      once=1,
      twice=1,
      sources=Counter(human=3),
    ),
    TextStatistics(
      "test (release)", "en", images=1, captions=2, words=3, characters=12, spaced_words=3, twice=1
    ),
  ]


def test_statistics_table_has_language_names_and_totals(corpus):
  lines = text(statistics(corpus)).splitlines()
  assert lines[0] == "train (records): 2 images"
  row = ["en", "English", "2", "3", "1.50", "1.7", "5.0", "1", "1", "0"]
  assert any(line.split() == row for line in lines)
  assert any(line.split() == ["2", "languages", "2", "4", "2.00", "1.8", "5.8"] for line in lines)


def test_statistics_of_token_lengths_and_truncated_share(corpus, tiny_dir):
  path = f"{tiny_dir}/vocabulary.model"
  found = statistics(corpus, vocabulary=path, target_length=4)
  vocabulary = Vocabulary(path)
  texts = ["a red dog", "dog", "cat"]
  lengths = sorted(len(vocabulary.encode(text)) + 1 for text in texts)
  row = found.rows[1]
  assert (row.language, row.pieces) == ("en", sum(lengths))
  assert row.longer_than(4) == sum(length > 4 for length in lengths)
  assert (row.length_at(0.5), row.length_at(1.0)) == (lengths[1], lengths[-1])
  shown = text(found)
  assert "over 4" in shown
  assert f"{row.longer_than(4) / 3:.2%}" in next(
    line for line in shown.splitlines() if line.startswith("en ")
  )


def test_statistics_with_processes_equal_single_process(corpus, tiny_dir, monkeypatch):
  monkeypatch.setattr(statistics_lib, "_CHUNK", 1)
  seen = []
  found = statistics(corpus, vocabulary=f"{tiny_dir}/vocabulary.model", processes=2, say=seen.append)
  monkeypatch.undo()
  assert found == statistics(corpus, vocabulary=f"{tiny_dir}/vocabulary.model", processes=1)
  assert seen[-1] == "train (records): images counted: 2 of 2"


def test_statistics_compare_with_published_figures(tmp_path):
  split = record_writer.write_split(tmp_path, "test", [0], two_records, dataset="xm3600", processes=1)
  record_writer.write_metadata(tmp_path, [split], dataset="xm3600")
  shown = text(statistics(tmp_path)).splitlines()
  assert any("compared with Table 1 of the XM3600 paper" in line for line in shown)
  rows = [line for line in shown if line.startswith("ar ") and "7,367" in line]
  # Found, published, difference of: captions; images with 1, 2, more captions; words; characters.
  assert rows[0].split() == [
    "ar", "Arabic", "1", "7,367", "-7,366", "1", "0", "+1", "0", "3,434", "-3,434", "0", "166", "-166",
    "2.0", "7.7", "-5.7", "8.0", "42.2", "-34.2",
  ]  # fmt: skip
  assert sum(line.startswith("zh ") for line in shown) == 1  # not there


def test_statistics_compare_a_release_with_xm3600_images(corpus, monkeypatch):
  assert "compared with" not in text(statistics(corpus))
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(["c"]))
  lines = [line for line in text(statistics(corpus)).splitlines() if "compared with" in line]
  assert [line.split(" compared with ")[0] for line in lines] == ["test (release)"]


def test_statistics_recognize_coco_35l_by_name(tmp_path):
  split = record_writer.write_split(tmp_path, "train", [0], two_records, dataset="coco35l", processes=1)
  record_writer.write_metadata(tmp_path, [split], dataset="coco35l")
  shown = text(statistics(tmp_path)).splitlines()
  line = next(line for line in shown if line.startswith("en ") and "566,435" in line)
  assert line.split() == ["en", "English", "2", "113,287", "-113,285", "3", "566,435", "-566,432"]


def test_published_sizes_equal_line_counts_of_the_files():
  for corpus, split, lines in (
    ("coco35l", "train", 19_258_790), ("coco35l", "validation", 850_000),
    ("cc3m35l", "train", 112_821_180), ("cc3m35l", "validation", 538_560),
  ):  # fmt: skip
    of_split = figures(corpus, split)
    assert sum(row["captions"] for code, row in of_split.items() if code != "en") == lines
  table = figures("xm3600", "test")
  assert len(table) == 36 and sum(row["captions"] for row in table.values()) == 261_375


@pytest.mark.parametrize(
  ("release", "options", "message"),
  [
    ("{}", {"vocabulary": "none.model"}, "none.model"),
    (None, {}, "has no corpus"),
    ("{}\n{", {}, r"captions.jsonl.*1"),
  ],
)
def test_statistics_refuse_unusable_inputs(tmp_path, release, options, message):
  if release:
    (tmp_path / "captions.jsonl").write_text(release)
  with pytest.raises(XmcapError, match=message):
    statistics(tmp_path, **options)


def test_data_stats_command_prints_the_table(corpus, tiny_dir):
  options = (f"--vocabulary={tiny_dir}/vocabulary.model", "--target_length=8")
  xmcap("data", "stats", corpus, *options).succeeded("over 8")


def test_statistics_of_a_release_folder(corpus):
  assert statistics(corpus / "test").images == {"test (release)": 1}


def test_statistics_segment_words_of_chinese(tmp_path):
  pytest.importorskip("jieba")
  line = {"image/key": "c", "image/locale": "", "zh": {"caption": ["红苹果和自行车"]}}
  (tmp_path / "captions.jsonl").write_text(json.dumps(line) + "\n")
  (row,) = statistics(tmp_path).rows
  assert (row.captions, row.characters) == (1, 7)
  assert 2 <= row.words <= 6


def annotated(_):
  captions = [
    Caption("zh", "一只狗"),
    Caption("zh", "狗", source="mt"),
    Caption("zh", "小狗", source="translated"),
  ]
  yield Record(
    "a", PNG, [*captions, Caption("en", "dog")], tags_by_language={"zh": ["狗", "草"], "en": ["dog"]}
  )
  yield Record("b", PNG, [Caption("zh", "猫")], tags_by_language={"zh": ["狗", "猫", "草", "树"]})


def test_statistics_table_has_columns_of_sources_and_tags(tmp_path):
  split = record_writer.write_split(tmp_path, "train", [0], annotated, dataset="toy", processes=1)
  record_writer.write_metadata(tmp_path, [split], dataset="toy")
  lines = [line.split() for line in text(statistics(tmp_path, processes=1)).splitlines()]
  assert next(line for line in lines if line[:1] == ["language"])[-3:] == ["human", "mt", "translated"]
  assert [line[-3:] for line in lines if line[:1] == ["zh"]] == [["2", "1", "1"], ["2", "3.00", "4"]]
  assert ["zh", "Chinese", "2", "6", "4", "2", "3.00", "4"] in lines
  assert ["en", "English", "1", "1", "1", "1", "1.00", "1"] in lines
