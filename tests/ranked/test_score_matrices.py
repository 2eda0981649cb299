"""`xmcap score retrieval --scores`, against scikit-learn and plain counting, and what it refuses."""

import json

import numpy as np
import pytest

from tests import lazily
from tests.make.command import xmcap
from xmcap.ranked import score_matrices

metrics = lazily.Module("sklearn.metrics")


def _scores(queries=60, candidates=60, seed=0):
  scores = np.random.default_rng(seed).normal(size=(queries, candidates)).astype("f4")
  scores[np.arange(queries), np.arange(queries) % candidates] += 1.5
  return scores


def _run(folder, *more):
  options = [f"--scores={folder / 'scores.npy'}", "--language=zh", f"--out={folder / 'out'}"]
  return xmcap("score", "retrieval", *options, *more)


def _row(folder):
  return json.loads((folder / "out/table.json").read_text())["languages"]["zh"]


def test_score_matrix_metrics_equal_scikit_learn(tmp_path):
  scores = _scores()
  np.save(tmp_path / "scores.npy", scores)
  result = _run(tmp_path)
  row, right = _row(tmp_path), np.eye(60, dtype=int)
  # In double precision: scikit-learn and NumPy 2.5 sum in that of the scores.
  wanted = metrics.label_ranking_average_precision_score(right, scores.astype(np.float64))
  assert row["mrr"] == pytest.approx(wanted, abs=1e-12)
  places = [int(np.flatnonzero(np.argsort(-of_query) == number)[0]) for number, of_query in enumerate(scores)]
  for k in (1, 5, 10):
    assert row[f"recall_{k}"] == pytest.approx(np.mean([place < k for place in places]))
  assert row["images"] == row["candidates"] == 60
  result.succeeded("median rank", f"{np.median(places) + 1:.1f}", "MRR")


def test_score_matrix_metrics_equal_ranx(tmp_path):
  """Expected values: ranx 0.3.21, mrr and recall@k of the same scores."""
  np.save(tmp_path / "scores.npy", _scores())
  _run(tmp_path).succeeded()
  found = [_row(tmp_path)[name] for name in ("mrr", "recall_1", "recall_5", "recall_10")]
  assert found == pytest.approx([0.3927963537331386, 0.25, 0.5333333333333333, 0.75])


def test_score_matrix_metrics_are_independent_of_chunks(tmp_path, monkeypatch):
  scores = _scores(50, 30, seed=1)
  shuffled = np.random.default_rng(2).permutation(30)
  np.save(tmp_path / "scores.npy", np.asfortranarray(scores[:, shuffled]))
  targets = np.argsort(shuffled)[np.arange(50) % 30]
  (tmp_path / "targets.txt").write_text("\n".join(map(str, targets)) + "\n")
  np.save(tmp_path / "targets.npy", targets)
  _run(tmp_path, f"--targets={tmp_path / 'targets.txt'}").succeeded()
  whole = (tmp_path / "out/table.json").read_bytes()
  monkeypatch.setattr(score_matrices, "_CELLS", 70)
  _run(tmp_path, f"--targets={tmp_path / 'targets.npy'}").succeeded()
  assert (tmp_path / "out/table.json").read_bytes() == whole
  right = scores[np.arange(50), np.arange(50) % 30, None]
  assert _row(tmp_path)["mrr"] == pytest.approx(np.mean(1 / (scores >= right).sum(axis=1)))


def test_score_matrix_of_equal_scores_ranks_worst(tmp_path):
  np.save(tmp_path / "scores.npy", np.zeros((20, 20), "f4"))
  _run(tmp_path).succeeded()
  assert _row(tmp_path)["mrr"] == pytest.approx(1 / 20) and _row(tmp_path)["recall_10"] == 0


def test_score_matrix_intervals_comparison_and_report(tmp_path):
  for name, seed in (("a", 0), ("b", 1)):
    (tmp_path / name).mkdir()
    np.save(tmp_path / name / "scores.npy", _scores(seed=seed))
    _run(tmp_path / name, "--bootstrap=50").succeeded()
  cell = _row(tmp_path / "a")["mrr"]
  assert cell["low"] < cell["score"] < cell["high"]
  assert "<dt>R@k</dt>" in (tmp_path / "a/out/report.html").read_text()
  xmcap("compare", str(tmp_path / "a/out"), f"b={tmp_path / 'b/out'}", "--resamples=50").succeeded(
    "MRR: b against out"
  )


def _with(value):
  scores = _scores(20, 20)
  scores[3, 4] = value
  return scores


@pytest.mark.parametrize(
  "scores, more, message",
  [
    (_with(np.nan), [], "row 3, column 4: the score is NaN or infinite"),
    (_with(np.inf), [], "row 3, column 4: the score is NaN or infinite"),
    (_scores(20, 19), [], "has shape [20, 19]; only a square matrix"),
    (np.zeros(20, "f4"), [], "has shape [20]; scores are [queries, candidates]"),
    (np.zeros((0, 20), "f4"), [], "has shape [0, 20]; scores are [queries, candidates]"),
    (np.zeros((20, 20), "i4"), [], "holds int32; scores are float32"),
    (_scores(5, 5), [], "R@10 needs 10 candidates or more, and there are 5"),
    (_scores(20, 20), ["--targets=TARGETS"], "3 targets for 20 queries"),
    (_scores(3, 20), ["--targets=TARGETS"], "target 99 of query 1 is out of range; there are 20 candidates"),
    (_scores(20, 20), ["--pictures=a.npy"], "leave --pictures out"),
    (_scores(20, 20), ["--keys=TARGETS"], "3 keys for 20 queries"),
    (np.array([[{}]], object), [], "pickle"),
  ],
)
def test_score_matrix_input_errors_are_one_line(tmp_path, scores, more, message):
  np.save(tmp_path / "scores.npy", scores)
  (tmp_path / "targets.txt").write_text("1\n99\n2\n")
  _run(tmp_path, *(word.replace("TARGETS", str(tmp_path / "targets.txt")) for word in more)).refused(message)


def test_score_matrix_needs_a_language(tmp_path):
  np.save(tmp_path / "scores.npy", _scores())
  xmcap("score", "retrieval", f"--scores={tmp_path}/scores.npy", f"--out={tmp_path}/out").refused(
    "give --language=CODE"
  )
  xmcap("score", "retrieval", f"--out={tmp_path}/out").refused(
    "required: --pictures, --captions, --texts; or --scores"
  )
