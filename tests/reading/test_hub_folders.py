"""Data sets of the Hugging Face Hub on disk: downloads and the cache."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.make.refusals import refusal
from xmcap.reading import hub_folders
from xmcap.scoring import read_references


def _write(folder, names=("en-00000-of-00001", "th-00000-of-00002-0123456789abcdef", "th-00001-of-00002")):
  folder.mkdir(parents=True)
  for number, name in enumerate(names):
    rows = [{"image_id": f"k{number > 1:d}", "captions": [name[:2]]}]
    rows += [{"image_id": "k1", "captions": [name[:2]]}] if number == 0 else []
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
  return folder


_READ = {"k0": {"en": ["en"], "th": ["th"]}, "k1": {"en": ["en"], "th": ["th"]}}


def test_hub_download_folder_is_read_like_its_data_folder(tmp_path):
  data = _write(tmp_path / "mirror" / "data")
  for name in ("README.md", ".gitattributes", "dataset_infos.json"):
    (tmp_path / "mirror" / name).write_text("{}")
  (tmp_path / "mirror" / ".cache" / "huggingface").mkdir(parents=True)
  assert read_references(tmp_path / "mirror") == read_references(data) == _READ


def test_hub_cache_snapshot_symlinks_are_read(tmp_path):
  cache = tmp_path / "datasets--floschne--xm3600"
  blobs = _write(cache / "blobs")
  for revision in ("a1", "b2"):
    (cache / "snapshots" / revision / "data").mkdir(parents=True)
  for file in blobs.iterdir():
    (cache / "snapshots/b2/data" / file.name).symlink_to(f"../../../blobs/{file.name}")
  assert "snapshots: contains 2 revisions: give the folder of one" in refusal(read_references, cache)
  (cache / "refs").mkdir()
  (cache / "refs" / "main").write_text("b2")
  assert read_references(cache) == read_references(cache / "snapshots/b2") == _READ


def test_hub_folder_with_a_missing_parquet_shard_is_refused(tmp_path):
  _write(tmp_path / "data", ("en-00000-of-00001", "th-00000-of-00002"))
  assert "th-00000-of-00002.parquet: 1 of the 2 files of th are here" in refusal(read_references, tmp_path)


@pytest.mark.parametrize("names", [("train-00000-of-00001",), ("en", "train")])
def test_hub_tables_ignore_data_not_named_by_language(tmp_path, names):
  _write(tmp_path / "data", names)
  assert hub_folders.tables(tmp_path) == tmp_path
