"""Writing and reading records: round trips, TFDS as reader, and one-line errors of damaged files."""

import concurrent.futures
import os
import pickle

import numpy as np
import pytest

from tests import lazily
from tests.corpora.building.test_full_disk import largest_file
from tests.make.images import plain
from xmcap.corpora import tfds_builders
from xmcap.data import record_writer, records
from xmcap.data.records import Caption, Record, RecordSource, parse_columns
from xmcap.errors import UsageError, XmcapError

tfds = lazily.Module("tensorflow_datasets")


def png(shade: int) -> bytes:
  return plain((shade % 256, 0, 0), (9, 8))


def record(number: int) -> Record:
  captions = [Caption("th", f"ภาพที่ {number}", "ภาพ ที่", "mt"), Caption("en", f"picture {number}")]
  return Record(f"{number:016x}", png(number), captions, ["a b", f"tag {number}"], "en")


def numbered(numbers: range):
  return map(record, numbers)


def write(folder, lengths=(3, 1, 4), processes=1):
  starts = np.cumsum([0, *lengths])
  shards = [range(int(start), int(start) + length) for start, length in zip(starts, lengths, strict=False)]
  split = record_writer.write_split(folder, "train", shards, numbered, dataset="toy", processes=processes)
  record_writer.write_metadata(folder, [split], dataset="toy")
  return split


def contents(folder):
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_records_come_back_in_order(tmp_path):
  split = write(tmp_path)
  source = RecordSource(tmp_path, "train")
  assert split.shard_lengths == (3, 1, 4)
  assert len(source) == 8
  assert list(source) == [record(number) for number in range(8)]


def test_write_split_resumes_after_complete_shards(tmp_path):
  shards = [range(0, 3), range(3, 4), range(4, 8)]
  (tmp_path / "marks").mkdir()

  def write_shards(made):
    return record_writer.write_split(
      tmp_path / "out", "train", shards, made, dataset="toy", processes=1, finished=tmp_path / "marks"
    )

  def failing(shard):
    if shard.start == 4:
      raise XmcapError("no more")
    return numbered(shard)

  with pytest.raises(XmcapError, match="no more"):
    write_shards(failing)
  # What is marked as whole is not made again, unless it is gone.
  (tmp_path / "out" / "toy-train.array_record-00001-of-00003").unlink()
  begun = []
  split = write_shards(lambda shard: begun.append(shard.start) or numbered(shard))
  assert begun == [3, 4]
  assert split == write(tmp_path / "whole") and split == write_shards(None)
  assert all(
    path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
    for path in (tmp_path / "out").iterdir()
  )


def test_read_takes_indices_in_any_order_and_twice(tmp_path):
  write(tmp_path)
  indices = [7, 0, 3, 3, 2]
  assert RecordSource(tmp_path).read(indices) == [record(number) for number in indices]


def test_iterate_reads_records_lazily(tmp_path):
  write(tmp_path)
  parsed = []
  found = RecordSource(tmp_path).iterate([7, 0, 3], lambda data: parsed.append(data) or records.parse(data))
  assert next(found) == record(7) and len(parsed) == 1
  assert list(found) == [record(0), record(3)]


def test_record_source_reads_a_slice_of_a_split(tmp_path):
  write(tmp_path)
  part = RecordSource(tmp_path, "train[2:5]")
  assert [r.key for r in part] == [record(number).key for number in (2, 3, 4)]


def test_record_source_joins_splits_with_plus(tmp_path):
  write(tmp_path)
  parts = RecordSource(tmp_path, "train+train[5:6]")
  assert [r.key for r in parts] == [record(number).key for number in (*range(8), 5)]
  with pytest.raises(UsageError, match="has no split"):
    RecordSource(tmp_path, "train+dev")


@pytest.mark.parametrize("index", [-1, 8])
def test_index_outside_is_an_index_error(tmp_path, index):
  write(tmp_path)
  with pytest.raises(IndexError):
    RecordSource(tmp_path)[index]


