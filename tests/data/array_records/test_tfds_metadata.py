"""TFDS's metadata, read and written as tensorflow-datasets 4.9.10 does it."""

import json
import pathlib

import pytest
from etils import epath

from tests import lazily
from xmcap.corpora import tfds_builders
from xmcap.corpora.releases import cc3m35l, coco35l, xm3600
from xmcap.data import record_writer
from xmcap.data.array_records import tfds_metadata
from xmcap.data.record_writer import WrittenSplit
from xmcap.errors import XmcapError

tfds = lazily.Module("tensorflow_datasets")

LENGTHS = {"train": (7, 0, 5, 11, 2), "validation": (3,), "train_mt": (1000, 999)}
SPLITS = [WrittenSplit(name, lengths, 100 * sum(lengths)) for name, lengths in LENGTHS.items()]


def write_by_tfds(folder, splits, *, dataset, version, **about):
  """What `record_writer.write_metadata` called before xmcap wrote the two files itself."""
  template = tfds.core.ShardedFileTemplate(
    data_dir=epath.Path(folder), dataset_name=dataset, filetype_suffix="array_record"
  )
  infos = []
  for split in splits:
    named = template.replace(split=split.name)
    lengths = list(split.shard_lengths)
    infos.append(
      tfds.core.SplitInfo(
        name=split.name, shard_lengths=lengths, num_bytes=split.num_bytes, filename_template=named
      )
    )
    pathlib.Path(folder, tfds_metadata.file_name(dataset, split.name, 0, len(lengths))).touch()
  tfds.folder_dataset.write_metadata(
    data_dir=folder,
    features=tfds_builders.features(),
    split_infos=infos,
    version=version,
    check_data=False,
    filename_template=template,
    **about,
  )


@pytest.fixture
def written(tmp_path):
  record_writer.write_metadata(tmp_path, SPLITS, dataset="toy")
  return tmp_path


@pytest.mark.parametrize("corpus", [coco35l.Coco35l, cc3m35l.Cc3m35l, xm3600.Xm3600])
def test_metadata_bytes_equal_tfds(tmp_path, corpus):
  about = {"version": corpus.VERSION, "description": corpus.DESCRIPTION, "homepage": corpus.HOMEPAGE}
  for name in ("ours", "theirs"):
    (tmp_path / name).mkdir()
  record_writer.write_metadata(tmp_path / "ours", SPLITS, dataset=corpus.NAME, **about)
  write_by_tfds(tmp_path / "theirs", SPLITS, dataset=corpus.NAME, **about)
  for name in ("dataset_info.json", "features.json"):
    assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def described(info):
  """What TFDS knows of the splits, as `Metadata` does."""
  return {
    name: tfds_metadata.TfdsSplit(
      tuple(pathlib.Path(path).name for path in split.filepaths), tuple(split.shard_lengths), split.num_bytes
    )
    for name, split in info.splits.items()
  }


def test_tfds_reads_the_written_metadata_alike(written):
  info, found = tfds.builder_from_directory(written).info, tfds_metadata.read(written)
  assert (found.name, found.splits) == (info.name, described(info)) and list(found.splits) == list(LENGTHS)
  assert found.splits["train"].files[1] == "toy-train.array_record-00001-of-00005"


@pytest.mark.parametrize(
  ("template", "shards"),
  [
    ("", 3),
    ("{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}", 3),
    ("{DATASET}_{SPLIT}-{SHARD_INDEX}-{NUM_SHARDS}.data", 3),
    ("a-{SHARD_X_OF_Y}-{SPLIT}", 100_001),  # the numbers have more than five digits
    ("{SHARD_INDEX}{SPLIT}", 3),
  ],
)
def test_names_of_files_follow_the_template(written, template, shards):
  path = written / "dataset_info.json"
  info = json.loads(path.read_text())
  info["splits"].append({"name": "many", "shardLengths": [1] * shards, "numBytes": 5})
  for split in info["splits"]:
    split["filepathTemplate"] = template
  if not template:
    del info["fileFormat"]  # then TFDS takes them for TFRecord files
  path.write_text(json.dumps(info))
  assert tfds_metadata.read(written).splits == described(tfds.builder_from_directory(written).info)


def parts_of_tfds(info, wanted):
  """TFDS's file instructions as (name of the file, skip, take)."""
  try:
    found = info.splits[wanted].file_instructions
  except (ValueError, AssertionError):
    return "refused"
  return [(pathlib.Path(part.filename).name, part.skip, part.take) for part in found]


def parts(found, wanted):
  try:
    return [
      (found.splits[part.split].files[part.shard], part.skip, part.count) for part in found.parts(wanted)
    ]
  except ValueError as error:
    return "backwards" if "before it begins" in str(error) else "refused"


_BOUNDS = ("", "0", "1", "7", "12", "24", "25", "26", "-1", "-3", "-25", "-26", "1_0")
_PERCENT = ("", "0%", "2%", "10%", "12.5%", "33.3%", "50%", "98%", "100%", "100.5%", "-10%", "-2.5%", "-100%")
_SHARDS = ("", "0shard", "1shard", "2shard", "4shard", "5shard", "9shard", "-1shard", "-2shard")


