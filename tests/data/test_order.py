"""The order of pictures, of one corpus and of several by rates."""

import numpy as np
import pytest
from scipy import stats

from xmcap.data.order import BLOCK, MixedOrder, Order, places_of


@pytest.mark.parametrize(
  "rates, counts",
  [
    ([1, 1], [5000, 5000]),
    ([3, 1], [7500, 2500]),
    ([1, 1, 1], [3334, 3333, 3333]),
    ([0.9999, 0.0001], [9999, 1]),
  ],
)
def test_places_in_a_block_are_the_rates_by_the_largest_remainder(rates, counts):
  assert places_of(rates) == counts and sum(counts) == BLOCK


def test_a_rate_that_would_have_no_place_is_refused():
  with pytest.raises(ValueError, match="1 of 20001 is less than 1 / 10,000"):
    places_of([20000, 1])


def test_mixed_order_keeps_the_rates_in_any_range():
  order = MixedOrder(5, [700, 300, 40], places_of([0.6, 0.3, 0.1]))
  for start in (0, 123_456, 10**9):
    counts = np.bincount(order.at(np.arange(start, start + 2000)).parts, minlength=3)
    assert stats.chisquare(counts, 2000 * np.array([0.6, 0.3, 0.1])).pvalue > 1e-3
  # The corpora do not alternate regularly: neighbours are independent.
  parts = order.at(np.arange(5 * BLOCK)).parts
  pairs = np.histogram2d(parts[:-1], parts[1:], 3)[0]
  assert stats.chi2_contingency(pairs).pvalue > 1e-3


def test_mixed_order_permutes_each_corpus_once_an_epoch():
  order = MixedOrder(3, [50, 70], places_of([2, 1]))
  found = order.at(np.arange(3 * BLOCK))
  for part, (start, size) in enumerate([(0, 50), (50, 70)]):
    held = found.parts == part
    indices, epochs = found.indices[held] - start, found.epochs[held]
    assert np.all(np.diff(epochs) >= 0)
    for epoch in (0, 1, 57):
      assert sorted(indices[epochs == epoch].tolist()) == list(range(size))
    assert indices[:size].tolist() != indices[size : 2 * size].tolist()


def test_mixed_order_at_a_position_is_independent_of_others():
  order = MixedOrder(3, [50, 70], places_of([2, 1]))
  positions = np.array([9_998, 3, 10_001, 10**12, 25_000])
  together = order.at(positions)
  for row, position in enumerate(positions):
    assert [column[0] for column in order.at(np.array([position]))] == [column[row] for column in together]


def test_corpora_of_one_size_are_not_permuted_alike():
  found = MixedOrder(0, [1000, 1000], places_of([1, 1])).at(np.arange(BLOCK // 10))
  first, second = (found.indices[found.parts == part] % 1000 for part in (0, 1))
  shared = min(len(first), len(second))
  assert np.mean(first[:shared] == second[:shared]) < 0.05


def test_mixed_order_once_yields_every_image_once():
  once = MixedOrder(1, [30, 12], places_of([1, 9])).once().at(np.arange(42))
  assert sorted(once.indices.tolist()) == list(range(42))
  assert once.parts.tolist() == (once.indices >= 30).astype(int).tolist()


def test_order_seen_counts_epochs_of_each_corpus():
  assert MixedOrder(1, [100, 20], places_of([1, 1])).seen(200) == [1.0, 5.0]
  assert Order(1, [100]).seen(250) == [2.5]
