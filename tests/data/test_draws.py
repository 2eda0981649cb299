import numpy as np
import pytest
from scipy import stats

from xmcap.data import draws


def test_mixing_is_splitmix64():
  # The first three outputs of SplitMix64 from state 0, of the reference implementation
  # https://prng.di.unimi.it/splitmix64.c: the finaliser of 1, 2 and 3 times the golden gamma.
  states = np.array([1, 2, 3], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
  expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
  assert [int(value) for value in draws._mix(states)] == expected


def test_uniform_draw_depends_on_its_position_alone():
  positions = np.array([5, 1_000_000_000_000, 7])
  together = draws.uniform(3, "language", positions, 4)
  apart = np.concatenate([draws.uniform(3, "language", positions[i : i + 1], 4) for i in range(3)])
  np.testing.assert_array_equal(together, apart)
  np.testing.assert_array_equal(together[:, :2], draws.uniform(3, "language", positions, 2))


@pytest.mark.parametrize(
  "seed, purpose", [(4, "language"), (3, "augment"), (-3, "language"), (2**63, "language")]
)
def test_seed_and_purpose_separate_draws(seed, purpose):
  positions = np.arange(50)
  one, other = draws.uniform(3, "language", positions, 4), draws.uniform(seed, purpose, positions, 4)
  assert not np.intersect1d(one, other).size


def test_draws_are_uniform():
  numbers = draws.uniform(0, "test", np.arange(50_000), 2)
  assert numbers.min() > 0 and numbers.max() < 1
  counts = np.histogram2d(*numbers.T, bins=10)[0].ravel()
  chi_square = ((counts - 500) ** 2 / 500).sum()  # 99 degrees of freedom: 99.9% lie below 149
  assert chi_square < 149


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1237])
def test_each_epoch_is_a_permutation(size):
  order = draws.permuted(7, np.arange(3 * size), size).reshape(3, size)
  assert (np.sort(order, axis=1) == np.arange(size)).all()
  if size >= 100:
    assert not (order[0] == order[1]).all() and not (order[1] == order[2]).all()


def test_permutation_at_a_far_position_needs_no_replay():
  size = 10**9
  positions = np.array([0, size - 1, 10**15])
  order = draws.permuted(7, positions, size)
  np.testing.assert_array_equal(order[2:], draws.permuted(7, positions[2:], size))
  assert ((order >= 0) & (order < size)).all()


def test_the_seed_changes_the_order():
  positions = np.arange(200)
  assert (draws.permuted(0, positions, 200) != draws.permuted(1, positions, 200)).mean() > 0.9


def chi_square(counts: np.ndarray, degrees: int) -> float:
  """The share of fair draws whose counts, all equally likely, deviate more than these."""
  expected = counts.sum() / counts.size
  return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), degrees)


def table(rows: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
  counts = np.zeros((size, size))
  np.add.at(counts, (rows, columns), 1)
  return counts


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_order_is_uniform_over_epochs(seed):
  size, epochs = 24, 2_000
  order = draws.permuted(seed, np.arange(epochs * size), size).reshape(epochs, size)
  places = np.broadcast_to(np.arange(size), order.shape)
  assert chi_square(table(places, order, size), (size - 1) ** 2) > 1e-3
  # What comes after what, and where a picture is in the epoch after.
  followed = table(order[:, :-1], order[:, 1:], size)[~np.eye(size, dtype=bool)]
  assert chi_square(followed, size * (size - 1) - 1) > 1e-3
  where = np.argsort(order, 1)
  assert chi_square(table(where[:-1], where[1:], size), (size - 1) ** 2) > 1e-3


def test_the_order_of_many_pictures_is_uniform_over_epochs():
  size, epochs, bins = 113_287, 200, 10  # COCO-35L's
  places = np.arange(0, size, size // 40)
  positions = (np.arange(epochs)[:, None] * size + places).ravel()
  order = draws.permuted(0, positions, size).reshape(epochs, -1)
  rows = np.broadcast_to(places * bins // size, order.shape)
  counts = table(rows, order * bins // size, bins)
  assert stats.chi2_contingency(counts).pvalue > 1e-3
  assert chi_square(counts.sum(0), bins - 1) > 1e-3
  # The same place in one epoch and the next.
  again = table(order[:-1] * bins // size, order[1:] * bins // size, bins)
  assert chi_square(again, bins * bins - 1) > 1e-3


@pytest.mark.parametrize("size", [65_536, 65_537, 65_538, 113_287, 131_072, 131_073])
def test_large_permutation_has_every_index_once(size):
  order = draws.permuted(5, np.arange(2 * size), size).reshape(2, size)
  for epoch in order:
    assert (np.bincount(epoch, minlength=size) == 1).all()
  assert (order[0] != order[1]).mean() > 0.9


@pytest.mark.parametrize("size", [65_538, 113_287, 131_072, 3_318_270, 10**9, 2**31, 10**12])
def test_large_permutation_equals_tensorflow_index_shuffle(size):
  tf = pytest.importorskip("tensorflow")
  indices = np.append(np.random.default_rng(0).integers(0, size, 2_000), [0, size - 1])
  keys = (draws.bits(3, "order", np.array([5]), 3) >> np.uint64(32)).astype(np.uint32)
  expected = tf.raw_ops.RandomIndexShuffle(
    index=indices, seed=np.repeat(keys, len(indices), 0), max_index=np.full_like(indices, size - 1), rounds=24
  )
  np.testing.assert_array_equal(draws.permuted(3, 5 * size + indices, size), expected.numpy())


def test_large_permutation_golden_values():
  # As TensorFlow 2.21 had them before numpy did.
  assert draws.permuted(7, np.array([0, 1, 10**9 - 1, 10**9, 10**15]), 10**9).tolist() == [
    642902283,
    983952586,
    507976327,
    18383838,
    238539566,
  ]
