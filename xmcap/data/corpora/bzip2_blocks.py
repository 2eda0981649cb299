"""Finding the blocks of a bzip2 file, so that many processes can each decompress a part of it.

A file holds streams: `BZh` and a digit, then blocks, each with a 48-bit magic number at any bit, then another magic
number and a checksum of the blocks' checksums. A block needs nothing of those before it. (The format is described by
the sources of bzip2 alone.)
"""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from xmcap.errors import XmcapError

_BLOCK, _END = 0x314159265359, 0x177245385090
_HEADER_BITS, _MAGIC_BITS, _CHECKSUM_BITS = 32, 48, 32
_WINDOW = 16 << 20


def find(path: pathlib.Path, progress: Callable[[int], None] | None = None) -> np.ndarray:
  """The bits at which each block of a file begins and ends, int64 [blocks, 2].

  Nothing is decompressed, but the checksums of the blocks are compared with those of the streams, so that a file
  that breaks off is found here.

  Args:
    path: of the file.
    progress: called with the bytes that were searched so far.

  Raises:
    XmcapError: the file is no bzip2 file, breaks off, or is damaged.
  """
  size = os.path.getsize(path)
  if not size:
    raise XmcapError(f"{path}: the file is empty: download it again")
  with open(path, "rb") as file:
    blocks = []
    stream, checksum = 0, 0  # the byte at which a stream begins, and the checksum of its blocks so far
    begun = 0  # the bit at which the last block begins; 0 between streams
    for bit, is_block, stored in _marks(file, size, progress):
      if bit < 8 * stream + _HEADER_BITS:
        continue  # inside the end of a stream: the number occurs there by chance
      if begun:
        blocks.append((begun, bit))
      elif bit != 8 * stream + _HEADER_BITS or _read(file, stream, 3) != b"BZh":
        raise XmcapError(f"{path}: no bzip2 file from byte {stream:,} on: give the file as it was published")
      if is_block:
        begun = bit
        checksum = ((checksum << 1 | checksum >> 31) ^ stored) & 0xFFFFFFFF
      elif stored != checksum:
        raise XmcapError(f"{path}: damaged before byte {bit // 8:,} (checksum): download it again")
      else:
        begun = checksum = 0
        stream = -(-(bit + _MAGIC_BITS + _CHECKSUM_BITS) // 8)
    if begun or not stream:
      raise XmcapError(f"{path}: breaks off after {size:,} bytes, or is no bzip2 file: download it again")
    if stream < size:
      raise XmcapError(f"{path}: {size - stream:,} bytes follow the end: download it again")
  return np.array(blocks, np.int64).reshape(-1, 2)


def _read(file: BinaryIO, start: int, count: int) -> bytes:
  # Read, not mapped: pages of a mapped file count as this process's memory.
  file.seek(start)
  return file.read(count)


def _bits(data: bytes, begin: int, end: int) -> int:
  """The bits from `begin` to `end` as a number, the first bit highest."""
  number = int.from_bytes(data[begin // 8 : -(-end // 8)], "big")
  return (number >> (-end % 8)) & ((1 << (end - begin)) - 1)


def _marks(
  file: BinaryIO, size: int, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, bool, int]]:
  """The magic numbers, in order: (bit, whether it begins a block, the checksum behind it)."""
  patterns = []
  for magic, is_block in ((_BLOCK, True), (_END, False)):
    for shift in range(8):
      # At least five bytes of it are whole; the bits beside them are compared after these are found.
      whole = (magic << (8 - shift)).to_bytes(7, "big")[1 if shift else 0 : 6]
      patterns.append((whole, shift, 1 if shift else 0, magic, is_block))
  for start in range(0, size, _WINDOW):
    window = _read(file, start, _WINDOW + 16)
    found = []
    for whole, shift, before, magic, is_block in patterns:
      place = window.find(whole)
      while place >= 0:
        bit = 8 * (place - before) + shift
        if 0 <= bit < 8 * _WINDOW and _bits(window, bit, bit + _MAGIC_BITS) == magic:
          checksum = _bits(window, bit + _MAGIC_BITS, bit + _MAGIC_BITS + _CHECKSUM_BITS)
          found.append((8 * start + bit, is_block, checksum))
        place = window.find(whole, place + 1)
    yield from sorted(found)
    if progress is not None:
      progress(min(size, start + _WINDOW))
