"""A picture is one record in one split: rows of one picture, copies of a picture, and splits that a source names."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora.building.builds import differing
from tests.make import files
from tests.make.command import xmcap
from tests.make.images import encode, noise
from xmcap.corpora.folder.split_choice import SplitRule, SplitSource
from xmcap.data import images, records

SHARES = "--splits=train:0.5,test:0.5"
PICTURES = 12


def picture(number, kind="JPEG", **options):
  return noise((24, 16), number, kind, **options)


def rows_per_caption():
  """(number of the caption, number of the picture, language, caption), the captions of a picture far apart."""
  texts = [
    (number, language, f"{word} {number}")
    for language, word in (("en", "ball"), ("de", "Ball"))
    for number in range(PICTURES)
  ]
  return [(place, *values) for place, values in enumerate(texts)]


def _parquet(*columns, path=None):
  def write(folder):
    rows = [
      {
        "image": {"bytes": picture(number), "path": path and path.format(number)},
        "language": language,
        "caption": text,
        **{
          name: {"image_id": number, "id": place, "url": f"http://x.org/{number}"}[name] for name in columns
        },
      }
      for place, number, language, text in rows_per_caption()
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return [f"--captions={folder}/a.parquet"]

  return write


def webdataset(folder):
  """As img2dataset writes a table with a row per caption: a sample each, with the URL in its .json."""
  entries = []
  for place, number, language, text in rows_per_caption():
    about = {"url": f"http://x.org/{number}.jpg", "language": language, "key": f"{place:09d}"}
    entries += [
      (f"{place:09d}.jpg", picture(number)),
      (f"{place:09d}.txt", text.encode()),
      (f"{place:09d}.json", json.dumps(about).encode()),
    ]
  files.tarred(folder / "00000.tar", *entries[: len(entries) // 2])
  files.tarred(folder / "00001.tar", *entries[len(entries) // 2 :])
  return [f"--captions={folder}"]


def copied_files(folder):
  """A folder per language with the same names, each picture in both."""
  lines = ["file,language,caption"]
  for _, number, language, text in rows_per_caption():
    files.text(folder / f"images/{language}/{number}.jpg", picture(number))
    lines.append(f"{language}/{number}.jpg,{language},{text}")
  files.lines(folder / "c.csv", *lines)
  return [f"--captions={folder}/c.csv"]


LAYOUTS = {
  "Parquet with ids": _parquet("image_id"),
  "Parquet with paths": _parquet(path="{}.jpg"),
  "Parquet with ids of captions": _parquet("id", path="{}.jpg"),
  "Parquet with ids of captions and URLs": _parquet("id", "url"),
  "Parquet without names": _parquet(),
  "WebDataset": webdataset,
  "copies of files": copied_files,
}


def corpus(out):
  """Split -> keys, and key -> language -> captions."""
  splits, captions = {}, {}
  for split in records.splits(out):
    for record in records.RecordSource(out, split):
      splits.setdefault(split, []).append(record.key)
      for caption in record.captions:
        captions.setdefault(record.key, {}).setdefault(caption.language, []).append(caption.text)
  return splits, captions


def build(out, *options):
  return xmcap("data", "build", "folder", *options, f"--out={out}", "--processes=1")


@pytest.mark.parametrize("duplicates", ["merge", "keep", "refuse"])
@pytest.mark.parametrize("write", LAYOUTS.values(), ids=LAYOUTS)
def test_rows_of_one_picture_are_one_record(write, duplicates, tmp_path):
  result = build(tmp_path / "out", *write(tmp_path), SHARES, f"--duplicates={duplicates}").succeeded()
  assert "other split" not in result.out
  splits, captions = corpus(tmp_path / "out")
  assert sum(map(len, splits.values())) == PICTURES
  assert sorted(map(str, captions.values())) == sorted(
    str({"en": [f"ball {number}"], "de": [f"Ball {number}"]}) for number in range(PICTURES)
  )


def test_other_bytes_under_one_key_are_another_record(tmp_path):
  rows = [
    {"image_id": 5, "image": picture(number), "en": text}
    for number, text in ((0, "a ball"), (1, "a tree"), (0, "a round ball"))
  ]
  pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
  build(tmp_path / "out", f"--captions={tmp_path}/a.parquet", "--splits=train:1").succeeded("2  renamed_key")
  _, captions = corpus(tmp_path / "out")
  assert list(captions.values()) == [{"en": ["a ball", "a round ball"]}, {"en": ["a tree"]}]


@pytest.fixture
def copies(tmp_path):
  """Picture 0 is in train and, with other metadata and as a PNG, in test; and 9 is twice in train."""
  data = picture(0)
  png = encode(images.decode(data, "a"))
  commented = data[:2] + b"\xff\xfe\x00\x07about" + data[2:]
  for name, content in {
    "train/a.jpg": data, "train/b.jpg": picture(1), "train/x.jpg": picture(9), "train/y.jpg": picture(9),
    "test/c.jpg": commented, "test/d.png": png, "test/e.jpg": picture(2),
  }.items():  # fmt: skip
    files.text(tmp_path / "images" / name, content)
    files.text((tmp_path / "images" / name).with_suffix(".txt"), f"the letter {name[-5]}")
  return f"--captions={tmp_path}/images", "--language=en"


def test_copies_are_merged_into_the_record_that_is_held_out(copies, tmp_path):
  result = build(tmp_path / "out", *copies).succeeded("3  same_picture", "1  other_split", "test/d: d is c")
  assert "in_other_split" not in result.out
  splits, captions = corpus(tmp_path / "out")
  assert splits == {"train": ["b", "x"], "test": ["e", "c"]} or splits == {
    "test": ["c", "e"],
    "train": ["b", "x"],
  }
  assert sorted(captions["c"]["en"]) == ["the letter a", "the letter c", "the letter d"]


def test_kept_copies_are_counted_and_refused_ones_end_the_build(copies, tmp_path):
  kept = build(tmp_path / "kept", *copies, "--duplicates=keep").succeeded("2  in_other_split")
  assert "same_picture" not in kept.out
  splits, _ = corpus(tmp_path / "kept")
  assert {split: sorted(keys) for split, keys in splits.items()} == {
    "train": ["a", "b", "x", "y"],
    "test": ["c", "d", "e"],
  }
  advice = "remove them from one, or give --duplicates=merge or keep"
  refused = build(tmp_path / "two", *copies, "--duplicates=refuse")
  refused.refused(
    "2 pictures are in several splits (first: c of test: the same pixels as a of train)", advice, code=1
  )
  assert "in_other_split" in (tmp_path / "two/problems.jsonl").read_text()
  build(tmp_path / "two", *copies, "--duplicates=keep").succeeded()
  assert differing(tmp_path / "kept", tmp_path / "two") == []
  build(tmp_path / "two", *copies, "--duplicates=some").refused(
    "--duplicates=some: choose merge, keep, refuse"
  )


def test_check_names_copies_in_several_splits(copies, tmp_path):
  build(tmp_path / "out", *copies, "--duplicates=keep").succeeded()
  said = xmcap("data", "check", tmp_path / "out", "--processes=1").succeeded().out
  assert "warning in_other_split" in said and "first: c: the same pixels as a of train" in said
  finds = files.rows(tmp_path / "out/check.jsonl")
  assert [(find["kind"], find["split"], find["key"], find["what"]) for find in finds] == [
    ("repeated_picture", "train", "y", "the same pixels as x"),
    ("in_other_split", "test", "c", "the same pixels as a of train"),
    ("in_other_split", "test", "d", "the same pixels as a of train"),
  ]


def _tree(*names):
  """Pictures with texts beside them."""

  def write(folder):
    for number, name in enumerate(names):
      files.text(folder / "set" / f"{name}.jpg", picture(number))
      files.text(folder / "set" / f"{name}.txt", f"ball {number}")
    return [f"--captions={folder}/set"]

  return write


def _shards(write, *names):
  """A file of two pictures for each name."""

  def write_all(folder):
    for place, name in enumerate(names):
      (folder / "set" / name).parent.mkdir(parents=True, exist_ok=True)
      write(folder / "set" / name, [2 * place, 2 * place + 1])
    return [f"--captions={folder}/set"]

  return write_all


def _write_tar(path, numbers):
  files.tarred(
    path,
    *((f"{n}{s}", d) for n in numbers for s, d in ((".jpg", picture(n)), (".txt", f"ball {n}".encode()))),
  )


def _write_parquet(path, numbers):
  pq.write_table(pa.Table.from_pylist([{"image": picture(n), "caption": f"ball {n}"} for n in numbers]), path)


def _write_arrow(path, numbers):
  table = pa.Table.from_pylist([{"image": picture(n), "caption": f"ball {n}"} for n in numbers])
  with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
    writer.write_table(table)


def _table(*values, column="split"):
  def write(folder):
    for number in range(len(values)):
      files.text(folder / f"images/{number}.jpg", picture(number))
    rows = (f"{number}.jpg,ball {number},{value}" for number, value in enumerate(values))
    files.lines(folder / "c.csv", f"file,caption,{column}", *rows)
    return [f"--captions={folder}/c.csv"]

  return write


def _karpathy(*values):
  def write(folder):
    listed = []
    for number, value in enumerate(values):
      # All are of MSCOCO's folder val2014, whatever Karpathy's split.
      files.text(folder / f"images/val2014/{number}.jpg", picture(number))
      about = {"filepath": "val2014", "filename": f"{number}.jpg", "cocoid": number, "split": value}
      listed.append({**about, "sentences": [{"raw": f"ball {number}"}]})
    files.json(folder / "dataset_coco.json", {"images": listed, "dataset": "coco"})
    return [f"--captions={folder}/dataset_coco.json", f"--images={folder}/images"]

  return write


NEW = "; --splits=train:0.9,validation:0.05,test:0.05 divides anew"
NAMED = {
  "Parquet files": (
    _shards(_write_parquet, "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
    {"train": "0 1", "test": "2 3"},
    "splits: as files and folders name them: train 2, test 2" + NEW,
  ),
  "one Parquet file of the test split": (
    _shards(_write_parquet, "data/test-00000-of-00001.parquet"),
    {"test": "0 1"},
    "splits: as files and folders name them: test 2" + NEW,
  ),
  "folders of datasets": (
    _shards(_write_arrow, "train/data-00000-of-00001.arrow", "validation/data-00000-of-00001.arrow"),
    {"train": "0 1", "validation": "2 3"},
    "train 2, validation 2" + NEW,
  ),
  "tar files": (
    _shards(_write_tar, "train-0.tar", "val-0.tar"), {"train": "0 1", "validation": "2 3"}, "validation 2 (val)",
  ),
  "folders of tar files": (
    _shards(_write_tar, "train/0.tar", "Dev/0.tar"), {"train": "0 1", "validation": "2 3"}, "(Dev)",
  ),
  "folders of pictures": (
    _tree("train/0", "valid/1", "test/a/2"), {"train": "0", "validation": "1", "test": "2"}, "(valid)",
  ),
  "a column": (_table("train", "test", "test"), {"train": "0", "test": "1 2"}, "as column 'split' names them"),
  "TextCaps": (_table("train", "val", column="set_name"), {"train": "0", "validation": "1"}, "'set_name'"),
  "Karpathy's": (
    _karpathy("train", "restval", "val", "test", "restval"),
    {"train": "0 1 4", "validation": "2", "test": "3"},
    "train 3 (train 1, restval 2), validation 1 (val), test 1",
  ),
}  # fmt: skip


def numbers(out):
  """Split -> the numbers in its captions."""
  splits, captions = corpus(out)
  return {
    split: " ".join(sorted(captions[key]["en"][0].split()[1] for key in keys))
    for split, keys in splits.items()
  }


@pytest.mark.parametrize(("write", "splits", "line"), NAMED.values(), ids=NAMED)
def test_splits_that_a_source_names_are_kept_and_said(write, splits, line, tmp_path):
  built = build(tmp_path / "out", *write(tmp_path), "--language=en").succeeded(line)
  assert numbers(tmp_path / "out") == splits and built.err.count("splits: ") == 1


DIVIDED = {
  "train alone": (_tree("train/0", "train/1"), "files and folders name train 2 alone: all are divided by train:0.9"),
  "some of them": (_tree("train/0", "test/1", "more/2"), "name train 1, test 1, and for 1 pictures none: all are"),
  "some cells": (_table("train", "test", ""), "column 'split' names train 1, test 1, and for 1 pictures none"),
  "a column of trains": (_table("train", "bus", "train", column="category"), ""),
  "nothing": (_tree("0", "1"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("write", "line"), DIVIDED.values(), ids=DIVIDED)
def test_splits_that_not_all_pictures_have_are_said_and_divided_anew(write, line, tmp_path):
  options = write(tmp_path)
  built = build(tmp_path / "out", *options, "--language=en").succeeded(line)
  assert ("splits: " in built.err) == bool(line)
  same = build(tmp_path / "same", *options, "--language=en", "--splits=train:0.9,validation:0.05,test:0.05")
  assert "splits: " not in same.succeeded().err and numbers(tmp_path / "out") == numbers(tmp_path / "same")


def test_picture_of_several_splits_is_held_out(tmp_path):
  for number in range(2):
    files.text(tmp_path / f"images/{number}.jpg", picture(number))
  lines = (
    "file,caption,split",
    "0.jpg,a,train",
    "0.jpg,b,test",
    "0.jpg,c,val",
    "1.jpg,d,train",
    "none.jpg,e,dev",
  )
  files.lines(tmp_path / "c.csv", *lines)
  built = build(tmp_path / "out", f"--captions={tmp_path}/c.csv", "--language=en")
  built.succeeded("1  other_split", "test and validation and train: test counts", "1  missing")
  assert corpus(tmp_path / "out")[0] == {"test": ["0"], "train": ["1"]}


def test_of_several_names_the_column_counts_before_the_file():
  source = SplitSource("restval", "val-000.tar", "test/0.jpg")
  assert SplitRule("column:split").of_sources([source], "") == ["train"]
  assert SplitRule("folder").of_sources([source], "") == ["validation"]
