"""`RangeCache`: round trips, size limit, eviction, sharing among processes, and damage."""

import concurrent.futures
import shutil
import time
from types import SimpleNamespace

import gin
import numpy as np
import pytest

from xmcap import processes
from xmcap.errors import UsageError, XmcapError
from xmcap.files import range_cache
from xmcap.files.range_cache import RangeCache, RecordCache

SIZE = 1 << 20


def key(number: int) -> bytes:
  return range_cache.key("file", number)


def data(number: int, size: int = 3_000) -> bytes:
  return np.random.default_rng(number).bytes(size)


def fill(cache: RangeCache, numbers) -> None:
  for number in numbers:
    cache.put(key(number), data(number))


def held(cache: RangeCache, numbers) -> list[int]:
  """The numbers that the cache has; asserts that what it gives is right."""
  found = {number: cache.get(key(number)) for number in numbers}
  assert all(value == data(number) for number, value in found.items() if value is not None)
  return [number for number, value in found.items() if value is not None]


def test_range_cache_round_trip(tmp_path):
  cache = RangeCache(tmp_path, SIZE)
  fill(cache, range(20))
  assert held(cache, range(25)) == list(range(20))


def test_range_cache_stays_within_its_limit(tmp_path):
  cache = RangeCache(tmp_path, SIZE)
  fill(cache, range(500))
  assert SIZE / 2 < cache.disk_bytes() <= SIZE
  kept = held(cache, range(500))
  assert kept == list(range(len(kept))) and len(kept) > 200
  assert sum(file.stat().st_blocks * 512 for file in tmp_path.iterdir()) <= SIZE + (8 << 20)


def test_range_cache_evicts_idle_ranges(tmp_path, monkeypatch):
  cache = RangeCache(tmp_path, SIZE, idle=100)
  fill(cache, range(500))
  began = time.time()
  monkeypatch.setattr(range_cache.time, "time", lambda: began + 200)
  assert held(cache, [0, 7]) == [0, 7]
  cache._full_until = 0
  fill(cache, range(1000, 1500))
  assert held(RangeCache(tmp_path, SIZE), range(500)) == [0, 7]
  assert len(held(cache, range(1000, 1500))) > 200
  assert cache.disk_bytes() <= SIZE


def test_range_cache_shrinks_to_a_smaller_limit_at_once(tmp_path):
  fill(RangeCache(tmp_path, SIZE), range(500))
  assert RangeCache(tmp_path, SIZE // 2).disk_bytes() <= SIZE // 2


def test_a_range_larger_than_the_cache_is_left_out(tmp_path):
  cache = RangeCache(tmp_path, SIZE)
  cache.put(key(0), bytes(2 * SIZE))
  assert cache.get(key(0)) is None and cache.disk_bytes() <= SIZE


def test_range_cache_put_replaces_a_damaged_range(tmp_path):
  cache = RangeCache(tmp_path, SIZE)
  cache.put(key(4), b"damaged")
  cache.put(key(4), data(4))
  assert held(cache, range(10)) == [4]


def test_damaged_range_cache_is_discarded(tmp_path):
  cache = RangeCache(tmp_path, SIZE)
  fill(cache, range(100))
  cache._database.close()
  path = tmp_path / "ranges.sqlite"
  with open(path, "r+b") as file:
    file.seek(100_000)
    file.write(b"damage" * 10_000)
  again = RangeCache(tmp_path, SIZE)
  for number in range(100):
    again.get(key(number))
    again.put(key(number), data(number))
  other = tmp_path / "other"
  other.mkdir()
  (other / "ranges.sqlite").write_bytes(b"no database at all" * 1_000)
  with pytest.raises(XmcapError, match="the cache of records cannot be written .*remove it"):
    RangeCache(other, SIZE)


def _work(folder: str, process: int) -> int:
  cache = RangeCache(folder, SIZE)
  numbers = np.random.default_rng(process).permutation(300).tolist()
  found = 0
  for number in numbers:
    value = cache.get(key(number))
    assert value is None or value == data(number)
    found += value is not None
    cache.put(key(number), data(number))
    assert cache.disk_bytes() <= SIZE
  return found


def test_processes_share_a_range_cache(tmp_path):
  with processes.pool(2) as pool:
    assert sum(pool.map(_work, [str(tmp_path)] * 2, (1, 2))) > 0
  cache = RangeCache(tmp_path, SIZE)
  assert len(held(cache, range(300))) > 200 and cache.disk_bytes() <= SIZE


def test_threads_share_a_range_cache(tmp_path):
  cache = RangeCache(tmp_path, SIZE)

  def work(thread: int) -> None:
    for number in np.random.default_rng(thread).permutation(200).tolist():
      assert cache.get(key(number)) in (None, data(number))
      cache.put(key(number), data(number))

  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    list(pool.map(work, range(8)))
  assert held(cache, range(200)) == list(range(200))


def test_gin_sets_record_cache_directory_and_size(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  assert RecordCache().open().directory == tmp_path / "xmcap" / "records"
  with gin.unlock_config():
    gin.parse_config([f"RecordCache.directory = '{tmp_path}/other'", "RecordCache.bytes = 5_000_000"])
  cache = RecordCache().open()
  assert cache.directory == tmp_path / "other" and cache.size == 5_000_000
  assert RecordCache().open() is cache
  assert RecordCache(bytes=0).open() is None


@pytest.mark.parametrize(
  "free, size, said",
  [
    (40, 19_209_712_000, "up to 19.2 GB, all"),  # COCO-35L on the boot disk of a TPU VM
    (28, 8 << 30, "up to 8.6 GB, some of 19.2 GB"),
  ],
)
def test_record_cache_is_as_large_as_the_corpora_if_the_disk_has_room(
  monkeypatch, tmp_path, free, size, said
):
  monkeypatch.setattr(range_cache, "_expected", {})
  monkeypatch.setattr(
    shutil, "disk_usage", lambda folder: SimpleNamespace(total=100 * 10**9, free=free * 10**9)
  )
  cache = RecordCache(directory=str(tmp_path / "new" / "cache"))
  range_cache.expect("gs://bucket/coco35l", 113_000, 18_000_000_000)
  range_cache.expect("gs://bucket/other", 2_000, 503_152_000)
  assert cache.open().size == size
  assert cache.describe() == f"records from the bucket are cached in {tmp_path}/new/cache: {said}"


def test_record_cache_of_another_run_is_not_emptied(monkeypatch, tmp_path):
  monkeypatch.setattr(range_cache, "_expected", {})
  monkeypatch.setattr(range_cache, "_LEAST", SIZE // 2)
  fill(RangeCache(tmp_path, SIZE), range(500))
  assert len(held(RecordCache(directory=str(tmp_path)).open(), range(500))) > 200


def test_invalid_range_cache_settings_are_refused(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(XmcapError, match="cannot be written .*set RecordCache.directory"):
    RangeCache(tmp_path / "file", SIZE)
  with pytest.raises(UsageError, match="at least 0"):
    RecordCache(bytes=-1)
