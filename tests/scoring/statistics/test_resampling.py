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


def test_the_order_of_the_images_does_not_matter():
  values, keys = [1.0, 5.0, 2.0], ["c", "a", "b"]
  forward = resampling.bootstrap(_scores(values, keys), 50, seed=3)["en"]["cider"]
  backward = resampling.bootstrap(_scores(values[::-1], keys[::-1]), 50, seed=3)["en"]["cider"]
  np.testing.assert_array_equal(forward, backward)


def test_seeds_decide(monkeypatch):
  scores = _scores([1.0, 5.0, 2.0, 7.0])
  first = resampling.bootstrap(scores, 30, seed=0)["en"]["cider"]
  np.testing.assert_array_equal(resampling.bootstrap(scores, 30, seed=0)["en"]["cider"], first)
  assert (resampling.bootstrap(scores, 30, seed=1)["en"]["cider"] != first).any()


def test_a_language_that_was_not_drawn_is_left_out_of_its_interval():
  scores = {**_scores([1.0, 2.0, 3.0]), **_scores([4.0], ["k000"], "th")}
  samples = resampling.bootstrap(scores, 200, seed=0)
  assert np.isnan(samples["th"]["cider"]).any()
  assert resampling.interval(samples["th"]["cider"]) == (4.0, 4.0)


def test_exchanging_keeps_the_sum_of_the_two():
  first, second = _scores([1.0, 2.0, 6.0]), _scores([3.0, 3.0, 3.0])
  a, b = resampling.exchanged(first, second, 40, seed=0)
  np.testing.assert_allclose(a["en"]["cider"] + b["en"]["cider"], 6.0)
  possible = {round((x + y + z) / 3, 9) for x in (1, 3) for y in (2, 3) for z in (6, 3)}
  assert set(np.round(a["en"]["cider"], 9)) <= possible and len(set(a["en"]["cider"])) > 3


def test_more_resamples_than_fit_at_once():
  assert len(resampling.bootstrap(_scores([1.0, 2.0]), 451, seed=0)["en"]["cider"]) == 451
