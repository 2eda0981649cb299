"""Emoji combinations: disjoint train, validation and test splits."""

import collections
import itertools
import math

import pytest

from xmcap.corpora.emoji import combinations
from xmcap.corpora.emoji.combinations import SPLITS, Combinations

PICTURES = {"train": 4000, "validation": 40, "test": 100}


def drawn(made, split):
  return made.draw(split, 0, 0, PICTURES[split])[0]


@pytest.mark.parametrize("num_emoji", [5, 20, 60])
def test_emoji_combinations_of_splits_are_disjoint(num_emoji):
  made = Combinations(num_emoji, PICTURES, seed=3)
  sets = [{frozenset(scene) for scene in drawn(made, split)} for split in SPLITS]
  for one, other in itertools.combinations(sets, 2):
    assert not one & other


def test_emoji_scenes_have_distinct_emoji():
  made = Combinations(8, PICTURES, seed=0)
  assert all(len(set(scene)) == len(scene) for split in SPLITS for scene in drawn(made, split))


def test_held_out_splits_are_half_pairs_half_triples():
  sizes = collections.Counter(map(len, drawn(Combinations(60, PICTURES, 0), "test")))
  assert sizes == {2: 50, 3: 50}


def test_train_scenes_have_1_to_3_emoji():
  assert {len(scene) for scene in drawn(Combinations(60, PICTURES, 0), "train")} == {1, 2, 3}


def test_train_scenes_cover_all_pairs_not_held_out():
  made = Combinations(8, PICTURES, seed=1)
  pairs = {frozenset(scene) for scene in drawn(made, "train") if len(scene) == 2}
  held_out = {frozenset(pair) for split in ("validation", "test") for pair in made.held_out[split, 2]}
  assert pairs | held_out == {frozenset(pair) for pair in itertools.combinations(range(8), 2)}


def test_held_out_combinations_are_shown_equally_often():
  made = Combinations(20, PICTURES, 0)
  shown = collections.Counter(frozenset(scene) for scene in drawn(made, "test") if len(scene) == 2)
  assert max(shown.values()) - min(shown.values()) <= 1
  assert set(shown) == {frozenset(pair) for pair in made.held_out["test", 2]}


def test_emoji_pairs_occur_in_both_orders():
  scenes = drawn(Combinations(20, PICTURES, 0), "test")
  assert any(scene[0] < scene[1] for scene in scenes) and any(scene[0] > scene[1] for scene in scenes)


def test_emoji_combinations_depend_on_the_seed():
  one, same, other = (drawn(Combinations(20, PICTURES, seed), "test") for seed in (0, 0, 1))
  assert one == same
  assert one != other


def test_emoji_combinations_of_train_shards_differ():
  made = Combinations(20, PICTURES, 0)
  assert made.draw("train", 0, 0, 50)[0] != made.draw("train", 1, 50, 50)[0]


@pytest.mark.parametrize("size", [2, 3])
def test_combination_unrank_is_a_bijection(size):
  for rank, classes in enumerate(sorted(itertools.combinations(range(9), size), key=lambda c: c[::-1])):
    assert combinations._unrank(rank, size) == classes
  assert rank == math.comb(9, size) - 1
