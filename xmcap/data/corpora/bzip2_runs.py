"""The symbols of a block of bzip2 -> the runs of equal bytes in its transform.

The second step of `bzip2_decoder`: Huffman codes are read, and each byte is found by its place among those that were
met last. What is said of compiled code in `bzip2_tables` holds here.
"""

import numpy as np

from xmcap.data.corpora import compiled

_MAX_BLOCK = 900_000  # bytes of the transform
_GROUP, _MAX_GROUPS = 50, 18_002  # symbols that share a code; what comes after so many groups is never used
_LOOKUP, _LONGEST = 10, 20  # bits of codes that are looked up at once, and of any; as in `bzip2_tables`
_ALL = 0xFFFFFFFF


@compiled.entry(
  "(int64[::1], int64, int64, int64, uint8[::1], int64[::1], int64, "
  "uint16[:, ::1], int64[:, ::1], int64[:, ::1], uint16[:, ::1])"
)
def read_runs(words, place, end, origin, selectors, front, last, lookup, limits, offsets, symbols):
  """The runs of the transform, uint32 [runs], length << 8 | byte; and their bytes in all."""
  groups = min(len(selectors), _MAX_GROUPS)
  runs = np.empty(groups * _GROUP + 1, np.uint32)
  runs[0] = front[0] & 255
  run, shift, symbol = 0, 8, 0
  for group in range(groups):
    if place > end or symbol == last:
      break
    code = selectors[group] & 7
    bits, left = words[place >> 5] << (place & 31), 33  # so many are there at least
    for _ in range(_GROUP):
      if left < _LONGEST:
        bits, left = words[place >> 5] << (place & 31), 33
      entry = np.int64(lookup[code, bits >> (64 - _LOOKUP) & ((1 << _LOOKUP) - 1)])
      length, symbol = entry & 31, entry >> 5
      if not entry:
        length = _LOOKUP
        number = limits[code, length]
        while number >= limits[code, length]:
          length += 1
          if length > _LONGEST:
            raise ValueError("a block of bzip2 is damaged: a code has no meaning")
          number = bits >> (64 - length) & ((1 << length) - 1)
        symbol = np.int64(symbols[code, number + offsets[code, length]])
      bits <<= length
      place += length
      left -= length
      if symbol <= 1:  # a digit, 1 or 2, of how often the byte before is repeated
        if shift > 28:
          raise ValueError("a block of bzip2 is damaged: a run is too long")
        runs[run & _ALL] += (symbol + 1) << shift
        shift += 1
        continue
      if symbol == last:
        break
      # The byte comes to the front, and those before it move up by one.
      word, at = (symbol - 1) >> 3, ((symbol - 1) & 7) << 3
      moved, before = front[word], (1 << at) - 1
      carry = byte = moved >> at & 255
      for ahead in range(word):
        passed = front[ahead]
        front[ahead], carry = passed << 8 | carry, passed >> 56 & 255
      front[word] = moved & ~(before << 8 | 255) | (moved & before) << 8 | carry
      run, shift = run + 1, 8
      runs[run & _ALL] = 1 << 8 | byte
  if symbol != last or place != end:
    raise ValueError("a block of bzip2 is damaged: it does not end where it should")
  runs = runs[int(runs[0] < 256) : run + 1]  # only the first may have no bytes
  size = 0
  for value in runs:
    size += value >> 8
  if origin >= size or size > _MAX_BLOCK:
    raise ValueError("a block of bzip2 is damaged: its size is wrong")
  return runs, size
