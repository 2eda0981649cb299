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


@pytest.mark.parametrize("neighbours", [2, 8, 16])
@pytest.mark.parametrize("size", [1, 9, 17, 160, 1_001])
def test_neighbours_show_every_image_once_an_epoch(size, neighbours):
  order = Order(3, [size], neighbours)
  for epoch in (0, 1, 2, 1_000_003):
    found = order.at(np.arange(epoch * size, (epoch + 1) * size))
    assert sorted(found.indices.tolist()) == list(range(size)) and set(found.epochs.tolist()) == {epoch}


def test_chunks_of_neighbours_are_permuted_as_wholes():
  """Nearly all chunks are neighbours in the files, whatever the epoch; and their images are not in order."""
  order = Order(3, [70_001], 8)
  for epoch in (0, 1, 5):
    first = -(-epoch * 70_001 // 8) * 8
    chunks = order.at(np.arange(first, first + 8 * 8_000)).indices.reshape(-1, 8)
    spans = np.ptp(chunks, axis=1)
    assert np.sum(spans != 7) <= 1  # the one that the ends of the files share
    assert np.mean(np.diff(chunks, axis=1) == 1) < 0.2
    begins = np.sort(chunks, axis=1)[:, 0]
    assert stats.kstest(begins[:1_000], stats.uniform(0, 70_001).cdf).pvalue > 1e-3
    assert np.mean(np.abs(np.diff(begins)) < 100) < 0.02


def test_images_of_a_chunk_are_not_the_same_in_each_epoch():
  order = Order(0, [1_000], 8)

  def companions(epoch: int) -> set[int]:
    positions = np.arange(epoch * 1_000, (epoch + 1) * 1_000)
    chunks = positions[order.at(positions).indices == 500] // 8
    return set(order.at(positions[positions // 8 == chunks]).indices.tolist())

  assert len({min(companions(epoch)) for epoch in range(20)}) > 4


def test_order_of_single_images_is_unchanged():
  """Positions of runs that were begun before there were neighbours."""
  assert Order(7, [100_000]).at(np.array([0, 1, 99_999, 100_000])).indices.tolist() == [
    22962,
    14092,
    46344,
    40749,
  ]
  mixed = MixedOrder(7, [50, 70], places_of([2, 1])).at(np.array([0, 1, 9_999, 10_000, 123_456]))
  assert mixed.indices.tolist() == [15, 12, 21, 40, 31]


def test_mixed_order_of_neighbours_keeps_rates_and_epochs():
  order = MixedOrder(3, [50, 70], places_of([2, 1]), 8)
  found = order.at(np.arange(3 * 8 * BLOCK))
  assert np.bincount(found.parts[: 8 * BLOCK]).tolist() == [8 * 6_667, 8 * 3_333]
  for part, (start, size) in enumerate([(0, 50), (50, 70)]):
    rows = found.parts == part
    indices, epochs = found.indices[rows] - start, found.epochs[rows]
    assert np.all(np.diff(epochs) >= 0)
    for epoch in (0, 1, 57):
      assert sorted(indices[epochs == epoch].tolist()) == list(range(size))
  # A chunk is of one corpus.
  assert np.ptp(found.parts.reshape(-1, 8), axis=1).max() == 0


def test_mixed_order_of_neighbours_at_a_position_is_independent_of_others():
  order = MixedOrder(3, [50, 700], places_of([2, 1]), 8)
  positions = np.array([79_998, 3, 80_001, 10**12, 25_000, 25_001, 25_007])
  together = order.at(positions)
  for row, position in enumerate(positions):
    assert [column[0] for column in order.at(np.array([position]))] == [column[row] for column in together]
