"""A block of a bzip2 file decompressed, compiled by numba: captions in little more than half the time of a library.

Importing this compiles it, for seconds, unless it was compiled before. Each step is an entry of its own: the codes
(`bzip2_tables`), the symbols (`bzip2_runs`), the inverse transform (`bzip2_transform`), and here the runs that were
packed before the transform, and the checksum. (The format is described by the sources of bzip2 alone.)
"""

import numpy as np

from xmcap.data.corpora import bzip2_runs, bzip2_tables, bzip2_transform, compiled

_SPARE = 64  # words that may be read behind the data
_ALL = 0xFFFFFFFF


def decompress(data: bytes, begin: int, end: int) -> bytes:
  """The text of the block between two bits of `data`, from its magic number to the next.

  Raises:
    ValueError: it is damaged.
  """
  if not 0 <= begin <= end <= 8 * len(data):
    raise ValueError(f"no block of bzip2: bits {begin:,} to {end:,} of {8 * len(data):,}")
  first = begin // 32
  part = data[4 * first : -(-end // 8)]
  halves = np.frombuffer(part + bytes(-len(part) % 4 + 4 * _SPARE), ">u4").astype(np.int64)
  words = halves[:-1] << 32 | halves[1:]  # 64 bits from each 32nd on
  begin, end = begin - 32 * first, end - 32 * first
  checksum, origin, *tables, place = bzip2_tables.read_tables(words, begin, end)
  runs, size = bzip2_runs.read_runs(words, place, end, origin, *tables)
  text = _undo_runs(bzip2_transform.invert(runs, size, origin))
  if _checksum(text, _CHECKSUMS) != checksum:
    raise ValueError("a block of bzip2 is damaged: its checksum is wrong")
  return text.tobytes()


def _checksum_tables() -> np.ndarray:
  """uint32 [16, 256]: what a byte adds to the checksum if 0 to 15 more follow."""
  table = np.arange(256, dtype=np.uint32) << 24
  for _ in range(8):
    table = (table << 1) ^ np.where(table >> 31, np.uint32(0x04C11DB7), np.uint32(0))
  tables = [table]
  for _ in range(15):
    tables.append((tables[-1] << 8) ^ table[tables[-1] >> 24])
  return np.stack(tables)


_CHECKSUMS = _checksum_tables()


@compiled.entry("(uint8[::1],)")
def _undo_runs(raw):
  """Four equal bytes are followed by the number of more that there are."""
  text, filled = raw, 0  # `text` is `raw` until there is a run
  at = begun = 0
  size = len(raw)
  while at + 4 <= size:
    if at + 67 <= size:
      found = np.uint8(0)
      for ahead in range(at & _ALL, (at & _ALL) + 64):
        byte = raw[ahead]
        found |= (byte == raw[ahead + 1]) & (byte == raw[ahead + 2]) & (byte == raw[ahead + 3])
      if not found:
        at += 64
        continue
    byte = raw[at]
    if byte != raw[at + 1] or byte != raw[at + 2] or byte != raw[at + 3]:
      at += 1
      continue
    if at + 4 == size:
      raise ValueError("a block of bzip2 is damaged: a run breaks off")
    more = 4 + np.int64(raw[at + 4])
    needed = filled + at - begun + more + size - at
    if not filled or needed > len(text):
      grown = np.empty(2 * needed, np.uint8)
      grown[:filled] = text[:filled]
      text = grown
    text[filled : filled + at - begun] = raw[begun:at]
    filled += at - begun
    text[filled : filled + more] = byte
    filled += more
    at += 5
    begun = at
  if not begun:
    return raw
  text[filled : filled + size - begun] = raw[begun:]
  return text[: filled + size - begun]


@compiled.entry("(uint8[::1], uint32[:, ::1])")
def _checksum(text, tables):
  """CRC-32, the highest bit first, sixteen bytes at a time."""
  value, whole = _ALL, len(text) & ~15
  for place in range(0, whole, 16):
    added = 0
    for at in range(16):
      byte = np.int64(text[(place & _ALL) + at])
      added ^= np.int64(tables[15 - at, byte ^ (value >> (24 - 8 * at) & 255) if at < 4 else byte])
    value = added
  for byte in text[whole:]:
    value = (value << 8 & _ALL) ^ np.int64(tables[0, value >> 24 ^ byte])
  return value ^ _ALL
