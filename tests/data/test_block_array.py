"""Arrays by blocks: of a file here, and of one in a bucket through the folder that the processes of a host share."""

import gin
import numpy as np
import pytest

from tests import loopback_store
from xmcap.data import block_array
from xmcap.data.block_array import BlockArray, sums_of
from xmcap.errors import XmcapError

ENDS = np.array([0, 10, 10, 25, 40, 41])
ARRAY = np.arange(1, 42, dtype=np.uint16)
SUMS = sums_of(ARRAY, ENDS)


@pytest.fixture
def remote(store, monkeypatch) -> str:
  np.save(store.folder / "array.npy", ARRAY)
  monkeypatch.setattr(block_array, "_GAP", 0)
  return "gs://bucket/array.npy"


def opened(address, version="1") -> BlockArray:
  return BlockArray(str(address), ARRAY.dtype, ENDS, SUMS, version)


def ranges(store) -> list[str]:
  """The ranges that were read so far, those of a call in any order."""
  return [range_ for name, range_ in store.requests if name.endswith("array.npy")]


def test_sums_are_crc32c():
  # The check value of the catalogue of CRCs.
  assert sums_of(np.frombuffer(b"123456789", np.uint8), np.array([0, 9])) == [0xE3069283]


def test_only_the_needed_blocks_are_read_from_a_bucket(store, remote):
  array = opened(remote)
  array.need(np.array([0, 1, 3]))
  assert sorted(ranges(store)) == ["bytes=128-147", "bytes=178-207"]
  np.testing.assert_array_equal(array.array[:10], ARRAY[:10])
  np.testing.assert_array_equal(array.array[25:40], ARRAY[25:40])
  assert not array.array[10:25].any()
  array.need(np.arange(5))
  assert sorted(ranges(store)[2:]) == ["bytes=148-177", "bytes=208-209"]
  np.testing.assert_array_equal(array.array, ARRAY)


def test_processes_of_a_host_share_the_blocks(store, remote):
  opened(remote).need(np.arange(5))
  assert ranges(store) == ["bytes=128-209"]
  other = opened(remote)
  other.need(np.arange(5))
  assert len(ranges(store)) == 1
  np.testing.assert_array_equal(other.array, ARRAY)
  opened(remote, version="2").need(np.arange(5))
  assert len(ranges(store)) == 2


def test_neighbouring_blocks_are_read_together(store, remote, monkeypatch):
  monkeypatch.setattr(block_array, "_GAP", 30)
  opened(remote).need(np.array([0, 3]))
  assert ranges(store) == ["bytes=128-207"]
  monkeypatch.setattr(block_array, "_MOST_READ", 60)
  opened(remote, version="2").need(np.arange(5))
  assert sorted(ranges(store)[1:]) == ["bytes=128-177", "bytes=178-209"]


def test_a_block_left_unfinished_is_read_again(store, remote):
  opened(remote).need(np.arange(5))
  array = opened(remote)
  array._file.seek(30)
  array._file.write(b"\0\0")
  array.need(np.arange(5))
  assert ranges(store)[1:] == ["bytes=148-177"]
  np.testing.assert_array_equal(array.array, ARRAY)


def test_a_range_damaged_in_transit_is_read_again_once(store, remote):
  store.faults["array.npy"].append(loopback_store.corrupted)
  array = opened(remote)
  array.need(np.arange(5))
  np.testing.assert_array_equal(array.array, ARRAY)
  store.faults["array.npy"] += [loopback_store.corrupted] * 2
  with pytest.raises(ValueError, match=r"block 2 of array.npy does not match its checksum"):
    opened(remote, version="2").need(np.array([2]))


def test_without_a_cache_blocks_are_in_memory(store, remote):
  with gin.unlock_config():
    gin.parse_config("RecordCache.bytes = 0")
  array = opened(remote)
  array.need(np.arange(5))
  np.testing.assert_array_equal(array.array, ARRAY)
  assert not isinstance(array.array, np.memmap)


def test_a_full_disk_is_one_line(store, remote, monkeypatch):
  array = opened(remote)
  monkeypatch.setattr(block_array.os, "pwrite", lambda *_: 7)
  with pytest.raises(XmcapError, match="cannot write .*: No space left on device: the disk .* is full"):
    array.need(np.arange(5))


def test_a_local_file_is_mapped_and_verified(tmp_path):
  np.save(tmp_path / "array.npy", ARRAY)
  array = opened(tmp_path / "array.npy")
  array.need(np.arange(5))
  assert isinstance(array.array, np.memmap)
  damaged = ARRAY.copy()
  damaged[12] ^= 1
  np.save(tmp_path / "array.npy", damaged)
  array = opened(tmp_path / "array.npy")
  array.need(np.array([0, 1, 3, 4]))
  with pytest.raises(ValueError, match="block 2 of array.npy does not match its checksum"):
    array.need(np.array([2]))
