"""The TFDS builders give the records of the release, without Beam and with it."""

import json

import pytest

from tests import lazily
from tests.corpora import release_folders as releases
from xmcap.corpora import tfds_builders
from xmcap.data import images, records
from xmcap.errors import UsageError, XmcapError

tfds = lazily.Module("tensorflow_datasets")

FAULTS = ("html", "gif", "missing", "cut_line", "duplicate_line", "unknown_id")


def write(name: str, folder) -> releases.Release:
  if name == "coco_35l":
    return releases.write_coco35l(
      folder, languages=("de", "th", "zh"), layout="zip", order="shuffled", faults=(*FAULTS, "unsafe_path")
    )
  if name == "cc3m_35l":
    return releases.write_cc3m35l(folder, languages=releases.TRANSLATED, faults=(*FAULTS, "dead_url"))
  return releases.write_xm3600(folder, faults=("html", "gif", "missing", "cut_line", "unsafe_path"))


def build(
  release: releases.Release, name: str, data_dir, options=None, **config
) -> "tfds.core.DatasetBuilder":
  config_of = tfds_builders.RecordsConfig(name="test", shard_pictures=5, **options or {})
  builder = {
    "coco_35l": tfds_builders.Coco35l, "cc3m_35l": tfds_builders.Cc3m35l, "xm3600": tfds_builders.Xm3600
  }[name](data_dir=data_dir, config=config_of)  # fmt: skip
  download = tfds.download.DownloadConfig(manual_dir=release.folder, **config)
  builder.download_and_prepare(download_config=download)
  return builder


def check(builder, release, data_dir, capsys) -> None:
  folder = builder.data_dir
  assert release.differences(folder) == []
  with open(f"{folder}/problems.jsonl", encoding="utf-8") as file:
    kinds = [json.loads(line)["kind"] for line in file]
  assert {kind: kinds.count(kind) for kind in set(kinds)} == release.problems
  said = capsys.readouterr().err
  assert all(f"  {kind}: " in said for kind in release.problems)
  assert not list(data_dir.glob(".*")), "what lies between is left behind"


@pytest.mark.parametrize("name", ["coco_35l", "cc3m_35l", "xm3600"])
def test_tfds_builder_gives_records_in_order(name, tmp_path, capsys):
  release = write(name, tmp_path / "release")
  builder = build(release, name, tmp_path / "data")
  check(builder, release, tmp_path / "data", capsys)


@pytest.mark.parametrize("name", ["coco_35l", "cc3m_35l", "xm3600"])
def test_tfds_builder_with_beam_gives_the_same_records(name, tmp_path, capsys):
  pytest.importorskip("apache_beam", reason="Apache Beam is not installed (the extra beam)")
  release = write(name, tmp_path / "release")
  builder = build(release, name, tmp_path / "data", beam_runner="DirectRunner")
  check(builder, release, tmp_path / "data", capsys)


def test_tfds_reads_the_built_records(tmp_path):
  release = write("xm3600", tmp_path / "release")
  builder = build(release, "xm3600", tmp_path / "data")
  expected = next(iter(release.expected["test"].items()))
  example = builder.as_data_source("test")[0]
  assert example["image/key"].decode() == expected[0]
  assert [text.decode() for text in example["captions"]["text"]] == [one.text for one in expected[1].captions]
  assert example["image"].shape[2] == 3
  assert builder.info.homepage == "https://google.github.io/crossmodal-3600/"
  with pytest.raises(NotImplementedError, match="as_data_source"):
    builder.as_dataset(split="test")


def test_tfds_builder_names_a_missing_release_part(tmp_path):
  release = write("coco_35l", tmp_path / "release")
  release.paths["karpathy"].unlink()
  with pytest.raises(UsageError, match="dataset_coco.json"):
    build(release, "coco_35l", tmp_path / "data")


def test_tfds_builder_uses_config_options(tmp_path):
  release = releases.write_xm3600(tmp_path / "release", images=4)
  folder = build(release, "xm3600", tmp_path / "data", {"image_size": 24}).data_dir
  sizes = [images.decode(record.image, "").shape[:2] for record in records.RecordSource(folder, "test")]
  assert len(sizes) == 4 and {min(size) for size in sizes} == {24}
  release = releases.write_xm3600(tmp_path / "faulty", images=4, faults=("html",))
  with pytest.raises(XmcapError, match="not_a_picture"):
    build(release, "xm3600", tmp_path / "other", {"on_bad": "stop"})
