"""Counter-based random numbers: functions of a seed, a purpose and a position.

A sequential generator would have to be advanced to a position; these numbers are computed directly, for many positions
at once. The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014).
"""

import contextlib
import functools
import zlib
from typing import Any

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

_ROUNDS = 24  # rounds of the cipher that permutes an index
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
  state = np.array([[seed & (2**64 - 1)]], np.uint64)
  state = _fold(state, np.array([[zlib.crc32(purpose.encode())]], np.uint64))
  state = _fold(state, np.asarray(positions, np.int64)[:, None])
  return _fold(state, np.arange(count, dtype=np.uint64)[None, :])


def uniform(seed: int, purpose: str, positions: np.ndarray, count: int) -> np.ndarray:
  """Returns float64 [N, count]: uniform numbers in the open interval (0, 1); arguments as for `bits`."""
  return ((bits(seed, purpose, positions, count) >> np.uint64(11)) + 0.5) * 2.0**-53


def weighted_order(weights: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
  """Returns int64 [N, M]: the order of columns drawn one by one, by weight, without replacement.

  Efraimidis and Spirakis (2006): sorts by an exponential number divided by the weight. `weights` is float [M], at least
  0 (a column of weight 0 comes last), `uniforms` is float64 [N, M] in (0, 1).
  """
  with np.errstate(divide="ignore"):
    return np.argsort(-np.log(uniforms) / weights, axis=1, kind="stable")


def permuted(seed: int, positions: np.ndarray, size: int) -> np.ndarray:
  """Maps positions in an endless stream, int64 [N], at least 0, to indices, int64 [N].

  Each epoch, position // size, is a different permutation of [0, size).
  """
  epochs, within = np.divmod(np.asarray(positions, np.int64), size)
  if size <= _SMALL:
    indices = np.empty_like(within)
    for epoch in np.unique(epochs).tolist():
      chosen = epochs == epoch
      indices[chosen] = _whole_permutation(seed, epoch, size)[within[chosen]]
    return indices
  # Hashed keys, because similar keys such as (seed, epoch) give similar permutations; and more rounds, because with the
  # four of tf.random.experimental.index_shuffle the indices are not quite uniform.
  keys = (bits(seed, "order", epochs, 3) >> np.uint64(32)).astype(np.uint32)
  # TensorFlow 2.21 maps two indices to the same number if the last index is a power of two. Then we permute one more
  # index, and permute again what is mapped to it.
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
  import tensorflow as tf  # takes seconds, and only large corpora need it

  # The accelerator belongs to JAX: TensorFlow would take all memory of a GPU with its first operation. If the program
  # has already used TensorFlow, its choice of devices stands.
  with contextlib.suppress(RuntimeError):
    tf.config.set_visible_devices([], "GPU")
  return tf


@functools.lru_cache(maxsize=8)
def _whole_permutation(seed: int, epoch: int, size: int) -> np.ndarray:
  """Returns the permutation of an epoch, int64 [size]; cached, because the same few epochs are requested repeatedly."""
  return np.argsort(bits(seed, "order", np.array([epoch]), size)[0], kind="stable")
