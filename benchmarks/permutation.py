"""The permutation of 10^9 records in numpy against TensorFlow's, which gives the same numbers.

usage: python benchmarks/permutation.py [--turns=9]
`draws.permuted` against `tf.random.experimental.index_shuffle`'s operation with as many rounds (24) and with its own 4,
for a batch of indices and for many. All take turns, and are measured in seconds of CPU, of all threads.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import report
from xmcap.data import draws

_SIZE = 10**9
_COUNTS = {2_048: 50, 1_000_000: 1}
"""Indices at once, and how often in a turn."""


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--turns", type=int, default=9)
  turns = parser.parse_args().turns
  import tensorflow as tf

  keys = (draws.bits(3, "order", np.array([5]), 3) >> np.uint64(32)).astype(np.uint32)

  def by_tensorflow(indices: np.ndarray, rounds: int) -> np.ndarray:
    seeds, last = np.repeat(keys, len(indices), 0), np.full_like(indices, _SIZE - 1)
    return tf.raw_ops.RandomIndexShuffle(index=indices, seed=seeds, max_index=last, rounds=rounds).numpy()

  ways = {
    "numpy (`draws.permuted`), 24 rounds": lambda indices: draws.permuted(3, 5 * _SIZE + indices, _SIZE),
    "TensorFlow, 24 rounds": lambda indices: by_tensorflow(indices, 24),
    "TensorFlow, its own 4 rounds": lambda indices: by_tensorflow(indices, 4),
  }
  rng = np.random.default_rng(0)
  medians: dict[str, list[float]] = {name: [] for name in ways}
  for count, times in _COUNTS.items():
    indices = rng.integers(0, _SIZE, count)
    first, second, _ = (way(indices) for way in ways.values())
    np.testing.assert_array_equal(first, second)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
      for name, way in ways.items():
        began = time.process_time()
        for _ in range(times):
          way(indices)
        seconds[name].append((time.process_time() - began) / times / count)
    for name, taken in seconds.items():
      medians[name].append(statistics.median(taken))
  ours = medians[next(iter(ways))]
  rows = []
  for name, taken in medians.items():
    shown = [f"{1e9 * each:.0f} ({each / own:.2f})" for each, own in zip(taken, ours, strict=True)]
    rows.append((name, *shown))
    print(f"{name:40s}", *shown)
  report.write(
    "permutation",
    "The order of 10^9 records",
    rows,
    columns=("permutation", *(f"ns of CPU an index, {count:,} at once (ratio)" for count in _COUNTS)),
    notes=["The first two give the same numbers.", f"Medians of {turns} turns; ratios to numpy."],
  )


if __name__ == "__main__":
  main()