def test_source_survives_pickling_after_reading(tmp_path):
  write(tmp_path)
  source = RecordSource(tmp_path)
  source[0]
  assert pickle.loads(pickle.dumps(source))[5] == record(5)


def test_threads_read_the_same_source(tmp_path):
  write(tmp_path, (50, 50))
  source = RecordSource(tmp_path)
  orders = [np.random.default_rng(seed).permutation(100) for seed in range(8)]
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for order, found in zip(orders, pool.map(source.read, orders), strict=True):
      assert [r.key for r in found] == [f"{number:016x}" for number in order]


def test_tfds_reads_the_same_records(tmp_path):
  write(tmp_path)
  source = tfds.builder_from_directory(tmp_path).as_data_source(split="train")
  example = source[4]
  assert example["image/key"] == record(4).key.encode()
  assert example["image"].shape == (8, 9, 3)
  assert [text.decode() for text in example["captions"]["text"]] == [c.text for c in record(4).captions]
  assert [tag.decode() for tag in example["tags"]] == record(4).tags


def test_serialisation_is_that_of_tfds(tmp_path):
  """Golden: tensorflow-datasets' own serialiser of `features()`."""
  theirs = tfds.core.example_serializer.ExampleSerializer(tfds_builders.features().get_serialized_info())
  encoded = tfds_builders.features().encode_example(tfds_builders.as_example(record(1)))
  assert records.parse(theirs.serialize_example(encoded)) == record(1)


def test_image_bytes_are_kept(tmp_path):
  write(tmp_path)
  assert RecordSource(tmp_path)[6].image == png(6)


def test_bytes_do_not_depend_on_processes(tmp_path):
  write(tmp_path / "one", processes=1)
  write(tmp_path / "two", processes=2)
  assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_progress_counts_records(tmp_path):
  seen = []
  shards = [range(2), range(2, 5)]
  record_writer.write_split(
    tmp_path, "train", shards, numbered, dataset="t", processes=1, progress=seen.append
  )
  assert seen == [2, 5]


def change(**fields):
  changed = record(0)
  for name, value in fields.items():
    setattr(changed, name, value)
  return changed


@pytest.mark.parametrize(
  ("bad", "message"),
  [
    (change(key="../etc/passwd"), "not a safe name"),
    (change(key=""), "not a safe name"),
    (change(image=b"GIF89a"), "neither JPEG nor PNG"),
    (change(image=b""), "neither JPEG nor PNG"),
    (change(captions=[Caption("xx", "text")]), "unknown language"),
    (change(captions=[Caption("en", " ")]), "the text is empty"),
    (change(captions=[Caption("en", "text", "", "guess")]), "source 'guess'"),
    (change(tags=["a\nb"]), "line break"),
  ],
)
def test_invalid_record_is_refused_and_nothing_is_left(tmp_path, bad, message):
  with pytest.raises(XmcapError, match=message):
    record_writer.write_split(tmp_path, "train", [0], lambda _: [record(1), bad], dataset="toy", processes=1)
  assert list(tmp_path.iterdir()) == []


def test_empty_split_is_an_error(tmp_path):
  write(tmp_path)
  with pytest.raises(UsageError, match="is empty"):
    RecordSource(tmp_path, "train[:0]")


def test_absent_folder_and_split_are_usage_errors(tmp_path):
  with pytest.raises(UsageError, match="is not a corpus"):
    RecordSource(tmp_path / "absent")
  write(tmp_path)
  with pytest.raises(UsageError, match="has no split 'dev'; its splits: train"):
    RecordSource(tmp_path, "dev")
  (tmp_path / "dataset_info.json").write_text("[]")
  with pytest.raises(XmcapError, match="^[^\n]*$"):
    RecordSource(tmp_path)


def test_absent_file_is_named(tmp_path):
  write(tmp_path)
  (tmp_path / "toy-train.array_record-00001-of-00003").unlink()
  with pytest.raises(XmcapError, match="00001-of-00003 is missing"):
    RecordSource(tmp_path)


