import numpy as np
import pytest

from xmcap.scoring.statistics import resampling
from xmcap.scoring.statistics.sufficient import Statistics


def _scores(values, keys=None, language="en"):
  keys = tuple(keys or (f"k{i:03}" for i in range(len(values))))
  return {language: Statistics(keys, {"cider": np.array(values, float)[:, None]}, len(values))}


def test_interval_is_that_of_scipy():
  scipy_stats = pytest.importorskip("scipy.stats")  # 1.17.1
  values = np.random.default_rng(0).gamma(2.0, size=200)
  samples = resampling.bootstrap(_scores(values), 4000, seed=1)["en"]["cider"]
  expected = scipy_stats.bootstrap(
    (values,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
  ).confidence_interval
  assert resampling.interval(samples) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_images_are_drawn_together_in_all_languages():
  values = np.random.default_rng(0).normal(size=50)
  both = {**_scores(values), **_scores(-values, language="th")}
  mean = resampling.bootstrap(both, 100, seed=0)["2 languages"]["cider"]
  np.testing.assert_allclose(mean, 0.0, atol=1e-12)  # each draw of an image brings a value and its opposite


def test_bootstrap_ignores_the_order_of_images():
  values, keys = [1.0, 5.0, 2.0], ["c", "a", "b"]
  forward = resampling.bootstrap(_scores(values, keys), 50, seed=3)["en"]["cider"]
  backward = resampling.bootstrap(_scores(values[::-1], keys[::-1]), 50, seed=3)["en"]["cider"]
  np.testing.assert_array_equal(forward, backward)


def test_bootstrap_is_determined_by_the_seed(monkeypatch):
  scores = _scores([1.0, 5.0, 2.0, 7.0])
  first = resampling.bootstrap(scores, 30, seed=0)["en"]["cider"]
  np.testing.assert_array_equal(resampling.bootstrap(scores, 30, seed=0)["en"]["cider"], first)
  assert (resampling.bootstrap(scores, 30, seed=1)["en"]["cider"] != first).any()


def test_bootstrap_interval_leaves_out_samples_without_the_language():
  scores = {**_scores([1.0, 2.0, 3.0]), **_scores([4.0], ["k000"], "th")}
  samples = resampling.bootstrap(scores, 200, seed=0)
  assert np.isnan(samples["th"]["cider"]).any()
  assert resampling.interval(samples["th"]["cider"]) == (4.0, 4.0)


def test_exchanged_scores_keep_their_sum():
  first, second = _scores([1.0, 2.0, 6.0]), _scores([3.0, 3.0, 3.0])
  a, b = resampling.exchanged(first, second, 40, seed=0)
  np.testing.assert_allclose(a["en"]["cider"] + b["en"]["cider"], 6.0)
  possible = {round((x + y + z) / 3, 9) for x in (1, 3) for y in (2, 3) for z in (6, 3)}
  assert set(np.round(a["en"]["cider"], 9)) <= possible and len(set(a["en"]["cider"])) > 3


def test_bootstrap_in_several_blocks():
  assert len(resampling.bootstrap(_scores([1.0, 2.0]), 451, seed=0)["en"]["cider"]) == 451
