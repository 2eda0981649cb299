"""Inter-rater agreement (kappa, alpha), against scikit-learn 1.9.1 and krippendorff 0.9.0."""

import pytest

from xmcap.human import agreement

_UNITS = [[1, 1, 2], [3, 3, 3], [-2, -1], [0, 0, 1], [2], [-3, -3, -2, -3], [0, 1, 0], [2, 3, 2]]


@pytest.mark.parametrize(
  "first, second, kappa, weighted",
  [
    # sklearn.metrics.cohen_kappa_score(first, second, labels=[1, 2, 3, 4, 5], weights=None and "quadratic").
    ([5, 4, 4, 3, 5, 2, 4, 5, 3, 4, 1, 5], [5, 4, 3, 3, 4, 2, 4, 5, 4, 5, 2, 3], 1 / 3, 0.7096774193548387),
    # Nobody gave 2 or 4: the distances must still be those of the scale.
    ([5, 1, 1, 5, 5, 3, 1], [5, 1, 5, 5, 3, 3, 1], 0.5625, 0.5454545454545454),
  ],
)
def test_cohen_kappa_equals_scikit_learn(first, second, kappa, weighted):
  assert agreement.cohen_kappa(first, second) == pytest.approx(kappa, abs=1e-12)
  assert agreement.cohen_kappa(first, second, squared=True) == pytest.approx(weighted, abs=1e-12)


def test_cohen_kappa_treats_negative_zero_as_zero():
  assert agreement.cohen_kappa([-0.0, 0.0, -0.5], [0.0, 0.0, -0.5]) == 1.0


@pytest.mark.parametrize("ratings", [[], [4, 4, 4]])
def test_cohen_kappa_is_undefined_for_constant_ratings(ratings):
  assert agreement.cohen_kappa(ratings, ratings) is None


@pytest.mark.parametrize("squared, alpha", [(False, 0.3513513513513513), (True, 0.9327354260089686)])
def test_krippendorff_alpha_equals_krippendorff_package(squared, alpha):
  assert agreement.krippendorff_alpha(_UNITS, squared) == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize("units", [[], [[1], [2]], [[1, 1], [1, 1]]])
def test_krippendorff_alpha_is_undefined_without_pairs_or_variety(units):
  assert agreement.krippendorff_alpha(units) is None


def test_agreement_on_many_different_values_takes_proportional_memory():
  first, second = (list(range(start, 100_000 + start)) for start in (0, 1))
  units = list(zip(first, second, strict=True))
  assert agreement.cohen_kappa(first, second, squared=True) == pytest.approx(1, abs=1e-8)
  assert agreement.krippendorff_alpha(units, squared=True) == pytest.approx(1, abs=1e-8)
  assert agreement.krippendorff_alpha(units) == pytest.approx(0, abs=1e-4)


def test_equal_share_counts_pairs_of_raters():
  assert agreement.equal_share([[1, 1, 0], [0, 0], [1]]) == (1 + 1) / (3 + 1)
  assert agreement.equal_share([[1], []]) is None