@pytest.mark.parametrize(
  "length, reason", [(1 << 16, r"range of \[0, 0\)"), (1000, "at least 64KB")], ids=["cut", "short"]
)
def test_error_of_a_damaged_file_gives_the_reason(tmp_path, length, reason):
  write(tmp_path)
  path = tmp_path / "toy-train.array_record-00002-of-00003"
  path.write_bytes(path.read_bytes()[:length])
  source = RecordSource(tmp_path)
  for _ in range(2):  # the second time too
    with pytest.raises(XmcapError, match=f"00002-of-00003 is damaged .*{reason}"):
      source.read([4])
  assert source.read([3]) == [record(3)]


def test_one_damaged_record_leaves_the_others_readable(tmp_path):
  write(tmp_path)
  path = tmp_path / "toy-train.array_record-00002-of-00003"
  data = path.read_bytes()
  path.write_bytes(data.replace(b"picture 5", b"picture 4"))
  source = RecordSource(tmp_path)
  with pytest.raises(XmcapError, match="chunk data hash mismatch"):
    source.read([5])
  assert source.read([4, 6]) == [record(4), record(6)]


def test_features_json_cannot_import_a_module(tmp_path, monkeypatch):
  """TFDS imports the module of each class that a `features.json` names."""
  write(tmp_path / "corpus")
  (tmp_path / "a_trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
  monkeypatch.syspath_prepend(str(tmp_path))
  path = tmp_path / "corpus" / "features.json"
  named = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
  assert named in path.read_text()
  path.write_text(path.read_text().replace(named, "a_trap.Features"))
  assert RecordSource(tmp_path / "corpus")[0] == record(0)
  assert not (tmp_path / "sprung").exists()


def test_full_disk_is_one_line(tmp_path):
  with largest_file(1000), pytest.raises(XmcapError, match="cannot write records to .*check free space"):
    write(tmp_path)
  assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made_is_a_usage_error(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UsageError, match="cannot make the folder"):
    write(tmp_path / "file" / "corpus")


def test_tags_file_round_trip(tmp_path):
  record_writer.write_tags(tmp_path, ["red apple", "dog"])
  assert records.read_tags(tmp_path) == ["red apple", "dog"]


def test_missing_tags_file_and_repeated_tags_are_refused(tmp_path):
  with pytest.raises(UsageError, match="tags.txt is missing"):
    records.read_tags(tmp_path)
  (tmp_path / "tags.txt").write_text("dog\ncat\ndog\n")
  with pytest.raises(XmcapError, match="line 3: class 'dog'"):
    records.read_tags(tmp_path)


def test_parse_of_invalid_bytes_is_a_value_error():
  with pytest.raises(ValueError, match="not a record"):
    records.parse(os.urandom(3) + b"\xff" * 20)


def test_parse_columns_equals_parse():
  columns = [parse_columns(records.serialize(record(number))) for number in range(2)]
  for number, found in enumerate(columns):
    expected = record(number)
    assert (found.key, found.image) == (expected.key, expected.image)
    assert [code.decode() for code in found.languages] == [caption.language for caption in expected.captions]
    assert [text.decode() for text in found.texts] == [caption.text for caption in expected.captions]
    assert [tag.decode() for tag in found.tags] == expected.tags
  assert columns[0].layout == columns[1].layout


@pytest.mark.parametrize("codes", [("en", "th"), ("th",), ("th", "en", "en"), ()])
def test_layout_depends_on_the_languages_of_captions(codes):
  other = Record("k", png(0), [Caption(code, "text") for code in codes])
  found, usual = (parse_columns(records.serialize(of)) for of in (other, record(0)))
  assert found.layout != usual.layout


def test_parse_columns_of_invalid_bytes_is_a_value_error():
  whole = records.serialize(record(0))
  for data in (b"\xff" * 20, whole[:-1], b"", whole.replace(b"image", b"imagf")):
    with pytest.raises(ValueError, match="not a record"):
      parse_columns(data)
