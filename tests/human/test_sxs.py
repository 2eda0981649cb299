"""Side-by-side evaluation: wins, losses, delta SxS, intervals and agreement."""

import itertools
import random

import numpy as np
import pytest

from xmcap.errors import UsageError
from xmcap.human import sxs
from xmcap.human.sxs import SxsRating


def _ratings(images, language="en", left="A", right="B"):
  """Ratings of images given as lists of points, positive where B is better, sides alternating."""
  flip = itertools.cycle((False, True))
  return [
    SxsRating(f"k{number}", language, f"r{rater}", right, left, -points)
    if next(flip)
    else SxsRating(f"k{number}", language, f"r{rater}", left, right, points)
    for number, image in enumerate(images)
    for rater, points in enumerate(image)
  ]


@pytest.mark.parametrize(
  "points, outcome",
  [
    ([-1, -3, 3], "win"),
    ([-1, -1, -1], "win"),
    ([-3, 0, 0], "tie"),
    ([-3, 1, 0], "tie"),
    ([-3, 1, 1], "loss"),
    ([0, 0, 0], "tie"),
    ([-1, 1], "tie"),
    ([-1, -1], "win"),
    ([-1, -1, 1, 1], "tie"),
    ([2], "loss"),
  ],
)
def test_sxs_majority_of_raters_decides_an_image(points, outcome):
  # A is the system, since its name comes first.
  (tally,) = sxs.evaluate(_ratings([points]), resamples=0).tallies
  assert (tally.wins, tally.losses, tally.ties) == tuple(
    100.0 * (outcome == name) for name in ("win", "loss", "tie")
  )


def test_sxs_shares_are_of_images():
  (tally,) = sxs.evaluate(_ratings([[-1, -1, 0]] * 3 + [[1, 1, 1]] * 2 + [[0, 1, -1]] * 3)).tallies
  assert (tally.images, tally.wins, tally.losses, tally.ties) == (8, 37.5, 25.0, 37.5)
  assert tally.delta_sxs == 12.5
  assert tally.ratings == 24


def test_sxs_equal_captions_are_ties_and_not_in_agreement():
  rated = _ratings([[-1, -1, 0]] * 3 + [[1, 1, 1]] * 2)
  # Of two pages; an image that people rated is theirs.
  equal = [SxsRating(f"k{number}", "en", "", "A", "B", 0, equal=True) for number in (0, 5, 6, 7, 5, 6, 7)]
  before, after = (sxs.evaluate(ratings, resamples=0) for ratings in (rated, rated + equal))
  (tally,), (of_people,) = after.tallies, before.tallies
  assert (tally.images, tally.wins, tally.losses, tally.ties, tally.delta_sxs) == (8, 37.5, 25.0, 37.5, 12.5)
  for name in ("same_side", "alpha_side", "alpha_scale", "ratings"):
    assert getattr(tally, name) == getattr(of_people, name)
  assert [note for note in after.notes if note not in before.notes] == [
    "ties of equal captions, which nobody was asked about and no agreement counts: 3"
  ]


def test_sxs_tallies_are_per_pair_and_language():
  ratings = _ratings([[1]]) + _ratings([[1]], "de") + _ratings([[1]], right="C")
  tallies = sxs.evaluate(ratings, resamples=0).tallies
  assert [(t.system, t.against, t.language) for t in tallies] == [
    ("A", "B", "de"), ("A", "B", "en"), ("A", "C", "en"),
  ]  # fmt: skip


def test_sxs_baseline_is_the_reference_of_delta_sxs():
  ratings = _ratings([[1]])
  assert sxs.evaluate(ratings).tallies[0].delta_sxs == -100.0
  tally = sxs.evaluate(ratings, baseline="A").tallies[0]
  assert (tally.system, tally.against, tally.delta_sxs) == ("B", "A", 100.0)
  with pytest.raises(UsageError, match="--baseline=C: no ratings of this system; there are: A, B"):
    sxs.evaluate(ratings, baseline="C")


