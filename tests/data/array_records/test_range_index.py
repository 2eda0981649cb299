"""The index of a file of records, against files that ArrayRecord's own writer makes."""

import numpy as np
import pytest
from array_record.python import array_record_module

from xmcap.data.array_records import range_index
from xmcap.data.array_records.range_index import RangeIndex
from xmcap.errors import XmcapError

BLOCK = 1 << 16
# Sizes around those that take one byte more, and around what fills one block or several.
SIZES = [
  *range(70),
  *range(120, 135),
  16_383,
  16_384,
  *range(BLOCK - 160, BLOCK + 40, 3),
  3 * BLOCK,
  *[1_000] * 60,
]


def written(path, records, options="group_size:1,uncompressed"):
  writer = array_record_module.ArrayRecordWriter(str(path), options)
  for record in records:
    writer.write(record)
  writer.close()
  return path


@pytest.fixture
def three(tmp_path):
  return written(tmp_path / "file", [b"some bytes of a record", b"others", b"more"])


def test_records_of_all_sizes_are_read_by_their_ranges(tmp_path):
  random = np.random.default_rng(0)
  records = [random.bytes(size) for size in SIZES]
  path = written(tmp_path / "file", records)
  data = path.read_bytes()
  index = RangeIndex.from_bytes(RangeIndex.of_file(path).to_bytes())
  ranges = [slice(*index.range_of(position)) for position in range(len(records))]
  assert [index.record(position, data[part]) for position, part in enumerate(ranges)] == records
  assert index.size == len(data) and index.rows["length"].tolist() == SIZES
  index.check_end(data[slice(*index.end)])


def test_the_checksums_are_crc32c(tmp_path):
  # RFC 3720, B.4, and the check value of the catalogue of CRCs.
  records = [bytes(32), b"\xff" * 32, bytes(range(32)), b"123456789"]
  index = RangeIndex.of_file(written(tmp_path / "file", records))
  assert index.rows["crc32c"].tolist() == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0xE3069283]


def test_each_bit_of_a_record_is_held_against_its_checksum(three):
  index, data = RangeIndex.of_file(three), three.read_bytes()
  start, stop = index.range_of(0)
  for place in range(start, stop):
    damaged = bytearray(data)
    damaged[place] ^= 16
    with pytest.raises(ValueError, match="checksum"):
      index.record(0, bytes(damaged[start:stop]))
  for cut in (data[start : stop - 1], b""):
    with pytest.raises(ValueError, match="checksum"):
      index.record(0, cut)


def test_each_byte_of_an_index_is_held_against_its_checksum(three):
  data = RangeIndex.of_file(three).to_bytes()
  for place in range(len(data)):
    damaged = bytearray(data)
    damaged[place] ^= 16
    with pytest.raises(ValueError, match="checksum"):
      RangeIndex.from_bytes(bytes(damaged))
  for cut in (b"", data[:10], data[:-16], data + b"more"):
    with pytest.raises(ValueError, match="checksum"):
      RangeIndex.from_bytes(cut)


@pytest.mark.parametrize(
  "change",
  [
    lambda index: index.rows["offset"].__setitem__(1, 1 << 62),
    lambda index: index.rows["offset"].__setitem__(1, -9),
    lambda index: index.rows["length"].__setitem__(1, 0xFFFFFFFF),
    lambda index: object.__setattr__(index, "size", -1),
  ],
)
def test_a_range_outside_the_file_is_refused(three, change):
  index = RangeIndex.of_file(three)
  change(index)
  with pytest.raises(ValueError, match="outside its file"):
    RangeIndex.from_bytes(index.to_bytes())


def test_range_index_of_another_version_is_refused(three, monkeypatch):
  monkeypatch.setattr(range_index, "_KIND", b"xmcapix9")
  data = RangeIndex.of_file(three).to_bytes()
  monkeypatch.undo()
  with pytest.raises(ValueError, match="it is no index of records"):
    RangeIndex.from_bytes(data)


def test_check_end_refuses_a_file_of_another_size(tmp_path):
  index = RangeIndex.of_file(written(tmp_path / "file", [b"a"] * 100_000))
  for count in (50_000, 99_999, 200_000):
    other = written(tmp_path / "other", [b"a"] * count).read_bytes()
    with pytest.raises(ValueError, match="another"):
      index.check_end(other[slice(*index.end)])


@pytest.mark.parametrize("options", ["group_size:2,uncompressed", "group_size:1", "group_size:1,snappy"])
def test_compressed_or_grouped_array_records_are_not_indexed(tmp_path, options):
  path = written(tmp_path / "file", [b"a record " * 100] * 4, options)
  with pytest.raises(
    XmcapError, match=r"file cannot be indexed \(its records are compressed, or share chunks\)"
  ):
    range_index.write(str(path))
  assert not path.with_name("file.index").exists()


def test_a_damaged_file_is_not_indexed(three):
  data = bytearray(three.read_bytes())
  data[100] ^= 1
  three.write_bytes(data)
  with pytest.raises(
    XmcapError, match=r"file cannot be indexed \(.*hash mismatch.*\): build the corpus again"
  ):
    range_index.write(str(three))
  assert not range_index.is_wrong(str(three))


def test_write_absent_keeps_existing_range_indexes(tmp_path):
  paths = [str(written(tmp_path / name, [name.encode()])) for name in ("one", "two", "three")]
  range_index.write(paths[1])
  said = []
  assert range_index.write_absent(paths, processes=1, say=said.append) == 2
  assert said[-1] == "files of records indexed: 2 of 2"
  assert range_index.write_absent(paths) == 0
  assert not any(map(range_index.is_wrong, paths))
  (tmp_path / "two.index").write_bytes((tmp_path / "one.index").read_bytes())
  assert list(map(range_index.is_wrong, paths)) == [False, True, False]


def test_is_wrong_is_false_without_a_range_index(three):
  assert not range_index.is_wrong(str(three))
