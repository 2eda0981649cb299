"""Correlation coefficients and their bootstrap intervals, against scipy.stats series by series."""

import numpy as np
import pytest
import scipy.stats

from xmcap.scoring.statistics import correlation


def _series(points=40):
  rng = np.random.default_rng(3)
  x = rng.integers(0, 6, points).astype(np.float64)
  return x, x + rng.normal(size=points).round(1)


@pytest.mark.parametrize(
  "name, reference",
  [
    ("pearson", scipy.stats.pearsonr),
    ("spearman", scipy.stats.spearmanr),
    ("kendall", scipy.stats.kendalltau),
  ],
)
def test_correlation_coefficients_of_many_series_equal_scipy(name, reference):
  x, y = _series()
  draws = np.random.default_rng(5).integers(len(x), size=(7, len(x)))
  expected = [reference(x[draw], y[draw]).statistic for draw in draws]
  np.testing.assert_allclose(correlation.coefficient(name, x[draws], y[draws]), expected, atol=1e-12)


def test_correlation_interval_is_the_percentile_bootstrap_of_scipy():
  x, y = _series()
  result = correlation.correlate(x, y, resamples=2000, seed=1)["pearson"]
  expected = scipy.stats.bootstrap(
    (x, y),
    lambda x, y, axis: scipy.stats.pearsonr(x, y, axis=axis).statistic,
    paired=True, n_resamples=2000, method="percentile", vectorized=True, rng=np.random.default_rng(2),
  ).confidence_interval  # fmt: skip
  assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_correlation_bootstrap_draws_whole_units():
  # Each unit holds a point and its mirror image: every resample has the mean 0, and one unit alone gives 1.
  x = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
  units = np.array([[0, 1], [2, 3], [4, 5]])
  result = correlation.correlate(x, 2 * x, units, resamples=50)["pearson"]
  assert (result.low, result.high) == pytest.approx((1.0, 1.0))


def test_correlation_bootstrap_is_independent_of_chunks(monkeypatch):
  x, y = _series()
  whole = correlation.correlate(x, y, resamples=100)
  monkeypatch.setattr(correlation, "_CHUNK", 7 * len(x))
  assert correlation.correlate(x, y, resamples=100) == whole


def test_correlation_bootstrap_depends_on_the_seed():
  x, y = _series()
  first, same, other = (correlation.correlate(x, y, resamples=50, seed=seed) for seed in (1, 1, 2))
  assert first == same and first != other


def test_correlation_of_a_constant_series_is_none():
  assert correlation.correlate(np.ones(5), np.arange(5.0), resamples=10)["kendall"].value is None


@pytest.mark.parametrize("points", range(5))
def test_correlation_of_fewer_than_five_points_is_none(points):
  x = np.arange(float(points))
  cells = correlation.correlate(x, x, resamples=10, names=correlation.OF_SIGNS)
  assert set(cells.values()) == {correlation.Correlation(None)}
  assert correlation.too_few(points) == [f"no coefficient (-) of {points} points: it takes 5 or more"]
  assert not correlation.too_few(5)


def test_correlation_undefined_resamples_are_counted():
  x = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
  result = correlation.correlate(x, x, resamples=200)["spearman"]
  assert 0 < result.undefined < 200
  assert (result.low, result.high) == pytest.approx((1.0, 1.0))


def test_correlation_json_omits_an_absent_interval():
  assert correlation.Correlation(0.5).as_json() == {"score": 0.5}
  assert correlation.Correlation(0.5, 0.1, 0.9).as_json() == {"score": 0.5, "low": 0.1, "high": 0.9}
