"""THumB's Tables 2 and 3, Figure 2, and agreement."""

import csv
import pathlib
import xml.etree.ElementTree

import pytest

from tests.make import files
from xmcap.human import thumb, thumb_ratings

_SHARED = pathlib.Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="module")
def released():
  path = _SHARED / "thumb" / "mscoco_THumB-1.0.jsonl"
  if not path.is_file():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  return thumb.evaluate(thumb_ratings.read(path))


def _published(name):
  with open(_SHARED / "paper" / name, encoding="utf-8", newline="") as file:
    return {row["model"]: row for row in csv.DictReader(file)}


def _ratings(tmp_path, *rows):
  """Reads ratings given as (system, image, P, R) and, where wanted, annotator."""
  names = ("SYS", "seg_id", "P", "R", "annotator")
  rest = {"hyp": "a dog", "Fl": 0, "Inc": 0, "Con": 0}
  lines = ({**dict(zip(names, row, strict=False)), **rest} for row in rows)
  return thumb_ratings.read(files.jsonl(tmp_path / "ratings.jsonl", *lines))


def test_thumb_table_2_means_equal_the_paper(released):
  printed = _published("thumb_table2.csv")
  assert set(printed) == {system.name for system in released.systems}
  for system in released.systems:
    row = printed[system.name]
    for measure, column in (("P", "precision"), ("R", "recall"), ("total", "total")):
      assert f"{system.means[measure]:.2f}" == row[column], (system.name, measure)
    assert f"{-system.means['Fl']:.3f}" == row["fluency_penalty"], system.name


def test_thumb_table_2_intervals_equal_the_paper(released):
  for system in released.systems:
    low, high = system.intervals["total"]
    half_width = float(_published("thumb_table2.csv")[system.name]["total_ci90_halfwidth"])
    assert (high - low) / 2 == pytest.approx(half_width, abs=0.005), system.name


def test_thumb_table_3_best_equals_the_paper(released):
  printed = {name: int(row["best"]) for name, row in _published("thumb_table3.csv").items()}
  assert {system.name: system.best for system in released.systems} == printed


def test_thumb_table_3_worst_and_strict_counts_of_the_release(released):
  # shared/thumb/README.md
  counts = {s.name: (s.strictly_best, s.worst, s.strictly_worst) for s in released.systems}
  assert counts == {
    "Human": (17, 73, 0),
    "VinVL-large": (0, 136, 0),
    "VinVL-base": (0, 158, 0),
    "Unified-VLP": (0, 199, 0),
    "Up-Down": (0, 284, 11),
  }


def test_thumb_best_and_worst_count_ties_unlike_strict_counts(tmp_path):
  ratings = _ratings(
    tmp_path,
    ("A", "1", 5, 5), ("B", "1", 4, 4),  # A above
    ("A", "2", 4, 4), ("B", "2", 4, 4),  # equal
    ("A", "3", 5, 3), ("B", "3", 3, 5),  # neither
    ("A", "4", 4, 3), ("B", "4", 4, 5),  # B by R alone
  )  # fmt: skip
  a, b = thumb.evaluate(ratings, resamples=0).systems
  assert (a.best, a.strictly_best, a.worst, a.strictly_worst) == (2, 1, 2, 0)
  assert (b.best, b.strictly_best, b.worst, b.strictly_worst) == (2, 0, 2, 1)


def test_thumb_kappa_is_over_captions_rated_by_both(tmp_path):
  # sklearn 1.9.1 cohen_kappa_score([5, 4, 4, 3], [5, 4, 3, 3]): plain and quadratic.
  rows = [("A", str(i), p, 3, "x") for i, p in enumerate([5, 4, 4, 3, 1])]
  rows += [("A", str(i), p, 3, "y") for i, p in enumerate([5, 4, 3, 3])]
  result = thumb.evaluate(_ratings(tmp_path, *rows), resamples=0)
  precision, recall = result.agreement[:2]
  assert (precision.first, precision.second, precision.measure, precision.captions) == ("x", "y", "P", 4)
  assert (precision.kappa, precision.weighted) == pytest.approx((7 / 11, 0.8), abs=1e-12)
  assert recall.kappa is None
  assert "Cohen's kappa" in result.terminal()


def test_thumb_annotators_without_a_common_caption_are_reported(tmp_path):
  result = thumb.evaluate(_ratings(tmp_path, ("A", "1", 5, 5, "x"), ("A", "2", 5, 5, "y")), resamples=0)
  assert not result.agreement
  assert "no two annotators rated the same caption" in result.terminal()


def test_thumb_bootstrap_depends_on_the_seed(tmp_path):
  ratings = _ratings(tmp_path, *(("A", str(i), 1 + i % 5, 3) for i in range(20)))
  first, same, other = (thumb.evaluate(ratings, resamples=50, seed=seed) for seed in (1, 1, 2))
  assert first == same and first.systems != other.systems


def test_thumb_without_resamples_has_no_intervals(tmp_path):
  result = thumb.evaluate(_ratings(tmp_path, ("A", "1", 5, 5)), resamples=0)
  assert result.systems[0].intervals == {}
  assert " low " not in result.terminal()


def test_thumb_histograms_count_each_rating(tmp_path):
  ratings = _ratings(
    tmp_path, ("A", "1", 5, 4, "x"), ("A", "1", 4, 4, "y"), ("B", "1", 5, 1, "x"), ("B", "1", 5, 2, "y")
  )
  histograms = thumb.evaluate(ratings).histograms
  assert histograms["P"] == {5: [1, 2], 4: [1, 0]}
  assert histograms["R"] == {4: [2, 0], 2: [0, 1], 1: [0, 1]}
  assert histograms["Inc"] == {0: [2, 2]}


def test_thumb_figure_2_histograms_of_the_release(released):
  # Counted from the file; a bar of the figure is such a number.
  assert released.histograms["P"][5.0] == [294, 304, 333, 346, 421]
  assert released.histograms["R"] == {
    5: [78, 109, 156, 145, 246],
    4: [149, 188, 172, 204, 186],
    3: [220, 182, 161, 142, 66],
    2: [53, 21, 11, 9, 2],
  }


def test_thumb_figure_2_is_drawn(tmp_path):
  ratings = _ratings(
    tmp_path, ("A <b>", "1", 5, 4), ("A <b>", "2", 2.5, 4), ("B", "1", 5, 1), ("B", "2", 5, 2)
  )
  thumb.evaluate(ratings).write(tmp_path / "out")
  drawn = xml.etree.ElementTree.parse(tmp_path / "out/thumb_histograms.svg").getroot()
  texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
  assert texts[:2] == ["Precision", "A <b>"]
  # Of A's precision: the share of each value, above it; 2.5 counts for 3.
  assert texts[2:12] == ["0%", "1", "0%", "2", "50%", "3", "0%", "4", "50%", "5"]
