"""The check of a corpus: captions, images, tags and damaged files."""

import dataclasses
import json

import pytest

from tests.corpora import release_pictures
from tests.corpora.building.test_duplicates import photo
from tests.make import files
from tests.make.images import encode
from tests.make.tiny_corpus import colour
from xmcap.corpora.checking import check as check_lib
from xmcap.corpora.checking.check import ERRORS, check
from xmcap.data import record_writer
from xmcap.data.records import Caption, Record
from xmcap.errors import UsageError


def write(out, pictures, monkeypatch=None, **splits):
  if monkeypatch is not None:
    monkeypatch.setattr(record_writer, "check", lambda record: None)  # as a builder with a fault would
  written = [
    record_writer.write_split(out, name, [records], list, dataset="tiny", processes=1)
    for name, records in {"train": pictures, **splits}.items()
  ]
  record_writer.write_metadata(out, written, dataset="tiny")
  if monkeypatch is not None:
    monkeypatch.undo()
  return out


def good(index, *captions):
  captions = captions or (Caption("en", f"a dog, number {index}"), Caption("th", "หมาตัวเล็ก"))
  return Record(f"{index:04d}", encode(colour(index)), list(captions))


def finds(out):
  return files.rows(out / "check.jsonl")


def test_check_of_a_valid_corpus_has_no_findings(tmp_path):
  write(tmp_path, [good(index) for index in range(20)], validation=[good(30)])
  train, validation = check(tmp_path, processes=1)
  assert train.bad == validation.bad == 0 and validation.pictures == 1 and finds(tmp_path) == []
  assert (train.pictures, train.captions, train.sides, dict(train.formats)) == (20, 40, (16, 16), {"PNG": 20})
  assert "no problems" in str(train)
  assert json.loads((tmp_path / "check.json").read_text())["splits"][0]["captions"] == 40


def test_check_lists_pictures_that_other_records_have_too(tmp_path):
  def record(key, image):
    return Record(key, encode(image), [Caption("en", "a dog")])

  small = photo(1).resize((120, 90))
  train = [record("a", photo(1)), record("b", photo(2)), record("c", photo(2))]
  write(tmp_path, train, test=[record("b", photo(2)), record("d", small), record("e", photo(3))])
  check(tmp_path, processes=1)
  assert [(find["kind"], find["split"], find["key"], find["what"]) for find in finds(tmp_path)] == [
    ("repeated_picture", "train", "c", "the same pixels as b"),
    ("in_other_split", "test", "b", "the same pixels as b of train"),
    ("like_other_split", "test", "d", "looks like a of train"),
  ]
  check(tmp_path, splits=["train", "train[1:]"], processes=1)
  assert [find["kind"] for find in finds(tmp_path)] == ["repeated_picture"] * 2


CAPTIONS = [
  (Caption("en", "  "), "empty_caption"),
  (Caption("en", "\u200b\u3000"), "empty_caption"),
  (Caption("th", "a small dog"), "wrong_script"),
  (Caption("en", "собака и кот"), "wrong_script"),
  (Caption("ja", "고양이와 작은 개"), "wrong_script"),
  (Caption("en", "a \x07 dog"), "control_characters"),
  (Caption("fr", "un caf\ufffd"), "control_characters"),
  (Caption("de", "ein Hund " * 100), "long_caption"),
  (Caption("en", "a dog, number 7"), "repeated_caption"),
]


@pytest.mark.parametrize(("caption", "kind"), CAPTIONS)
def test_check_counts_bad_captions_by_kind(tmp_path, monkeypatch, caption, kind):
  first = Caption("en", "a dog, number 7")
  write(tmp_path, [good(1), good(2, first, caption)], monkeypatch)
  (findings,) = check(tmp_path, processes=1)
  assert dict(findings.counts) == {kind: 1} and findings.bad == 0
  (find,) = finds(tmp_path)
  assert (find["kind"], find["key"], find["index"], find["language"]) == (kind, "0002", 1, caption.language)
  assert f"{caption.language} 1" in str(findings)


