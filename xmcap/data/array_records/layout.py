"""Parses as much of the ArrayRecord format as is needed to read a record by its byte range.

ArrayRecord's own reader only opens local files. A file is a sequence of chunks, interrupted by a header at each block
of 64 KiB (https://github.com/google/riegeli, doc/riegeli_records_file_format.md). The last block has the postscript
with the offset of the footer, and the footer has the offset of each record's chunk
(https://github.com/google/array_record, cpp/layout.proto). Only files of `xmcap data build` are supported: one
uncompressed record per chunk. The hashes of a chunk's header and data are verified.
"""

import struct

import numpy as np

from xmcap.data import messages
from xmcap.data.array_records.highway_hash import highway_hash

BLOCK = 1 << 16
"""Size in bytes of a block, and of the file's tail that `footer_offset` takes."""

_BLOCK_HEADER = 24
_CHUNK_HEADER = struct.Struct("<5Q")
_KEY = np.frombuffer(bytearray(b"Riegeli/records\nRiegeli/records\n"), np.uint64)
_MAGIC = 0x71930E704FDAE05E
_VERSION = 1
_MESSAGES = messages.define("""
name: "xmcap/array_record.proto" package: "array_record" syntax: "proto3"
message_type {
  name: "Postscript"
  field { name: "footer_offset" number: 1 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "magic" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL }
}
message_type {
  name: "Metadata"
  field { name: "version" number: 1 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "num_chunks" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL }
}
message_type {
  name: "FooterMetadata"
  field { name: "array_record" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".array_record.Metadata" }
}
message_type {
  name: "Footer"
  field { name: "chunk_offset" number: 1 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "num_records" number: 3 type: TYPE_UINT64 label: LABEL_OPTIONAL }
}
""")


def footer_offset(tail: bytes) -> int:
  """Returns the offset of a file's footer; `tail` is its last `BLOCK` bytes. ValueError if it is not an ArrayRecord."""
  if len(tail) != BLOCK:
    raise ValueError(f"an ArrayRecord file has at least {BLOCK} bytes, not {len(tail)}")
  postscript = _MESSAGES["array_record.Postscript"].FromString(_chunk(tail, 0)[0])
  if postscript.magic != _MAGIC:
    raise ValueError("it does not end like an ArrayRecord file")
  return postscript.footer_offset


def chunk_offsets(data: bytes, offset: int) -> np.ndarray:
  """Returns int64 [records + 1]: the offsets of the records' chunks, and the end of the last one.

  `data` is the file from the footer on, which is at `offset`. ValueError if the footer is damaged.
  """
  metadata, *footers = _chunk(data, offset)
  held = _MESSAGES["array_record.FooterMetadata"].FromString(metadata).array_record
  footers = [_MESSAGES["array_record.Footer"].FromString(footer) for footer in footers]
  if held.version != _VERSION or held.num_chunks != len(footers):
    raise ValueError(
      f"its footer is of version {held.version} with {len(footers)} of {held.num_chunks} chunks"
    )
  if any(footer.num_records != 1 for footer in footers):
    raise ValueError("several records share a chunk, which cannot be read by ranges")
  offsets = np.array([*(footer.chunk_offset for footer in footers), offset], np.int64)
  if (np.diff(offsets) <= 0).any():
    raise ValueError("its footer names chunks out of order")
  return offsets


def record(data: bytes, offset: int) -> bytes:
  """Returns the record of a chunk; `data` starts at `offset` of the file. ValueError if any byte is damaged."""
  (found,) = _chunk(data, offset)
  return found


def _chunk(data: bytes, offset: int) -> list[bytes]:
  """Returns the records of the chunk at the start of `data`, which is at `offset` of the file."""
  plain = _without_block_headers(data, offset)
  if len(plain) < _CHUNK_HEADER.size:
    raise ValueError("it ends within a chunk's header")
  header_hash, size, data_hash, kind, decoded_size = _CHUNK_HEADER.unpack_from(plain)
  if header_hash != _hash(plain[8 : _CHUNK_HEADER.size]):
    raise ValueError("the hash of a chunk's header does not match")
  chunk = plain[_CHUNK_HEADER.size : _CHUNK_HEADER.size + size]
  if len(chunk) < size:
    raise ValueError("it ends within a chunk")
  if data_hash != _hash(chunk):
    raise ValueError("the hash of a chunk does not match")
  if kind & 0xFF != ord("r") or chunk[0] != 0:
    raise ValueError("its records are compressed, which cannot be read by ranges")
  sizes_size, start = _varint(chunk, 1)
  values = start + sizes_size
  records = []
  at = start
  for _ in range(kind >> 8):
    length, at = _varint(chunk, at)
    records.append(bytes(chunk[values : values + length]))
    values += length
  if at != start + sizes_size or values != len(chunk) or values - at != decoded_size:
    raise ValueError("the sizes of a chunk's records do not add up")
  return records


def _without_block_headers(data: bytes, offset: int) -> bytearray:
  kept = bytearray()
  place = 0
  while place < len(data):
    within = (offset + place) % BLOCK
    if not within:
      place += _BLOCK_HEADER
    until = place + BLOCK - max(within, _BLOCK_HEADER)
    kept += data[place:until]
    place = until
  return kept


def _hash(data: bytearray) -> int:
  return int(highway_hash(np.frombuffer(data, np.uint8), _KEY)) if data else _EMPTY_HASH


# Also compiles the hash before there are threads.
_EMPTY_HASH = int(highway_hash(np.empty(0, np.uint8), _KEY))


def _varint(data: bytearray, at: int) -> tuple[int, int]:
  """Returns a varint and the position after it; IndexError if it is truncated."""
  number = shift = 0
  while data[at] >= 0x80:
    number |= (data[at] & 0x7F) << shift
    at, shift = at + 1, shift + 7
  return number | data[at] << shift, at + 1
