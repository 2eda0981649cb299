"""The head of a block of bzip2: the bytes in use, and the Huffman codes of its symbols.

The first step of `bzip2_decoder`. numba checks no bounds: what is read from the file is checked before it leads
anywhere. All that is compiled is int64, as numba makes floats of int64 and uint64; what is shifted down may have its
sign in it, and is masked. A mask also tells the compiler that an index is not negative.
"""

import numpy as np

from xmcap.data.corpora import compiled

_LOOKUP, _LONGEST = 10, 20  # bits of codes that are looked up at once, and of any; as in `bzip2_runs`


@compiled.inner
def _bits(words, place, count):
  """`count` bits, up to 32, from bit `place` on."""
  return (words[place >> 5] << (place & 31)) >> (64 - count) & ((1 << count) - 1)


@compiled.inner
def _read_alphabet(words, place):
  """The bytes in use, eight to an int64 with the first lowest; how many; and where what follows begins."""
  front, count = np.zeros(32, np.int64), 0
  used = _bits(words, place, 16)
  place += 16
  for high in range(16):
    if used >> (15 - high) & 1:
      row = _bits(words, place, 16)
      place += 16
      for low in range(16):
        if row >> (15 - low) & 1:
          front[count >> 3] |= (high << 4 | low) << ((count & 7) << 3)
          count += 1
  return front, count, place


@compiled.inner
def _read_selectors(words, place, end, codes):
  """Which code each group of symbols has."""
  selectors = np.empty(_bits(words, place, 15), np.uint8)
  place += 15
  order = np.arange(codes)
  for group in range(len(selectors)):
    turn = 0
    while _bits(words, place, 1) and turn < codes and place < end:
      place, turn = place + 1, turn + 1
    if turn == codes or place >= end:
      raise ValueError("a block of bzip2 is damaged: a choice of codes is wrong")
    place += 1
    code = order[turn]
    order[1 : turn + 1] = order[:turn].copy()
    order[0] = selectors[group] = code
  return selectors, place


@compiled.inner
def _read_code(words, place, end, last, lookup, limits, offsets, symbols):
  """A Huffman code of the symbols up to `last`.

  Fills `lookup` (first bits -> symbol << 5 | length), and for longer codes, by length: `limits` (the code behind the
  last), `offsets` (from a code to its place in `symbols`).
  """
  lengths = np.empty(last + 1, np.int64)
  length = _bits(words, place, 5)
  place += 5
  for symbol in range(last + 1):
    while _bits(words, place, 1) and 1 <= length <= _LONGEST and place < end:
      length += 1 - 2 * _bits(words, place + 1, 1)
      place += 2
    if not 1 <= length <= _LONGEST or place >= end:
      raise ValueError("a block of bzip2 is damaged: the length of a code is wrong")
    place += 1
    lengths[symbol] = length
  code = count = 0
  for length in range(1, _LONGEST + 1):
    offsets[length] = count - code
    for symbol in range(last + 1):
      if lengths[symbol] == length:
        if code >> length:
          raise ValueError("a block of bzip2 is damaged: there are too many codes")
        symbols[count] = symbol
        if length <= _LOOKUP:
          shift = _LOOKUP - length
          lookup[code << shift : (code + 1) << shift] = symbol << 5 | length
        code, count = code + 1, count + 1
    limits[length] = code
    code <<= 1
  return place


@compiled.entry("(int64[::1], int64, int64)")
def read_tables(words, place, end):
  """What stands before the symbols of the block between two bits.

  Returns:
    The checksum of the text; the row of the transform at which it begins; uint8 [groups], the code of each group of
    symbols; the bytes in use as int64 [32], eight in each, the first lowest; the symbol that ends the block; of each
    code, what `_read_code` fills: `lookup`, `limits`, `offsets`, `symbols`; the bit at which the symbols begin.
  """
  if end - place < 105 or _bits(words, place, 24) << 24 | _bits(words, place + 24, 24) != 0x314159265359:
    raise ValueError("a block of bzip2 is damaged: it does not begin as one")
  if _bits(words, place + 80, 1):
    raise ValueError("a block of bzip2 is randomised, as none has been since 1999")
  checksum, origin = _bits(words, place + 48, 32), _bits(words, place + 81, 24)
  front, last, place = _read_alphabet(words, place + 105)
  last += 1  # the symbol that ends the block
  codes = _bits(words, place, 3)
  if last == 1 or not 2 <= codes <= 6:
    raise ValueError("a block of bzip2 is damaged: it has no bytes, or no codes")
  selectors, place = _read_selectors(words, place + 3, end, codes)
  lookup, symbols = np.zeros((6, 1 << _LOOKUP), np.uint16), np.zeros((6, 258), np.uint16)
  limits, offsets = np.zeros((6, _LONGEST + 1), np.int64), np.zeros((6, _LONGEST + 1), np.int64)
  for code in range(codes):
    place = _read_code(words, place, end, last, lookup[code], limits[code], offsets[code], symbols[code])
  return checksum, origin, selectors, front, last, lookup, limits, offsets, symbols, place
