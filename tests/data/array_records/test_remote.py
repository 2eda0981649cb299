"""`RecordSource` of a bucket: the same records as of local files; retries, damage and one-line errors."""

import concurrent.futures
import pickle
import shutil

import fsspec
import gin
import numpy as np
import pytest

from tests import loopback_store
from tests.make.tiny_corpus import tiny_record
from xmcap import processes
from xmcap.data import record_writer, records
from xmcap.data.array_records import remote as remote_lib
from xmcap.data.records import RecordSource, parse_columns
from xmcap.errors import UsageError, XmcapError
from xmcap.files.object_store import Read
from xmcap.files.range_cache import RecordCache

LENGTHS = (30, 1, 39)
TOTAL = sum(LENGTHS)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
  """A corpus of three files."""
  folder = tmp_path_factory.mktemp("local")
  starts = np.cumsum([0, *LENGTHS[:-1]]).tolist()
  shards = [
    list(map(tiny_record, range(start, start + length)))
    for start, length in zip(starts, LENGTHS, strict=True)
  ]
  split = record_writer.write_split(folder, "train", shards, list, dataset="tiny", processes=1)
  record_writer.write_metadata(folder, [split], dataset="tiny")
  record_writer.write_tags(folder, ["dog", "cat", "owl"])
  return folder


@pytest.fixture
def remote(store, local):
  """The same corpus as a folder in a bucket; the folder that the store serves."""
  return shutil.copytree(local, store.folder / "tiny")


@pytest.fixture
def impatient():
  with gin.unlock_config():
    gin.parse_config(
      ["ObjectStore.seconds = 2", "ObjectStore.timeout_seconds = 0.3", "RecordCache.bytes = 0"]
    )


def reads(store) -> int:
  """How many records, indexes and ends of files were read."""
  return sum("array_record" in name for name, _ in store.requests)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_records_in_a_bucket_equal_local_records(store, remote, local, scheme):
  here, there = RecordSource(local), RecordSource(f"{scheme}://bucket/tiny")
  assert len(there) == TOTAL and list(there) == list(here)
  order = np.random.default_rng(0).permutation(TOTAL).tolist() + [3, 3, 0]
  assert there.read(order) == here.read(order)
  assert there.read(order, parse_columns)[5].texts == here.read(order, parse_columns)[5].texts
  part = RecordSource(f"{scheme}://bucket/tiny", "train[25:33]")
  assert [record.key for record in part] == [tiny_record(index).key for index in range(25, 33)]
  assert records.splits(f"{scheme}://bucket/tiny/") == ["train"]
  assert records.read_tags(f"{scheme}://bucket/tiny") == ["dog", "cat", "owl"]


def test_records_of_any_file_system_of_fsspec(local, monkeypatch, tmp_path):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  system = fsspec.filesystem("memory")
  system.pipe({f"/records/tiny/{path.name}": path.read_bytes() for path in local.iterdir()})
  try:
    assert list(RecordSource("memory://records/tiny")) == list(RecordSource(local))
  finally:
    system.rm("/records", recursive=True)


def test_remote_records_are_read_concurrently(store, remote, monkeypatch):
  monkeypatch.setattr(remote_lib, "_LONGEST", 0)
  store.latency = 0.3
  list(RecordSource("s3://bucket/tiny"))
  assert store.most_at_once > 20


def test_neighbouring_records_are_read_by_one_request(store, remote, local):
  """The records of three files in any order, of which one is cached."""
  here, there = RecordSource(local), RecordSource("s3://bucket/tiny")
  there[5]
  before = reads(store)
  order = np.random.default_rng(1).permutation(60).tolist() + [5, 7]
  assert there.read(order) == here.read(order)
  assert reads(store) == before + 2 * 2 + 3  # of two files the index and the end; and the records of each
  assert there.read(order) == here.read(order)
  assert reads(store) == before + 2 * 2 + 3


