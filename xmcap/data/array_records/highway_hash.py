"""HighwayHash-64, the hash of Riegeli files, compiled by numba; no maintained package on PyPI has it.

Follows Alakuijala, Cox and Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and permute"
(2016, arXiv:1612.06257). Four lanes of 64 bits consume 32 bytes per round; arithmetic wraps at 64 bits.
"""

import numba
import numpy as np

_HALF = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_MULTIPLIERS = np.array(
  [
    [0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3],
    [0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377],
  ],
  np.uint64,
)
# The "zipper merge", which spreads the well-mixed bits of a product: source position of each byte of two lanes.
_ZIPPED = np.array([[3, 12, 2, 5, 14, 1, 15, 0], [11, 4, 10, 13, 9, 6, 8, 7]])
_ZIPPED_LANE, _ZIPPED_SHIFT = _ZIPPED // 8, (_ZIPPED % 8 * 8).astype(np.uint64)
_BYTE_SHIFT = np.arange(0, 64, 8).astype(np.uint64)


@numba.njit(nogil=True)
def _zip(into, source, low):
  """Adds the bytes of the lanes `low` and `low + 1` of `source` to those of `into`, zipped."""
  for lane in range(2):
    for place in range(8):
      byte = (source[low + _ZIPPED_LANE[lane, place]] >> _ZIPPED_SHIFT[lane, place]) & np.uint64(0xFF)
      into[low + lane] += byte << _BYTE_SHIFT[place]


@numba.njit(nogil=True)
def _update(state, words):
  """One round: `state` uint64 [v0, v1, mul0, mul1][4], `words` uint64 [4]."""
  v0, v1, mul0, mul1 = state[0], state[1], state[2], state[3]
  for lane in range(4):
    v1[lane] += mul0[lane] + words[lane]
    mul0[lane] ^= (v1[lane] & _HALF) * (v0[lane] >> _32)
    v0[lane] += mul1[lane]
    mul1[lane] ^= (v0[lane] & _HALF) * (v1[lane] >> _32)
  _zip(v0, v1, 0)
  _zip(v0, v1, 2)
  _zip(v1, v0, 0)
  _zip(v1, v0, 2)


@numba.njit(nogil=True)
def highway_hash(data, key):
  """Returns the uint64 hash of bytes, uint8 [N], with a key, uint64 [4]."""
  state = np.empty((4, 4), np.uint64)
  for lane in range(4):
    state[2, lane], state[3, lane] = _MULTIPLIERS[0, lane], _MULTIPLIERS[1, lane]
    state[0, lane] = state[2, lane] ^ key[lane]
    state[1, lane] = state[3, lane] ^ (key[lane] >> _32 | key[lane] << _32)
  whole = len(data) // 32
  words = data[: whole * 32].view(np.uint64)
  for packet in range(whole):
    _update(state, words[4 * packet : 4 * packet + 4])
  left = len(data) - 32 * whole
  if left:
    size = turn = np.uint64(left)
    for lane in range(4):
      state[0, lane] += (size << _32) + size
      low, high = state[1, lane] & _HALF, state[1, lane] >> _32
      low = (low << turn | low >> (_32 - turn)) & _HALF
      high = (high << turn | high >> (_32 - turn)) & _HALF
      state[1, lane] = high << _32 | low
    rest = data[32 * whole :]
    last = np.zeros(32, np.uint8)
    fours = left & ~3
    # Byte by byte, because numba takes two seconds to compile a slice assignment.
    for place in range(fours):
      last[place] = rest[place]
    if left & 16:
      for place in range(4):
        last[28 + place] = rest[left - 4 + place]
    elif left & 3:
      last[16] = rest[fours]
      last[17] = rest[fours + ((left & 3) >> 1)]
      last[18] = rest[left - 1]
    _update(state, last.view(np.uint64))
  turned = np.empty(4, np.uint64)
  for _ in range(4):
    for lane in range(4):
      word = state[0, (lane + 2) & 3]
      turned[lane] = word >> _32 | word << _32
    _update(state, turned)
  return state[0, 0] + state[1, 0] + state[2, 0] + state[3, 0]
