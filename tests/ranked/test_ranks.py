"""Top-k accuracy, recall and ranks with ties, against scikit-learn over all orders and plain counting."""

import itertools

import numpy as np
import pytest

from tests import lazily
from xmcap.ranked import ranks

metrics = lazily.Module("sklearn.metrics")


def _ranked(scores, right, counts):
  """Ranks given scores: queries are rows of them, and candidates the unit vectors."""
  scores = np.asarray(scores, np.float32)
  return ranks.rank(scores, np.eye(scores.shape[1], dtype=np.float32), np.asarray(right), np.asarray(counts))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_top_k_accuracy_without_ties_equals_scikit_learn(k):
  rng = np.random.default_rng(0)
  scores, targets = rng.normal(size=(300, 12)).astype(np.float32), rng.integers(0, 12, 300)
  expected = metrics.top_k_accuracy_score(targets, scores, k=k, labels=np.arange(12))
  assert _ranked(scores, targets, np.ones(300, int)).hits(k).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_accuracy_with_ties_is_the_mean_over_class_orders(k):
  rng = np.random.default_rng(1)
  scores, targets = rng.integers(0, 3, (40, 5)).astype(np.float32), rng.integers(0, 5, 40)
  found = []
  for order in itertools.permutations(range(5)):
    moved = np.argsort(order)[targets]  # where each target's class stands in this order
    found.append(metrics.top_k_accuracy_score(moved, scores[:, order], k=k, labels=np.arange(5)))
  assert _ranked(scores, targets, np.ones(40, int)).hits(k).mean() == pytest.approx(np.mean(found), abs=1e-12)


def _plain_recall(scores, right, k):
  """The share of all orders of the candidates in which a right one is among the first k by score."""
  hits = []
  for order in itertools.permutations(range(len(scores))):
    first = sorted(order, key=lambda place: -scores[place])[:k]  # stable: ties keep the order
    hits.append(bool(set(first) & set(right)))
  return np.mean(hits)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_recall_at_k_of_several_positives_with_ties(k):
  rng = np.random.default_rng(2)
  scores = rng.integers(0, 3, (30, 6)).astype(np.float32)
  right = [sorted(rng.choice(6, rng.integers(1, 4), replace=False).tolist()) for _ in range(30)]
  counts = [len(places) for places in right]
  found = _ranked(scores, list(itertools.chain(*right)), counts).hits(k)
  expected = [_plain_recall(row, places, k) for row, places in zip(scores, right, strict=True)]
  np.testing.assert_allclose(found, expected, atol=1e-12)


def test_reciprocal_and_expected_ranks_with_ties():
  rng = np.random.default_rng(2)
  scores = rng.integers(0, 3, (30, 6)).astype(np.float32)
  right = [sorted(rng.choice(6, rng.integers(1, 4), replace=False).tolist()) for _ in range(30)]
  found = _ranked(scores, list(itertools.chain(*right)), [len(places) for places in right])
  places = [
    [
      1 + min(sorted(order, key=lambda place: -row[place]).index(place) for place in of_query)
      for order in itertools.permutations(range(6))
    ]
    for row, of_query in zip(scores, right, strict=True)
  ]
  np.testing.assert_allclose(found.reciprocals(), np.mean(1 / np.array(places), axis=1), atol=1e-12)
  np.testing.assert_allclose(found.expected(), np.mean(places, axis=1), atol=1e-12)


def test_equal_embeddings_tie_exactly():
  rng = np.random.default_rng(3)
  queries, distinct = (rng.normal(size=shape).astype(np.float32) for shape in ((500, 37), (9, 37)))
  candidates = np.concatenate([distinct] * 31)  # a product of matrices treats its last columns in another way
  target = np.arange(500) % len(candidates)
  found = ranks.rank(queries, candidates, target, np.ones(500, int))
  assert (found.level == 31).all() and (found.above % 31 == 0).all()


def test_collapsed_embeddings_score_chance():
  found = ranks.rank(
    np.ones((50, 4), np.float32), np.ones((20, 4), np.float32), np.arange(50) % 20, np.ones(50, int)
  )
  assert found.hits(1).mean() == pytest.approx(1 / 20)
  assert found.undecided == 50


def test_ranks_are_independent_of_query_blocks(monkeypatch):
  rng = np.random.default_rng(4)
  queries, candidates = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((64, 3), (40, 3)))
  counts = rng.integers(1, 4, 64)
  right = np.concatenate([rng.choice(40, count, replace=False) for count in counts])
  whole = ranks.rank(queries, candidates, right, counts)
  monkeypatch.setattr(ranks, "_CELLS", 100)
  parts = ranks.rank(queries, candidates, right, counts)
  for name in ("above", "level", "right", "first"):
    np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