@pytest.mark.parametrize("gap, requests", [(-1, 5), (100, 3), (3_000, 2)])
def test_gap_between_joined_records_is_limited(store, remote, monkeypatch, gap, requests):
  """Of [0, 1], [3, 4] and [29], with records of 700 bytes."""
  monkeypatch.setattr(remote_lib, "GAP", gap)
  source = RecordSource("s3://bucket/tiny")
  source.read([10])
  before = reads(store)
  assert [record.key for record in source.read([4, 1, 29, 0, 3])] == [
    tiny_record(index).key for index in (4, 1, 29, 0, 3)
  ]
  assert reads(store) == before + requests


def test_damaged_record_of_a_joined_read_is_read_again_alone(store, remote, local, impatient):
  source = RecordSource("s3://bucket/tiny")
  source[0]
  before = reads(store)
  store.faults["00000-of-00003"].append(loopback_store.corrupted)
  assert source.read(range(3, 8)) == RecordSource(local).read(range(3, 8))
  assert reads(store) == before + 2


def test_threads_and_pickled_sources_read_the_same_records(store, remote):
  source = RecordSource("s3://bucket/tiny")
  copy = pickle.loads(pickle.dumps(source))
  orders = [np.random.default_rng(seed).permutation(TOTAL) for seed in range(4)]
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for order, found in zip(orders, pool.map(copy.read, orders), strict=True):
      assert [record.key for record in found] == [tiny_record(index).key for index in order]


def test_record_cache_is_reused_and_bounded(store, remote):
  with gin.unlock_config():
    gin.parse_config("RecordCache.bytes = 4_000_000")
  first = list(RecordSource("s3://bucket/tiny"))
  before = reads(store)
  assert list(RecordSource("s3://bucket/tiny")) == first
  assert reads(store) == before + len(LENGTHS)  # the checksums of the indexes
  assert 0 < RecordCache().open().disk_bytes() <= 4_000_000


def test_replaced_file_is_not_read_from_the_record_cache(store, remote, tmp_path):
  old = list(RecordSource("s3://bucket/tiny"))
  shards = [[tiny_record(99 - index) for index in range(length)] for length in LENGTHS]
  record_writer.write_split(remote, "train", shards, list, dataset="tiny", processes=1)
  new = list(RecordSource("s3://bucket/tiny"))
  assert new != old and new == list(RecordSource(remote))


def test_file_replaced_while_reading_is_reported(store, remote, impatient):
  source = RecordSource("s3://bucket/tiny")
  source[0]
  (file,) = remote.glob("*-00000-of-00003")
  file.write_bytes(file.read_bytes())
  assert source[1] == tiny_record(1)
  shards = [[tiny_record(index + 30) for index in range(length)] for length in LENGTHS]
  record_writer.write_split(remote, "train", shards, list, dataset="tiny", processes=1)
  with pytest.raises(
    XmcapError, match="00000-of-00003: record 2 is damaged, or another than when the file was indexed"
  ):
    source[2]


def test_range_index_of_another_file_is_refused(store, remote, impatient):
  (file,) = remote.glob("*-00000-of-00003")
  index = file.with_name(f"{file.name}.index")
  before = index.read_bytes()
  for shards in ([[tiny_record(0)] * 9] * 3, [list(map(tiny_record, range(31)))] * 3):
    record_writer.write_split(remote, "train", shards, list, dataset="tiny", processes=1)
    index.write_bytes(before)
    with pytest.raises(
      XmcapError, match=r"00000-of-00003.index does not fit its file .*: copy both again, or remove it"
    ):
      RecordSource("s3://bucket/tiny")[3]
  index.write_bytes(before[:-20])
  with pytest.raises(XmcapError, match=r"index does not fit its file \(its checksum does not match\)"):
    RecordSource("s3://bucket/tiny")[3]


def test_range_index_of_a_changed_file_of_equal_size_is_noticed(store, remote, impatient):
  (file,) = remote.glob("*-00000-of-00003")
  index = file.with_name(f"{file.name}.index")
  before = index.read_bytes()
  changed = [tiny_record(number) for number in range(30)]
  changed[4].captions[0].text = changed[4].captions[0].text.replace("dog", "cat")
  record_writer.write_split(remote, "train", [changed], list, dataset="other", processes=1)
  (remote / "other-train.array_record-00000-of-00001").rename(file)
  index.write_bytes(before)
  source = RecordSource("s3://bucket/tiny")
  assert source[3] == tiny_record(3)
  with pytest.raises(XmcapError, match="00000-of-00003: record 4 is damaged, or another"):
    source[4]