def test_parts_of_splits_are_those_of_tfds(written):
  info, found = tfds.builder_from_directory(written).info, tfds_metadata.read(written)
  selectors = [
    f"[{first}:{stop}]" for bounds in (_BOUNDS, _PERCENT, _SHARDS) for first in bounds for stop in bounds
  ]
  selectors += [
    "",
    "[3]",
    "[3%]",
    "[1shard]",
    "[-1shard]",
    "[]",
    "[:]",
    "[a]",
    "[1:2:3]",
    "[5:10%]",
    "[10%:5]",
  ]
  selectors += ["[1.5:]", "[%]", "[1.2.3%:]", "[:5", "5]", "[:5]x", "[ :5]"]
  wanted = [f"{split}{selector}" for split in LENGTHS for selector in selectors]
  wanted += ["train[:10%]+validation[1:]", "train + train_mt[-5:]", "train+other", "+train", "train+", ""]
  wanted += [
    "train[3:2]",
    "train+train",
    " train",
    "other",
    "train-mt[:3]",
    "train[:3]+train[20:]+validation",
  ]
  ours = {one: parts(found, one) for one in wanted}
  # TFDS takes more of the first file than the range holds: train[3:2] are records 3 to 6 of one of 7.
  forwards = {one: found for one, found in ours.items() if found != "backwards"}
  assert forwards == {one: parts_of_tfds(info, one) for one in forwards}
  assert len(forwards) > 1000 and sum(found == "refused" for found in forwards.values()) > 100
  assert ours["train[3:2]"] == "backwards" == ours["train[50%:10%]"]


def test_percentages_are_rounded_to_the_closest_record_as_by_tfds(tmp_path):
  for size in (1, 7, 99, 101, 112_821_180):
    splits = [WrittenSplit("train", (size // 2, size - size // 2), size)]
    record_writer.write_metadata(tmp_path, splits, dataset="toy")
    info, found = tfds.builder_from_directory(tmp_path).info, tfds_metadata.read(tmp_path)
    for percent in (0.5, 1, 7, 33, 49.5, 50, 66.67, 99, 99.99):
      one = f"train[{percent}%:]"
      assert parts(found, one) == parts_of_tfds(info, one), (size, one)


def test_split_range_with_two_units_is_refused(written):
  """TFDS takes both for the unit of the first."""
  with pytest.raises(ValueError, match=r"\[10%:2shard\] is not a range"):
    tfds_metadata.read(written).parts("train[10%:2shard]")


@pytest.mark.parametrize(
  ("change", "reason"),
  [
    ({"splits": [{"name": "train", "shardLengths": [-1]}]}, "fewer than 0 records"),
    ({"splits": [{"name": "train"}, {"name": "train"}]}, "occurs twice"),
    ({"splits": [{"name": ""}]}, "is no name"),
    (
      {"splits": [{"name": "train", "shardLengths": [1, 1], "filepathTemplate": "{SPLIT}"}]},
      "two files one name",
    ),
    ({"splits": [{"name": name, "shardLengths": [1], "filepathTemplate": "a"} for name in "ab"]}, "one name"),
    ({"splits": [{"name": "a", "shardLengths": [1], "filepathTemplate": "{SPLIT:>99999}"}]}, "is unknown"),
    ({"splits": [{"name": "a", "shardLengths": [1], "filepathTemplate": "{SPLIT.x}"}]}, "is unknown"),
    ({"splits": [{"name": "a", "shardLengths": [1e30]}]}, "shardLengths"),
    ({"splits": [{"name": "a", "numBytes": "many"}]}, "numBytes"),
    (
      {"splits": [{"name": "a", "shardLengths": [1], "filepathTemplate": "{FILEFORT}"}]},
      "Could not format template",
    ),
    ({"splits": 1}, ""),
    ("{", ""),
    ("[" * 100_000, ""),
    ("null", ""),
  ],
)
def test_damaged_metadata_is_one_line(written, change, reason):
  path = written / "dataset_info.json"
  path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
  with pytest.raises(XmcapError, match=f"^cannot read .*dataset_info.json: .*{reason}") as caught:
    tfds_metadata.read(written)
  assert "\n" not in str(caught.value)


def test_metadata_beyond_the_limit_are_refused(written):
  path = written / "dataset_info.json"
  path.write_text(path.read_text() + " " * (64 << 20))
  with pytest.raises(XmcapError, match="^cannot read .*dataset_info.json: over 64 MB$"):
    tfds_metadata.read(written)


def test_unknown_metadata_fields_are_ignored(written):
  path = written / "dataset_info.json"
  known = tfds_metadata.read(written)
  path.write_text(json.dumps(json.loads(path.read_text()) | {"somethingNew": [1], "checksums": {"a": "5"}}))
  assert tfds_metadata.read(written) == known
