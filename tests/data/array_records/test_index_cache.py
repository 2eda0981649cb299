"""The indexes that a host keeps of files in a bucket: read once, mapped, and dropped when they are others."""

import mmap
import pathlib
import shutil

import gin
import pytest

from tests import loopback_store
from tests.make.tiny_corpus import tiny_record, write_corpus
from xmcap.data.array_records import index_cache
from xmcap.data.records import RecordSource
from xmcap.errors import XmcapError
from xmcap.files import files, range_cache, whole_files

PICTURES = 12


@pytest.fixture
def remote(store):
  """A corpus of one file in a bucket; the folder that the store serves."""
  return pathlib.Path(write_corpus(store.folder / "tiny", [tiny_record(index) for index in range(PICTURES)]))


def opened(record: int = 0) -> index_cache.CachedIndex:
  """Reads a record of a source of its own, as a process of a host would; returns the index that it used."""
  source = RecordSource("s3://bucket/tiny")
  assert source[record] == tiny_record(record)
  return source._files._opened[0]


def index_reads(store) -> list[str]:
  """The ranges of the index that were read."""
  return [range_ for name, range_ in store.requests if name.endswith(".index")]


def kept() -> list:
  return sorted((range_cache.RecordCache().folder() / "indexes").iterdir())


def test_index_is_read_once_a_host_and_mapped(store, remote):
  first = opened()
  (path,), (original,) = kept(), remote.glob("*.index")
  assert path.read_bytes() == original.read_bytes() and len(index_reads(store)) == 1
  other = opened(3)
  assert other == first and other.in_memory is None
  size = path.stat().st_size
  assert index_reads(store)[1:] == [f"bytes={size - 4}-{size - 1}"]
  assert isinstance(other.open().rows.base.obj, mmap.mmap)


def test_damaged_kept_index_is_read_anew(store, remote):
  opened()
  (path,) = kept()
  whole = path.read_bytes()
  for damaged in (whole[:-4] + b"else", whole[:20], b""):
    path.write_bytes(damaged)
    assert opened(2).open().rows.shape == (PICTURES,)
    assert path.read_bytes() == whole


def test_an_index_replaced_in_the_bucket_is_read_anew(store, remote):
  old = opened()
  for path in remote.glob("*array_record*"):
    path.unlink()
  write_corpus(remote, [tiny_record(index) for index in range(PICTURES - 1)], train_vocabulary=False)
  new = opened()
  assert new.version != old.version and len(new.open().rows) == PICTURES - 1
  # A process that began with the old one still has it mapped, and no other afterwards.
  assert len(old.open().rows) == PICTURES
  index_cache._mapped.cache_clear()
  with pytest.raises(ValueError, match="another index took its place"):
    old.open()


def test_index_that_changes_during_a_run_ends_it(store, remote):
  source = RecordSource("s3://bucket/tiny")
  assert source[1] == tiny_record(1)
  for path in remote.glob("*array_record*"):
    path.unlink()
  write_corpus(remote, [tiny_record(index) for index in range(PICTURES - 1)], train_vocabulary=False)
  opened()
  index_cache._mapped.cache_clear()
  with pytest.raises(XmcapError, match=r"does not fit its file \(the index is another than at the start\)"):
    source[1]


def test_cache_removed_during_a_run_is_made_again(store, remote):
  source = RecordSource("s3://bucket/tiny")
  assert source[1] == tiny_record(1)
  shutil.rmtree(range_cache.RecordCache().folder() / "indexes")
  index_cache._mapped.cache_clear()
  assert source[2] == tiny_record(2) and len(kept()) == 1


@pytest.mark.parametrize("cache", [True, False])
def test_index_is_held_where_it_cannot_be_kept(store, remote, monkeypatch, cache):
  def full(path, data):
    raise whole_files.cannot_write(path, OSError(28, "No space left on device"))

  with gin.unlock_config():
    gin.parse_config("RecordCache.bytes = 1_000_000" if cache else "RecordCache.bytes = 0")
  monkeypatch.setattr(files, "write_bytes", full)
  assert len(opened(5).in_memory.rows) == PICTURES


def test_a_damaged_record_drops_the_kept_index(store, remote):
  opened()
  (file,) = remote.glob("*-00000-of-00001")
  store.faults[file.name] += [loopback_store.corrupted] * 2
  with gin.unlock_config():
    gin.parse_config("RecordCache.bytes = 1_000_000")
  with pytest.raises(XmcapError, match="record 7 is damaged"):
    RecordSource("s3://bucket/tiny")[7]
  assert kept() == []
