"""HighwayHash-64, the hash of Riegeli files, compiled: no package on PyPI that is kept up has it.

Follows Alakuijala, Cox and Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and permute"
(2016, arXiv:1612.06257). Four lanes of 64 bits take in 32 bytes a round; arithmetic wraps at 64 bits.
"""

import numpy as np

from xmcap.data.array_records import compiled

_HALF = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_MULTIPLIERS = np.array(
  [
    [0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3],
    [0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377],
  ],
  np.uint64,
)


@compiled.inner
def _byte(word, place):
  return (word >> np.uint64(8 * place)) & np.uint64(0xFF)


@compiled.inner
def _zip(into, source, low):
  """Adds the bytes of two lanes of `source` to two of `into`, in the order that spreads a product's good bits."""
  even, odd = source[low], source[low + 1]
  into[low] += (
    _byte(even, 3)
    | _byte(odd, 4) << np.uint64(8)
    | _byte(even, 2) << np.uint64(16)
    | _byte(even, 5) << np.uint64(24)
    | _byte(odd, 6) << _32
    | _byte(even, 1) << np.uint64(40)
    | _byte(odd, 7) << np.uint64(48)
    | _byte(even, 0) << np.uint64(56)
  )
  into[low + 1] += (
    _byte(odd, 3)
    | _byte(even, 4) << np.uint64(8)
    | _byte(odd, 2) << np.uint64(16)
    | _byte(odd, 5) << np.uint64(24)
    | _byte(odd, 1) << _32
    | _byte(even, 6) << np.uint64(40)
    | _byte(odd, 0) << np.uint64(48)
    | _byte(even, 7) << np.uint64(56)
  )


@compiled.inner
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


@compiled.entry("(uint8[::1], uint64[::1])")
def highway_hash(data, key):
  """The hash of bytes, uint8 [N], under a key, uint64 [4]: a uint64."""
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
    size = np.uint64(left)
    turn = np.uint64(left)
    last = np.zeros(32, np.uint8)
    for lane in range(4):
      state[0, lane] += (size << _32) + size
      low, high = state[1, lane] & _HALF, state[1, lane] >> _32
      low = (low << turn | low >> (_32 - turn)) & _HALF
      high = (high << turn | high >> (_32 - turn)) & _HALF
      state[1, lane] = high << _32 | low
    rest = data[32 * whole :]
    fours = left & ~3
    last[:fours] = rest[:fours]
    if left & 16:
      last[28:] = rest[left - 4 :]
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
