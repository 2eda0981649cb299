"""`xmcap score zero-shot --class_curve`: on scores whose law is known, and what it refuses."""

import csv
import math

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.ranked.tables import table
from tests.scoring import embeddings
from xmcap.ranked import class_curve

CLASSES, OF_CLASS = 200, 20
SIZES = (10, 20, 50, 100, 200)


@pytest.fixture
def log_linear(tmp_path):
  """Pictures whose own class has a log-uniform number of rivals above it; returns the options and these numbers."""
  rng = np.random.default_rng(3)
  targets = np.repeat(np.arange(CLASSES), OF_CLASS)
  above = np.minimum(np.floor(CLASSES ** rng.uniform(size=len(targets))) - 1, CLASSES - 1).astype(int)
  scores = rng.permuted(np.tile(np.arange(CLASSES - 1.0), (len(targets), 1)), axis=1)
  own = CLASSES - 1 - above - 0.5  # above that of all but so many rivals
  pictures = np.insert(scores, 0, 0.0, axis=1)
  for row, (target, score) in enumerate(zip(targets.tolist(), own.tolist(), strict=True)):
    pictures[row, : target + 1] = np.append(pictures[row, 1 : target + 1], score)
  (tmp_path / "in/texts").mkdir(parents=True)
  np.save(tmp_path / "in/pictures.npy", pictures.astype(np.float32))
  np.save(tmp_path / "in/texts/en.npy", np.eye(CLASSES, dtype=np.float32))
  np.save(tmp_path / "in/targets.npy", targets)
  files.json(tmp_path / "in/labels.json", {"EN": [[*range(CLASSES)], [f"thing {i}" for i in range(CLASSES)]]})
  names = {"pictures": "pictures.npy", "targets": "targets.npy", "labels": "labels.json", "texts": "texts"}
  return [f"--{name}={tmp_path / 'in' / file}" for name, file in names.items()], above


def test_class_curve_is_the_expectation_over_subsets(log_linear, tmp_path):
  """A picture with k rivals above it is right among n of C classes if none of them is drawn: hypergeometric."""
  options, above = log_linear
  sizes = ",".join(map(str, SIZES))
  out = tmp_path / "out"
  xmcap("score", "zero-shot", *options, f"--out={out}", f"--class_curve={sizes}").succeeded("each doubling")
  rows = list(csv.DictReader((out / "class_curve.csv").read_text().splitlines()))
  draws = {int(row["classes"]): [float(row[f"draw_{number}"]) for number in range(1, 6)] for row in rows}
  every = math.comb
  expected = {
    size: np.mean([every(CLASSES - 1 - k, size - 1) / every(CLASSES - 1, size - 1) for k in above.tolist()])
    for size in SIZES
  }
  for size, of_size in draws.items():
    assert np.mean(of_size) == pytest.approx(expected[size], abs=0.04), size
  assert len(set(draws[200])) == 1 and len(set(draws[10])) == 5
  written = table(out)
  assert draws[200][0] == written["languages"]["en"]["top1"]
  (note,) = (note for note in written["notes"] if "doubling" in note)
  slope, r2 = (
    float(note.partition(before)[2].split(after)[0]) for before, after in (("en ", " "), ("R2 ", ")"))
  )
  assert slope == pytest.approx(100 * np.polyfit(np.log2(SIZES), list(expected.values()), 1)[0], abs=0.6)
  assert 0.9 < r2 < 1 and f"{float(rows[0]['r2']):.3f}" == f"{r2:.3f}"
  page = (out / "report.html").read_text()
  assert page.count("<circle") == len(SIZES) * 5 and "Top-1 over the number of classes" in page


def test_class_curve_fits_a_line_exactly():
  top1 = 0.9 - 0.06 * np.log2(SIZES)[:, None] + np.array([-0.01, 0.01])
  fit = class_curve.ClassCurve(SIZES, top1).fit()
  assert (fit.start, fit.doubling) == (pytest.approx(0.9), pytest.approx(-0.06))
  of_line = np.sum((0.06 * (np.log2(SIZES) - np.log2(SIZES).mean())) ** 2) * 2
  assert fit.r2 == pytest.approx(of_line / (of_line + len(SIZES) * 2 * 0.01**2))
  assert math.isnan(class_curve.ClassCurve((2, 4), np.full((2, 5), 0.5)).fit().r2)


def test_class_curve_of_a_language_ends_at_its_classes(tmp_path):
  options, out = embeddings.zero_shot(tmp_path / "in"), tmp_path / "out"
  xmcap("score", "zero-shot", *options, f"--out={out}", "--class_curve=4,8,12").succeeded()
  rows = list(csv.DictReader((out / "class_curve.csv").read_text().splitlines()))
  assert [row["language"] + row["classes"] for row in rows] == ["de4", "de8", "en4", "en8", "en12"]
  first = (out / "class_curve.csv").read_bytes()
  xmcap("score", "zero-shot", *options, f"--out={out}", "--class_curve=4,8,12").succeeded()
  assert (out / "class_curve.csv").read_bytes() == first
  xmcap("score", "zero-shot", *options, f"--out={out}", "--class_curve=4,8,12", "--seed=1").succeeded()
  assert (out / "class_curve.csv").read_bytes() != first
  xmcap("score", "zero-shot", *options, f"--out={out}").succeeded()
  assert not (out / "class_curve.csv").exists()


@pytest.mark.parametrize("sizes", ["100", "100,50", "1,2", "a,b", "50,,100", "9999999,99999999"])
def test_class_curve_refuses_other_numbers(sizes, tmp_path):
  options = embeddings.zero_shot(tmp_path / "in")
  result = xmcap("score", "zero-shot", *options, f"--out={tmp_path / 'out'}", f"--class_curve={sizes}")
  result.refused("--class_curve", "50,100,200")


def test_class_curve_refuses_numbers_that_no_language_has(tmp_path):
  options = embeddings.zero_shot(tmp_path / "in")
  result = xmcap("score", "zero-shot", *options, f"--out={tmp_path / 'out'}", "--class_curve=12,50")
  result.refused("no language has two")