def test_bucket_corpus_without_indexes_names_the_command(store, remote, capsys):
  for index in remote.glob("*.index"):
    index.unlink()
  assert RecordSource(remote)[3] == tiny_record(3)
  with pytest.raises(
    UsageError, match="00000-of-00003.index is missing, .* with `xmcap data index s3://bucket/tiny`"
  ):
    RecordSource("s3://bucket/tiny")


@pytest.mark.parametrize(
  "fault", [loopback_store.unavailable, loopback_store.cut, loopback_store.slow(1), loopback_store.corrupted]
)
def test_remote_read_is_retried_after_a_fault(store, remote, impatient, fault):
  source = RecordSource("s3://bucket/tiny")
  source[0]
  before = reads(store)
  store.faults["00000-of-00003"].append(fault)
  assert source[7] == tiny_record(7)
  assert reads(store) == before + 2


def test_lasting_damage_of_a_remote_record_is_named(store, remote, impatient):
  source = RecordSource("s3://bucket/tiny")
  source[0]
  store.faults["00000-of-00003"] += [loopback_store.corrupted] * 2
  with pytest.raises(
    XmcapError, match=r"s3://bucket/tiny/.*00000-of-00003: record 7 is damaged, .* or build"
  ):
    source[7]


@pytest.mark.parametrize("end", [".index", "00000-of-00003"])
def test_damaged_read_of_an_index_is_retried_once(store, remote, impatient, end):
  store.faults[end].append(loopback_store.corrupted)
  assert RecordSource("s3://bucket/tiny")[7] == tiny_record(7)
  store.faults[end] += [loopback_store.corrupted] * 2
  with pytest.raises(XmcapError, match=r"00000-of-00003.index does not fit its file \("):
    RecordSource("s3://bucket/tiny")[7]


def test_truncated_remote_file_is_refused(store, remote, impatient):
  (file,) = remote.glob("*-00002-of-00003")
  whole = file.read_bytes()
  for cut in (whole[: -2 * (1 << 16)], b"short"):
    file.write_bytes(cut)
    with pytest.raises(XmcapError, match="00002-of-00003.index does not fit its file"):
      RecordSource("s3://bucket/tiny")[TOTAL - 1]


def test_missing_remote_corpus_split_and_file_are_named(store, remote, impatient):
  with pytest.raises(UsageError, match="s3://bucket/other is not a corpus"):
    RecordSource("s3://bucket/other")
  assert records.splits("s3://bucket/other") == []
  with pytest.raises(UsageError, match="s3://bucket/other/tags.txt is missing"):
    records.read_tags("s3://bucket/other")
  source = RecordSource("s3://bucket/tiny")
  (file,) = remote.glob("*-00001-of-00003")
  file.unlink()
  with pytest.raises(XmcapError, match="00001-of-00003 is missing"):
    source[30]
  with pytest.raises(XmcapError, match=r"00001-of-00003 is missing \(1 of 3 files\)"):
    RecordSource("s3://bucket/tiny")


def test_closed_iterator_cancels_pending_reads(store, remote, monkeypatch):
  cancelled = []
  monkeypatch.setattr(remote_lib, "_LONGEST", 0)
  monkeypatch.setattr(Read, "cancel", lambda read: cancelled.append(read))
  found = RecordSource("s3://bucket/tiny").iterate(range(20))
  next(found)
  found.close()
  assert len(cancelled) == 19


@pytest.mark.slow
def test_two_processes_share_a_record_cache(store, remote):
  source = RecordSource("s3://bucket/tiny")
  order = np.random.default_rng(0).permutation(TOTAL).tolist()
  with processes.pool(2) as pool:
    first, second = pool.map(source.read, [order[::step] for step in (1, -1)])
  assert first == second[::-1] == [tiny_record(index) for index in order]
  before = reads(store)
  assert source.read(order) == first
  assert reads(store) == before + len(LENGTHS)  # the checksums of the indexes
