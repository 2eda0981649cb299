"""Random numbers that are functions of where they are used: of a seed, a purpose and a position.

A generator would have to be wound forward to a position; these are computed there, for many positions at
once. The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014).
"""

import contextlib
import functools
import zlib
from typing import Any

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

_ROUNDS = 24  # of the cipher that permutes an index
# Up to here an epoch is permuted whole, in milliseconds: the cipher is slow on few numbers.
_SMALL = 65_536


def _mix(state: np.ndarray) -> np.ndarray:
  state = (state ^ (state >> np.uint64(30))) * _FIRST
  state = (state ^ (state >> np.uint64(27))) * _SECOND
  return state ^ (state >> np.uint64(31))


def _fold(state: np.ndarray, value: np.ndarray) -> np.ndarray:
  return _mix(state ^ (value.astype(np.uint64) * _GOLDEN + _GOLDEN))


def bits(seed: int, purpose: str, positions: np.ndarray, count: int) -> np.ndarray:
  """Random 64-bit numbers, functions of (seed, purpose, position, column): uint64 [N, count].

  `purpose` separates the draws that are made at one position. `positions` are int64 [N], at least 0.
  """
  state = np.array([[seed & (2**64 - 1)]], np.uint64)
  state = _fold(state, np.array([[zlib.crc32(purpose.encode())]], np.uint64))
  state = _fold(state, np.asarray(positions, np.int64)[:, None])
  return _fold(state, np.arange(count, dtype=np.uint64)[None, :])


def uniform(seed: int, purpose: str, positions: np.ndarray, count: int) -> np.ndarray:
  """Uniform numbers in the open interval (0, 1): float64 [N, count]; arguments as `bits`."""
  return ((bits(seed, purpose, positions, count) >> np.uint64(11)) + 0.5) * 2.0**-53


def weighted_order(weights: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
  """The order in which columns come up when drawn one by one, by weight, without replacement: int64 [N, M].

  Efraimidis and Spirakis (2006): sort by an exponential number divided by the weight. `weights` are float [M], at least
  0 (a column of weight 0 comes last), `uniforms` float64 [N, M] in (0, 1).
  """
  with np.errstate(divide="ignore"):
    return np.argsort(-np.log(uniforms) / weights, axis=1, kind="stable")


def permuted(seed: int, positions: np.ndarray, size: int) -> np.ndarray:
  """Positions in an endless stream (int64 [N], at least 0) -> indices (int64 [N]).

  Each epoch, position // size, is another permutation of [0, size).
  """
  epochs, within = np.divmod(np.asarray(positions, np.int64), size)
  if size <= _SMALL:
    indices = np.empty_like(within)
    for epoch in np.unique(epochs).tolist():
      chosen = epochs == epoch
      indices[chosen] = _whole_permutation(seed, epoch, size)[within[chosen]]
    return indices
  # Keys that are near to each other, such as (seed, epoch), give permutations that are too; and with the four rounds of
  # tf.random.experimental.index_shuffle the indices of a place are not quite uniform.
  keys = (bits(seed, "order", epochs, 3) >> np.uint64(32)).astype(np.uint32)
  # TensorFlow 2.21 gives two indices the same number where the last is a power of two: one more is permuted, and what
  # falls on it is permuted again.
  last = size if (size - 1) & (size - 2) == 0 else size - 1
  indices = _enciphered(within, keys, last)
  while (outside := indices >= size).any():
    indices[outside] = _enciphered(indices[outside], keys[outside], last)
  return indices


def _enciphered(indices: np.ndarray, keys: np.ndarray, last: int) -> np.ndarray:
  tf = _tensorflow()
  with tf.device("cpu"):
    return tf.raw_ops.RandomIndexShuffle(
      index=indices, seed=keys, max_index=np.full_like(indices, last), rounds=_ROUNDS
    ).numpy()


@functools.cache
def _tensorflow() -> Any:
  import tensorflow as tf  # takes seconds, and only a corpus of some size needs it

  # The accelerator is JAX's: TensorFlow would take all of a GPU's memory with its first operation. Where the
  # program has used TensorFlow already, its choice of devices stands.
  with contextlib.suppress(RuntimeError):
    tf.config.set_visible_devices([], "GPU")
  return tf


@functools.lru_cache(maxsize=8)
def _whole_permutation(seed: int, epoch: int, size: int) -> np.ndarray:
  """int64 [size]: random numbers in order of their size; the same few epochs are asked for again and again."""
  return np.argsort(bits(seed, "order", np.array([epoch]), size)[0], kind="stable")
