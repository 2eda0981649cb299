"""xmcap data check and xmcap data show."""

import json
import os

import pytest

from tests.make import tiny_corpus
from tests.make.command import xmcap
from xmcap.data import record_writer


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return tiny_corpus.write_corpus(
    tmp_path_factory.mktemp("corpus"), [tiny_corpus.tiny_record(i) for i in range(12)]
  )


def _data(*arguments):
  return xmcap("data", *arguments)


def test_data_check_of_a_valid_corpus_exits_0(corpus, tmp_path):
  checked = _data("check", corpus, f"--out={tmp_path}/report", "--processes=1").succeeded()
  assert "train: 12 pictures (12 PNG" in checked.out and "12 records checked" in checked.out
  assert "train: records checked: 12 of 12" in checked.err
  assert sorted(os.listdir(tmp_path / "report")) == ["check.json", "check.jsonl"]


def test_data_check_of_bad_records_exits_1(tmp_path, monkeypatch):
  monkeypatch.setattr(record_writer, "check", lambda record: None)
  bad = tiny_corpus.tiny_record(1)
  bad.image = b"<html>"
  tiny_corpus.write_corpus(tmp_path, [tiny_corpus.tiny_record(0), bad], train_vocabulary=False)
  monkeypatch.undo()
  checked = _data("check", tmp_path, "--split=train", "--processes=1")
  checked.refused("1 of 2 records cannot be used", code=1)
  kinds = [json.loads(line)["kind"] for line in (tmp_path / "check.jsonl").read_text().splitlines()]
  assert "broken_picture" in kinds


def test_data_check_of_a_wrong_index_exits_1(tmp_path):
  for name, number in (("one", 2), ("two", 3)):
    tiny_corpus.write_corpus(
      tmp_path / name, [tiny_corpus.tiny_record(i) for i in range(number)], train_vocabulary=False
    )
  (index,) = (tmp_path / "one").glob("*.index")
  index.write_bytes((tmp_path / "two" / index.name).read_bytes())
  checked = _data("check", tmp_path / "one", "--processes=1")
  checked.refused("the index of 1 files is wrong", f"xmcap data index {tmp_path}/one", code=1)
  assert "1  ERROR   wrong_index: files whose index of records is not theirs" in checked.out
  (line,) = map(json.loads, (tmp_path / "one/check.jsonl").read_text().splitlines())
  assert (line["kind"], line["key"]) == ("wrong_index", index.stem)
  assert json.loads((tmp_path / "one/check.json").read_text())["bad"] == 0
  index.unlink()
  _data("check", tmp_path / "one", "--processes=1").succeeded()


def test_data_show_writes_a_contact_sheet_of_a_corpus(corpus, tmp_path):
  out = tmp_path / "sheet.html"
  options = ["--count=3", "--image_size=16", "--captions_per_image=2"]
  _data("show", corpus, f"--out={out}", *options).succeeded(f"{out}: 3 pictures")
  text = out.read_text(encoding="utf-8")
  assert text.count("<article") == 3 and f"<h1>{os.path.basename(corpus)}, split train</h1>" in text


def test_data_show_writes_a_contact_sheet_of_gin_files(corpus, tmp_path):
  out = tmp_path / "sheet.html"
  run = ["--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin"]
  run += [f"--gin.DATA_DIR={corpus}", "--gin.CaptionStream.languages=['en', 'de']", "--gin.BATCH_SIZE=8"]
  _data("show", f"--out={out}", "--count=2", "--step=1", *run).succeeded()
  assert "from 2 languages" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["show", "--out=x.html"], "either a corpus, DIR, or the gin files"),
    (["show", "DIR", "--out=x.html", "--gin_file=runs/train.gin"], "either a corpus"),
    (
      ["show", "--out=x.html", "--gin_file=runs/train.gin", "--image_size=8"],
      "--gin.CaptionStream.image_size=VALUE",
    ),
    (["show", "DIR", "--out=x.html", "--gin.A=1"], "needs --gin_file"),
    (["show", "DIR", "--out=x.html", "--step=-1"], "--step=-1: give a number from 0"),
    (["show", "DIR", "--out=x.html", "--image_size=0"], "--image_size=0: give a number from 1"),
    (["show", "absent", "--out=x.html"], "absent is not a corpus"),
    (["check", "absent"], "absent is not a corpus"),
    (["check", "absent", "--processes=0"], "--processes=0: give a number from 1"),
  ],
)
def test_data_check_and_show_usage_errors_are_one_line(arguments, message):
  assert _data(*arguments).refused(message).err.count("\n") == 1
