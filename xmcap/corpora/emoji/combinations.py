"""Assigns combinations of emoji to splits: no combination, in any order, is in two splits."""

import math

import numpy as np

SPLITS = ("train", "validation", "test")
# Largest share of all combinations of a size for a split; its images repeat combinations if these are too few.
_HELD_OUT = {"validation": 0.04, "test": 0.12}
_SIZES_IN_TRAIN = {1: 0.15, 2: 0.4, 3: 0.45}
_HELD_OUT_SIZES = (2, 3)


class Combinations:
  """Assigns pairs and triples of `num_emoji` classes to the splits by a seeded draw.

  Single emoji are for training only. A held-out split has half pairs and half triples, and shows each of its
  combinations about equally often. Training draws from all combinations that are not held out.

  Args:
    num_emoji: number of classes, at least 5, so that each split gets a pair and a triple.
    images: held-out split -> number of images.
    seed: seed of all draws.
  """

  def __init__(self, num_emoji: int, images: dict[str, int], seed: int):
    self.num_emoji = num_emoji
    self.seed = seed
    self.held_out: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    """(split, size) -> combinations of a held-out split, each in ascending order of the classes."""
    for size in _HELD_OUT_SIZES:
      total = math.comb(num_emoji, size)
      counts = [
        max(1, min(int(total * share), math.ceil(images[split] / len(_HELD_OUT_SIZES))))
        for split, share in _HELD_OUT.items()
      ]
      ranks = self._rng("assignment", size).choice(total, sum(counts), replace=False, shuffle=True)
      for split, part in zip(_HELD_OUT, np.split(ranks, np.cumsum(counts)[:-1]), strict=True):
        self.held_out[split, size] = [_unrank(int(rank), size) for rank in part]
    self._taken = {classes for part in self.held_out.values() for classes in part}

  def _rng(self, name: str, number: int) -> np.random.Generator:
    names = ("assignment", *SPLITS)
    return np.random.default_rng([self.seed, names.index(name), number])

  def draw(
    self, split: str, shard: int, start: int, count: int
  ) -> tuple[list[list[int]], np.random.Generator]:
    """Draws scenes `start` to `start + count` of a split, which form its file number `shard`.

    Returns the scenes, as class ids in reading order, and the shard's generator, for rendering them.
    """
    rng = self._rng(split, shard)
    if split == "train":
      sizes = rng.choice(list(_SIZES_IN_TRAIN), count, p=list(_SIZES_IN_TRAIN.values()))
      return [self._free(int(size), rng) for size in sizes], rng
    scenes = []
    for index in range(start, start + count):
      size = _HELD_OUT_SIZES[index % len(_HELD_OUT_SIZES)]
      held_out = self.held_out[split, size]
      scenes.append(rng.permutation(held_out[index // len(_HELD_OUT_SIZES) % len(held_out)]).tolist())
    return scenes, rng

  def _free(self, size: int, rng: np.random.Generator) -> list[int]:
    """Returns a combination that no held-out split has, in random order."""
    while True:
      # Much faster than choice(replace=False) for a few among many.
      scene = rng.integers(self.num_emoji, size=size).tolist()
      if len(set(scene)) == size and tuple(sorted(scene)) not in self._taken:
        return scene


def _unrank(rank: int, size: int) -> tuple[int, ...]:
  """Returns the ascending combination of a rank in the combinatorial number system: sum of C(c_i, i + 1)."""
  classes = []
  for place in range(size, 0, -1):
    value = place - 1
    while math.comb(value + 1, place) <= rank:
      value += 1
    rank -= math.comb(value, place)
    classes.append(value)
  return tuple(reversed(classes))