def test_sxs_interval_is_the_bootstrap_over_images():
  outcomes = np.array([1] * 30 + [-1] * 20 + [0] * 50)
  (tally,) = sxs.evaluate(_ratings([[-outcome] * 3 for outcome in outcomes]), resamples=20_000).tallies
  drawn = np.random.default_rng(1).choice(outcomes, (20_000, 100)).mean(1) * 100
  assert (tally.low, tally.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1.0)


def test_sxs_is_independent_of_the_order_of_lines():
  rng = np.random.default_rng(0)
  ratings = _ratings(rng.integers(-3, 4, (30, 3)).tolist())
  shuffled = ratings.copy()
  random.Random(1).shuffle(shuffled)
  assert sxs.evaluate(ratings) == sxs.evaluate(shuffled)


def test_sxs_agreement_of_sides_and_points_equals_krippendorff():
  # krippendorff 0.9.0: nominal over the sides, interval over the points.
  images = [[1, 1, 2], [3, 3, 3], [-2, -1], [0, 0, 1], [2], [-3, -3, -2, -3], [0, 1, 0], [2, 3, 2]]
  (tally,) = sxs.evaluate(_ratings(images)).tallies
  assert tally.alpha_scale == pytest.approx(0.9327354260089686, abs=1e-12)
  assert tally.alpha_side == pytest.approx(0.7014925373134329, abs=1e-12)
  assert tally.same_side == (6 + 6 + 2 + 2 + 12 + 2 + 6) / (6 + 6 + 2 + 6 + 12 + 6 + 6)


def test_sxs_notes_other_numbers_of_raters():
  notes = "\n".join(sxs.evaluate(_ratings([[1, 1, 1], [1, 1], [0], [0]])).notes)
  assert "3 of 4 rated pairs of captions do not have 3 raters: 2 with 1, 1 with 2" in notes
  assert "do not have" not in "\n".join(sxs.evaluate(_ratings([[1, 1]]), raters=2).notes)


def test_sxs_notes_systems_always_on_a_single_side():
  fixed = [SxsRating(f"k{i}", "en", "r", "A", "B", 1) for i in range(10)]
  assert "'A' is on the left of 'B' in all 10 ratings" in "\n".join(sxs.evaluate(fixed).notes)
  assert "on the left" not in "\n".join(sxs.evaluate(_ratings([[1]] * 10)).notes)


def test_sxs_metric_differences_have_the_sign_of_delta_sxs():
  tallies = sxs.evaluate(_ratings([[1]])).tallies
  (pair,) = sxs.with_scores(tallies, {"A": {"en": 0.25, "de": 1.0}, "B": {"en": 0.75}}, "cider")
  assert (pair.m1, pair.m2, pair.delta_sxs, pair.deltas) == ("A", "B", -100.0, {"cider": -0.5})


@pytest.mark.parametrize(
  "scores, message",
  [
    ({"A": {"en": 1.0}}, "system 'B' has ratings but no scores"),
    ({"A": {"en": 1.0}, "B": {"en": 1.0}, "C": {"en": 1.0}}, "system 'C' has scores but no ratings"),
    ({"A": {"en": 1.0}, "B": {"de": 1.0}}, "the scores of 'B' lack en"),
  ],
)
def test_sxs_refuses_scores_that_do_not_match_the_ratings(scores, message):
  with pytest.raises(UsageError, match=message):
    sxs.with_scores(sxs.evaluate(_ratings([[1]])).tallies, scores, "cider")


def test_sxs_csv_keeps_every_digit(tmp_path):
  sxs.evaluate(_ratings([[1, 1, 1], [-1, 0, 0], [-1, 0, 0]]), resamples=0).write(tmp_path)
  assert (tmp_path / "sxs.csv").read_text() == (
    "system,against,language,images,wins,losses,ties,delta_sxs,ratings,same_side,alpha_side,alpha_scale\n"
    "A,B,en,3,0.0,33.33333333333333,66.66666666666666,-33.33333333333333,9,0.5555555555555556,0.3846153846153846,"
    "0.6363636363636364\n"
  )
  assert "| A | B | en | 3 | 0.0 | 33.3 | 66.7 | -33.3 |" in (tmp_path / "sxs.md").read_text()
