"""Parquet and Arrow files as data sets on the Hugging Face Hub have them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora.folder.test_build import held, jpeg, made
from tests.corpora.folder.test_samples import grey
from tests.make.images import plain
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames
from xmcap.errors import UsageError, XmcapError
from xmcap.reading import packed

ALL, ENGLISH = SplitRule("train:1"), ColumnNames(default_language="en")


def picture(number):
  return {"bytes": jpeg(number), "path": f"{number}.jpg"}


def parquet(path, rows, features=None):
  table = pa.Table.from_pylist(rows)
  if features:
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
  path.parent.mkdir(parents=True, exist_ok=True)
  pq.write_table(table, path)
  return path


_TEXT = {"text": "a red ball"}
_TURNS = [{"from": "human", "value": "<image>\nDescribe it."}, {"from": "gpt", "value": "a red ball"}]
_ROLES = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "a red ball"}]
ROWS = {
  "another image column": {"conditioning_image": picture(9), "image": picture(1), **_TEXT},
  "a list of one": {"images": [picture(1)], **_TEXT},
  "bytes alone": {"jpg": jpeg(1), **_TEXT},
  "beside a hash": {"md5": b"\x01\x02\x03\x04", "photo_bytes": jpeg(1), **_TEXT},
  "an object without a path": {"picture": {"bytes": jpeg(1)}, **_TEXT},
  "a conversation": {"image": picture(1), "conversations": _TURNS},
  # As `datasets` before version 4 stored a Sequence of objects.
  "a conversation in columns": {
    "image": picture(1), "conversations": {name: [turn[name] for turn in _TURNS] for name in ("from", "value")},
  },
  "a conversation of roles": {"image": picture(1), "conversations": _ROLES},
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_parquet_row_gives_an_image_and_its_caption(tmp_path, row):
  report = made(tmp_path, parquet(tmp_path / "a.parquet", [row]), None, ENGLISH, ALL)
  assert list(grey(report.out).values()) == [10] and not report.problems.counts.get("missing")
  assert list(held(report.out).values()) == [{"en": ["a red ball"]}]


def test_parquet_with_several_image_columns_is_refused(tmp_path):
  path = parquet(tmp_path / "a.parquet", [{"left": picture(1), "right": picture(2), "text": "a ball"}])
  with pytest.raises(UsageError, match="several columns have pictures .left, right.: .*--image_column="):
    made(tmp_path, path, None, ENGLISH, ALL)
  columns = ColumnNames("right", default_language="en")
  assert grey(made(tmp_path, path, None, columns, ALL, out="asked").out) == {"2": 20}


def test_rows_with_several_images_are_counted(tmp_path):
  rows = [
    {"images": [picture(1), picture(2)], "text": "two balls"},
    {"images": [picture(3)], "text": "a ball"},
  ]
  report = made(tmp_path, parquet(tmp_path / "a.parquet", rows), None, ENGLISH, ALL)
  assert list(held(report.out).values()) == [{"en": ["a ball"]}]
  assert report.problems.examples["missing_field"][0][1].startswith(
    "'images' has 2 pictures: give each a row"
  )


def test_class_label_names_in_nested_features(tmp_path):
  label = {"names": ["en", "th"], "_type": "ClassLabel"}
  inner = {"language": label, "text": {"dtype": "string", "_type": "Value"}}
  rows = [
    {"image": picture(1), "captions": [{"language": 0, "text": "a ball"}, {"language": 1, "text": "ลูกบอล"}]}
  ]
  for number, feature in enumerate(([inner], {"_type": "List", "feature": inner})):
    path = parquet(tmp_path / f"{number}.parquet", rows, {"captions": feature})
    report = made(tmp_path, path, None, None, ALL, out=f"out{number}")
    assert list(held(report.out).values()) == [{"en": ["a ball"], "th": ["ลูกบอล"]}]


PAIRS = {
  "laion-coco-nllb": [["eng_Latn", "a ball"], ["tha_Thai", "ลูกบอล"]],
  "WIT": {"language": ["en", "th"], "page_title": ["x", "y"], "caption_reference_description": ["a ball", "ลูกบอล"]},
  "an object": {"en": ["a ball"], "th": "ลูกบอล"},
  "JSON of pairs": '[["en", "a ball"], ["th", "ลูกบอล"]]',
  "JSON of an object": '{"en": "a ball", "th": ["ลูกบอล"]}',
  "Python's list of objects": "[{'language': 'en', 'caption': 'a ball'}, {'language': 'th', 'caption': 'ลูกบอล'}]",
}  # fmt: skip


@pytest.mark.parametrize("captions", PAIRS.values(), ids=PAIRS)
def test_captions_of_a_cell_with_their_languages(tmp_path, captions):
  rows = [{"image": picture(1), "wit_features": captions}]
  report = made(tmp_path, parquet(tmp_path / "a.parquet", rows), None, None, ALL)
  assert list(held(report.out).values()) == [{"en": ["a ball"], "th": ["ลูกบอล"]}]


def test_hub_file_names_give_splits(tmp_path):
  for number, name in enumerate(
    ("default/train/0000.parquet", "default/test/0000.parquet", "data/val.parquet")
  ):
    parquet(tmp_path / "set" / name, [{"image": picture(number), "text": f"a ball {number}"}])
  report = made(tmp_path, tmp_path / "set", None, ENGLISH, SplitRule("folder"))
  assert {split: counts["records"] for split, counts in report.splits.items()} == {
    "train": 1, "validation": 1, "test": 1,
  }  # fmt: skip


def test_parquet_image_decompression_limit(tmp_path, monkeypatch):
  monkeypatch.setattr(packed, "most_unpacked", lambda size: 2 * size)
  rows = [
    {"image": {"bytes": plain(number), "path": f"{number}.png"}, "text": "a ball"} for number in range(200)
  ]
  with pytest.raises(UsageError, match=r"a.parquet, row \d+: the pictures up to here take"):
    made(tmp_path, parquet(tmp_path / "a.parquet", rows), None, ENGLISH, ALL)


def test_unpacked_images_are_removed_without_records(tmp_path):
  rows = [{"image": {"bytes": b"\xff\xd8\xff" + bytes(1000), "path": "1.jpg"}, "text": "a ball"}]
  with pytest.raises(XmcapError, match="has no records"):
    made(tmp_path, parquet(tmp_path / "a.parquet", rows), None, ENGLISH, ALL, out="out")
  assert [path.name for path in (tmp_path / "out/.build").iterdir()] == ["plan.json"]