@pytest.mark.parametrize(
  "caption",
  [
    Caption("ja", "テレビ TV と NHK を見る猫"),
    Caption("ko", "漢字와 한글"),
    Caption("fa", "می\u200cرود"),
    Caption("zh", "一只狗 iPhone 的照片"),
    Caption("en", "TV"),
    Caption("el", "DVD"),
    Caption("th", "TV"),
    Caption("th", "12:30 !!"),
    Caption("de", "x" * 500),
    Caption("mi", "he kurī — #"),
  ],
)
def test_check_accepts_valid_captions(tmp_path, caption):
  write(tmp_path, [good(1, caption)])
  assert not check(tmp_path, processes=1)[0].counts


def test_check_counts_unusable_records(tmp_path, monkeypatch):
  cut = release_pictures.photo(1)[:-300]
  pictures = [
    good(0),
    dataclasses.replace(good(1), image=cut),
    dataclasses.replace(good(2), image=release_pictures.PAGE),
    dataclasses.replace(good(3), key="../3"),
    good(0),
    dataclasses.replace(good(5), captions=[]),
    dataclasses.replace(good(6), captions=[Caption("xx", "what")]),
  ]
  write(tmp_path, pictures, monkeypatch)
  (findings,) = check(tmp_path, processes=1)
  assert dict(findings.counts) == {
    "invalid": 3,
    "broken_picture": 2,
    "repeated_key": 1,
    "no_captions": 1,
  }
  assert findings.bad == 5
  assert {find["index"] for find in finds(tmp_path) if find["kind"] in ERRORS} == {1, 2, 3, 4, 6}
  assert "ERROR   broken_picture" in str(findings)


def test_check_counts_unknown_tags(tmp_path):
  write(tmp_path, [dataclasses.replace(good(1), tags=["dog", "unicorn"])])
  record_writer.write_tags(tmp_path, ["dog"])
  (findings,) = check(tmp_path, processes=1)
  assert dict(findings.counts) == {"unknown_tag": 1} and findings.bad == 1


def test_check_of_a_damaged_file_loses_its_records_only(tmp_path):
  write(tmp_path, [good(index) for index in range(40)])
  (path,) = tmp_path.glob("*.array_record-*-of-00001")
  data = bytearray(path.read_bytes())
  place = data.index(b"number 7")
  data[place - 150 : place - 140] = b"\xff" * 10
  path.write_bytes(data)
  (findings,) = check(tmp_path, processes=1)
  assert findings.pictures == 40 and 1 <= findings.bad < 40
  assert findings.counts["damaged"] == findings.bad


def test_check_with_processes_equals_single_process(tmp_path, monkeypatch):
  monkeypatch.setattr(check_lib, "_CHUNK", 8)
  write(tmp_path / "in", [good(index, Caption("th", f"a dog {index}")) for index in range(30)])
  one = check(tmp_path / "in", out=tmp_path / "one", processes=1)
  seen = []
  two = check(tmp_path / "in", out=tmp_path / "two", processes=2, say=seen.append)
  assert one == two
  assert (tmp_path / "one/check.jsonl").read_bytes() == (tmp_path / "two/check.jsonl").read_bytes()
  assert seen[-1] == "train: records checked: 30 of 30"
  (part,) = check(tmp_path / "in", out=tmp_path / "part", splits=["train[:5]"], processes=1)
  assert part.pictures == 5 and not (tmp_path / "in/check.json").exists()


def test_check_refuses_folders_without_a_corpus(tmp_path):
  with pytest.raises(UsageError, match="is not a corpus"):
    check(tmp_path)
  write(tmp_path, [good(1)])
  with pytest.raises(UsageError, match="has no split 'test'"):
    check(tmp_path, splits=["test"])
  with pytest.raises(UsageError, match="at least 1"):
    check(tmp_path, max_characters=0)
