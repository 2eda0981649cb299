"""The layout of ArrayRecord files against those that ArrayRecord's own writer makes."""

import numpy as np
import pytest
from array_record.python import array_record_module

from xmcap.data.array_records import layout as array_record_format
from xmcap.data.array_records.highway_hash import highway_hash

BLOCK = array_record_format.BLOCK
# Sizes around every remainder of the hash, and around what fills one block or several.
SIZES = [*range(70), *range(BLOCK - 160, BLOCK + 40, 3), 3 * BLOCK, *[1_000] * 60]


def written(path, records, options="group_size:1,uncompressed") -> bytes:
  writer = array_record_module.ArrayRecordWriter(str(path), options)
  for record in records:
    writer.write(record)
  writer.close()
  return path.read_bytes()


def offsets_of(data: bytes) -> np.ndarray:
  start = array_record_format.footer_offset(data[-BLOCK:])
  return array_record_format.chunk_offsets(data[start:], start)


def test_records_of_all_sizes_are_read_by_their_ranges(tmp_path):
  random = np.random.default_rng(0)
  records = [random.bytes(size) for size in SIZES]
  data = written(tmp_path / "file", records)
  offsets = offsets_of(data)
  found = [
    array_record_format.record(data[start:stop], int(start))
    for start, stop in zip(offsets, offsets[1:], strict=False)
  ]
  assert found == records


def test_each_bit_is_held_against_the_hashes(tmp_path):
  data = written(tmp_path / "file", [b"some bytes of a record"] * 3)
  start, stop = offsets_of(data)[1:3].tolist()
  for place in range(start, stop):
    damaged = bytearray(data)
    damaged[place] ^= 16
    with pytest.raises(ValueError, match="hash"):
      array_record_format.record(damaged[start:stop], start)


def test_what_is_cut_short(tmp_path):
  data = written(tmp_path / "file", [b"a record"] * 3)
  start, stop = offsets_of(data)[:2].tolist()
  for end in (start + 10, stop - 5):
    with pytest.raises(ValueError, match="ends within"):
      array_record_format.record(data[start:end], start)
  for cut in (data[: len(data) // 2], data[: 2 * BLOCK - 7]):
    with pytest.raises(ValueError):
      array_record_format.footer_offset(cut[-BLOCK:])
  with pytest.raises(ValueError, match="at least 65536 bytes"):
    array_record_format.footer_offset(b"short")


@pytest.mark.parametrize(
  "options, message",
  [("group_size:2,uncompressed", "several records share a chunk"), ("group_size:1,zstd", "compressed")],
)
def test_files_of_another_kind_are_refused(tmp_path, options, message):
  data = written(tmp_path / "file", [b"a record " * 100] * 4, options)
  with pytest.raises(ValueError, match=message):
    start, stop = offsets_of(data)[:2].tolist()
    array_record_format.record(data[start:stop], start)


def test_the_hash_of_the_signature_that_begins_every_file(tmp_path):
  # Riegeli's file format prints these bytes: hashes of 16, of 32 and of no bytes.
  data = bytearray(written(tmp_path / "file", [b"a"])[:64])
  key = np.frombuffer(bytearray(b"Riegeli/records\nRiegeli/records\n"), np.uint64)
  pieces = {0x3F4A880DD170AF83: data[8:24], 0xA9E187923CC2BA91: data[32:64]}
  for value, piece in pieces.items():
    assert highway_hash(np.frombuffer(piece, np.uint8), key) == value
  assert highway_hash(np.empty(0, np.uint8), key) == 0x72C3B1E9C0139FE1
