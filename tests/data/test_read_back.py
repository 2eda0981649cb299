"""Files of records are read back after writing: damaged ones are named, and written again by a resumed build."""

import functools
import os
import pathlib

import pytest

from tests.data import test_records
from xmcap.data import record_writer, records
from xmcap.errors import XmcapError


def _records(count, shard):
  image = test_records.png(7)
  return [
    records.Record(f"{shard}-{number}", image, [records.Caption("en", "a dog")]) for number in range(count)
  ]


def _write(out, count=5, **options):
  return record_writer.write_split(
    out, "train", [0, 1], functools.partial(_records, count), dataset="some", processes=1, **options
  )


def _spoiling(monkeypatch, spoil):
  """Lets a file be spoiled between its renaming and its reading."""
  replace = os.replace

  def replaced(source, target):
    replace(source, target)
    if str(target).endswith("00001-of-00002"):
      spoil(pathlib.Path(target))

  monkeypatch.setattr(os, "replace", replaced)


def _flip(path):
  data = bytearray(path.read_bytes())
  data[len(data) // 3] ^= 1
  path.write_bytes(data)


def _lose(path):
  """Another writer's file, which lacks records."""
  writer = record_writer.array_record_module.ArrayRecordWriter(str(path), "group_size:1,uncompressed")
  writer.write(b"one")
  writer.close()


@pytest.mark.parametrize(
  ("spoil", "words"),
  [
    (_flip, "hash mismatch"),
    (_lose, r"cannot be read back \(another file, of 1 records and 3 bytes\)"),
    (lambda path: path.write_bytes(path.read_bytes()[:70_000]), "read back"),
  ],
)
def test_write_split_names_a_file_that_reads_back_differently(tmp_path, monkeypatch, spoil, words):
  _spoiling(monkeypatch, spoil)
  with pytest.raises(XmcapError, match=words) as raised:
    _write(tmp_path / "out", 500)
  assert "some-train.array_record-00001-of-00002: 500 records (" in str(raised.value)
  assert "then build again" in str(raised.value)


def test_resumed_build_rewrites_a_damaged_shard(tmp_path):
  marks = tmp_path / "marks"
  marks.mkdir()
  _write(tmp_path / "out", 500, finished=marks)
  files = sorted((tmp_path / "out").glob("some-*"))
  paths = [path for path in files if path.suffix != ".index"]
  whole = [path.read_bytes() for path in files]
  kept = paths[0].stat().st_mtime_ns
  _flip(paths[1])
  files[1].unlink()
  assert _write(tmp_path / "out", 500, finished=marks).shard_lengths == (500, 500)
  assert [path.read_bytes() for path in files] == whole
  assert paths[0].stat().st_mtime_ns == kept


def test_empty_shard_is_allowed(tmp_path):
  written = record_writer.write_split(
    tmp_path, "train", [0, 1], lambda shard: _records(3 * shard, shard), dataset="some", processes=1
  )
  record_writer.write_metadata(tmp_path, [written], dataset="some")
  assert written.shard_lengths == (0, 3)
