"""Counter-based random numbers: functions of a seed, a purpose and a position.

A sequential generator would have to be advanced to a position; these numbers are computed directly, for many positions
at once. The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014).
"""

import functools
import zlib
from collections.abc import Sequence

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

_ROUNDS = 24  # rounds of the cipher that permutes an index
_CONSTANTS = 0x7369F885192C0EF5  # the bits of Simon's sequence z_3, a round's the lowest that is left
# Up to this size an epoch is permuted as a whole, in milliseconds; the cipher is slow on few numbers.
_SMALL = 65_536


def _mix(state: np.ndarray) -> np.ndarray:
  state = (state ^ (state >> np.uint64(30))) * _FIRST
  state = (state ^ (state >> np.uint64(27))) * _SECOND
  return state ^ (state >> np.uint64(31))


def _fold(state: np.ndarray, value: np.ndarray) -> np.ndarray:
  return _mix(state ^ (value.astype(np.uint64) * _GOLDEN + _GOLDEN))


def bits(seed: int, purpose: str, positions: np.ndarray, count: int) -> np.ndarray:
  """Returns uint64 [N, count]: random 64-bit numbers, functions of (seed, purpose, position, column).

  `purpose` separates different draws at the same position. `positions` is int64 [N], at least 0.
  """
  return columns_of(states(seed, purpose, positions), np.arange(count)[None, :])


def states(seed: int, purpose: str, positions: np.ndarray) -> np.ndarray:
  """Returns uint64 [N, 1], from which `columns_of` gives single columns of `bits`; arguments as for that."""
  state = np.array([[seed & (2**64 - 1)]], np.uint64)
  state = _fold(state, np.array([[zlib.crc32(purpose.encode())]], np.uint64))
  return _fold(state, np.asarray(positions, np.int64)[:, None])


def columns_of(states: np.ndarray, columns: np.ndarray) -> np.ndarray:
  """Returns uint64 [N, K]: the random numbers in columns of `bits`, int64 [N, K]."""
  return _fold(states, columns)


def uniform(seed: int, purpose: str, positions: np.ndarray, count: int) -> np.ndarray:
  """Returns float64 [N, count]: uniform numbers in the open interval (0, 1); arguments as for `bits`."""
  return ((bits(seed, purpose, positions, count) >> np.uint64(11)) + 0.5) * 2.0**-53


def permuted(seed: int, positions: np.ndarray, size: int) -> np.ndarray:
  """Maps positions in an endless stream, int64 [N], at least 0, to indices, int64 [N].

  Each epoch, position // size, is a different permutation of [0, size).
  """
  epochs, within = np.divmod(np.asarray(positions, np.int64), size)
  indices = np.empty_like(within)
  for epoch in np.unique(epochs).tolist():
    chosen = epochs == epoch
    if size <= _SMALL:
      indices[chosen] = _whole_permutation(seed, epoch, size)[within[chosen]]
    else:
      indices[chosen] = _enciphered(seed, epoch, within[chosen], size)
  return indices


def _enciphered(seed: int, epoch: int, indices: np.ndarray, size: int) -> np.ndarray:
  """Permutes indices, int64 [N] in [0, size), by a cipher on the least even number of bits that holds them.

  What it maps beyond `size` is enciphered again: cycle walking, Black and Rogaway, "Ciphers with arbitrary finite
  domains" (2002). The cipher and its bits are those of `tf.random.experimental.index_shuffle`, but with hashed keys,
  because similar keys such as (seed, epoch) give similar permutations; and with more rounds, because with its four the
  indices are not quite uniform.
  """
  # If the last index is a power of two, TensorFlow's words are too short, and it maps two indices to one. Then the
  # cipher is that for one index more.
  last = size if (size - 1) & (size - 2) == 0 else size - 1
  width = max(8, (last.bit_length() + 1) // 2)
  keys = _round_keys((bits(seed, "order", np.array([epoch]), 3)[0] >> np.uint64(32)).tolist(), width)
  enciphered = indices.astype(np.uint64)
  walking = np.arange(len(enciphered))
  while walking.size:
    enciphered[walking] = moved = _simon(enciphered[walking], keys, width)
    walking = walking[moved >= size]
  return enciphered.astype(np.int64)


def _simon(values: np.ndarray, keys: Sequence[int], width: int) -> np.ndarray:
  """Enciphers uint64 [N], two words of `width` bits each, by a round per key.

  Beaulieu et al., "The SIMON and SPECK families of lightweight block ciphers" (2013), section 3.
  """
  bits_of_word, mask = np.uint64(width), np.uint64(2**width - 1)
  first, eighth, second = (np.uint64(width - by) for by in (1, 8, 2))
  other, word = values >> bits_of_word, values & mask
  for key in keys:
    twice = word | (word << bits_of_word)  # shifted to the right, it is the word rotated to the left
    mixed = ((twice >> first) & (twice >> eighth)) ^ (twice >> second)
    other, word = word, other ^ (mixed & mask) ^ np.uint64(key)
  return (other << bits_of_word) | word


def _round_keys(keys: Sequence[int], width: int) -> list[int]:
  """Expands three numbers to a key for each round (section 3.2 of the SIMON paper, with three words)."""
  mask = 2**width - 1
  words = [key & mask for key in keys]
  for number in range(_ROUNDS - len(words)):
    twice = words[-1] | (words[-1] << width)
    constant = 0xFFFFFFFC ^ (_CONSTANTS >> number & 1 if number < width else 0)
    words.append((constant ^ words[-3] ^ (twice >> 3) ^ (twice >> 4)) & mask)
  return words


@functools.lru_cache(maxsize=8)
def _whole_permutation(seed: int, epoch: int, size: int) -> np.ndarray:
  """Returns the permutation of an epoch, int64 [size]; cached, because the same few epochs are requested repeatedly."""
  return np.argsort(bits(seed, "order", np.array([epoch]), size)[0], kind="stable")
