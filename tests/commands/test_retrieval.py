"""`xmcap retrieval scores`, `fuse`, `top`: cosines, the weight of validation, nearest sentences, what they refuse."""

import json

import numpy as np
import pytest

from tests.make import files
from tests.make.command import Result, xmcap
from tests.options import changed
from xmcap.data import big_file
from xmcap.human import annotation_page
from xmcap.ranked import fusion, score_matrices


def _write(folder, count=40, seed=0):
  """Writes two noisy matrices of validation and of test; returns them."""
  rng, found = np.random.default_rng(seed), {}
  for split in ("val", "test"):
    for name, noise in (("cl", 0.3), ("cm", 0.6)):
      found[split, name] = (np.eye(count) + noise * rng.normal(size=(count, count))).astype("f4")
      np.save(folder / f"{split}_{name}.npy", found[split, name])
  return found


def _options(folder):
  given = [("scores", "test"), ("validation_scores", "val")]
  return [f"--{option}={folder}/{split}_{name}.npy" for option, split in given for name in ("cl", "cm")]


def _fuse(folder, *more) -> Result:
  return xmcap("retrieval", "fuse", *_options(folder), *changed([f"--out={folder}/out/fused.npy"], more))


def _mrr(scores):
  return float(np.mean(1 / (scores >= np.diag(scores)[:, None]).sum(axis=1)))


def test_retrieval_fuse_weight_is_the_best_of_validation(tmp_path):
  held = _write(tmp_path)
  _fuse(tmp_path).succeeded("w 0.", ": MRR")
  found = json.loads((tmp_path / "out/fused.json").read_text())
  by_weight = {
    f"{number / 100:.2f}": _mrr(fusion.mixed(held["val", "cl"], held["val", "cm"], number / 100))
    for number in range(100)
  }
  assert found["validation_mrr_by_w"] == pytest.approx(by_weight)
  best = max(by_weight.values())
  assert found["w"] == min(float(w) for w, mrr in by_weight.items() if mrr > best - 1e-12)
  assert found["validation_mrr"] == pytest.approx(best) and best > max(by_weight["0.00"], by_weight["0.99"])
  wanted = fusion.mixed(held["test", "cl"], held["test", "cm"], found["w"])
  np.testing.assert_array_equal(np.load(tmp_path / "out/fused.npy"), wanted)


def test_retrieval_fuse_is_the_same_in_chunks(tmp_path, monkeypatch):
  _write(tmp_path)
  _fuse(tmp_path).succeeded()
  whole = (tmp_path / "out/fused.npy").read_bytes(), json.loads((tmp_path / "out/fused.json").read_text())
  monkeypatch.setattr(score_matrices, "_CELLS", 100)
  _fuse(tmp_path).succeeded()
  assert (tmp_path / "out/fused.npy").read_bytes() == whole[0]
  found = json.loads((tmp_path / "out/fused.json").read_text())
  assert found["w"] == whole[1]["w"]
  assert found["validation_mrr_by_w"] == pytest.approx(whole[1]["validation_mrr_by_w"])


def test_retrieval_fuse_chooses_the_weight_without_test_scores(tmp_path, monkeypatch):
  _write(tmp_path)
  read, chunks, write = [], score_matrices.Matrix.chunks, fusion.write

  def noted(self):
    read.append(self.path.name)
    return chunks(self)

  def noted_write(*arguments):
    read.append("chosen")
    write(*arguments)

  monkeypatch.setattr(score_matrices.Matrix, "chunks", noted)
  monkeypatch.setattr(fusion, "write", noted_write)
  _fuse(tmp_path).succeeded()
  assert read == ["val_cl.npy", "val_cm.npy", "chosen", "test_cl.npy", "test_cm.npy"]


def _changed(name, change):
  def change_file(folder):
    path = folder / f"{name}.npy"
    np.save(path, change(np.load(path)))

  return change_file


def _with_nan(scores):
  scores[1, 2] = np.nan
  return scores


@pytest.mark.parametrize(
  "change, more, message",
  [
    (_changed("val_cm", _with_nan), [], "val_cm.npy, row 1, column 2: the score is NaN"),
    (_changed("test_cl", _with_nan), [], "test_cl.npy, row 1, column 2: the score is NaN"),
    (_changed("test_cm", lambda scores: scores[:30]), [], "test_cm.npy: has shape [30, 40], and"),
    (_changed("val_cm", lambda scores: scores[:, :30]), [], "val_cm.npy: has shape [40, 30], and"),
    (_changed("val_cl", lambda scores: scores[0]), [], "val_cl.npy: has shape [40]; scores are"),
    (
      lambda folder: (folder / "val_cl.npy").write_bytes(b"\x80\x04K\x01."),
      [],
      "a pickle, which can run code",
    ),
    (lambda folder: None, ["--scores=c.npy"], "--scores names 3 files"),
    (lambda folder: None, ["--out=fused.npz"], "--out=fused.npz: is written as .npy"),
  ],
)
def test_retrieval_fuse_input_errors_are_one_line(tmp_path, change, more, message):
  _write(tmp_path)
  change(tmp_path)
  _fuse(tmp_path, *more).refused(message)
  assert not (tmp_path / "out").exists()


def test_retrieval_fuse_does_not_overwrite_an_input(tmp_path):
  _write(tmp_path)
  _fuse(tmp_path, f"--out={tmp_path}/test_cl.npy").refused("would overwrite the input --scores")


def _embeddings(folder, **change):
  rng = np.random.default_rng(0)
  arrays = {
    "queries": rng.normal(size=(30, 4)).astype("f4"),
    "candidates": rng.normal(size=(20, 4)).astype("f4"),
  }
  for name, array in {**arrays, **change}.items():
    np.save(folder / f"{name}.npy", array, allow_pickle=True)
  return arrays


def _cosines(folder, *more) -> Result:
  inputs = [f"--{name}={folder}/{name}.npy" for name in ("queries", "candidates")]
  return xmcap("retrieval", "scores", *inputs, f"--out={folder}/scores.npy", *more)


def test_retrieval_scores_are_cosines_in_chunks(tmp_path, monkeypatch):
  held = _embeddings(tmp_path)
  monkeypatch.setattr(score_matrices, "_CELLS", 70)
  _cosines(tmp_path).succeeded()
  queries, candidates = (array / np.linalg.norm(array, axis=1, keepdims=True) for array in held.values())
  found = np.load(tmp_path / "scores.npy")
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, queries @ candidates.T, atol=1e-6)
  _cosines(tmp_path, "--similarity=dot").succeeded()
  dot = held["queries"] @ held["candidates"].T
  np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), dot, atol=1e-5)


def test_retrieval_top_orders_a_pool_by_ids(tmp_path):
  """As FeatureData of COCO-CN's annotation system, whose `sent7` is line 7 from 0."""
  texts = [f"第{number}句" for number in range(12)]
  _, pool = _pool(tmp_path, texts)
  _top(tmp_path).succeeded()
  wanted = (tmp_path / "top.jsonl").read_bytes()
  order = np.random.default_rng(1).permutation(12)
  big_file.write(tmp_path / "big", [f"sent{number}" for number in order], pool[order])
  _top(tmp_path, f"--candidates={tmp_path / 'big'}").succeeded()
  assert (tmp_path / "top.jsonl").read_bytes() == wanted
  big_file.write(tmp_path / "other", [f"sent{number + 1}" for number in range(12)], pool)
  other = _top(tmp_path, f"--candidates={tmp_path / 'other'}")
  other.refused("its ids do not number the sentences from 0")


@pytest.mark.parametrize(
  "change, message",
  [
    ({"queries": np.ones((3, 5), "f4")}, "queries: width 5, but candidates: width 4"),
    ({"queries": np.zeros((3, 4), "f4")}, "queries, row 0: an embedding of length 0"),
    ({"candidates": np.full((3, 4), np.nan, "f4")}, "candidates.npy, row 0: holds NaN or infinity"),
    ({"candidates": np.array([{}])}, "a pickle"),
  ],
)
def test_retrieval_scores_refuse_malformed_embeddings(tmp_path, change, message):
  _embeddings(tmp_path, **change)
  _cosines(tmp_path).refused(message)
  assert not (tmp_path / "scores.npy").exists()


def _pool(folder, texts, pictures=7, width=6, seed=0):
  """Writes a pool of sentences, its embeddings and pictures as `xmcap embed` does; returns both embeddings."""
  rng = np.random.default_rng(seed)
  held = rng.normal(size=(pictures, width)).astype("f4"), rng.normal(size=(len(texts), width)).astype("f4")
  (folder / "photos").mkdir()
  np.save(folder / "photos/pictures.npy", held[0])
  (folder / "photos/keys.txt").write_text("".join(f"p{number}\n" for number in range(pictures)))
  np.save(folder / "pool.npy", held[1])
  (folder / "pool.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
  return held


def _top(folder, *more) -> Result:
  inputs = [f"--queries={folder}/photos", f"--candidates={folder}/pool.npy", f"--sentences={folder}/pool.txt"]
  return xmcap("retrieval", "top", *changed([*inputs, "--language=zh", f"--out={folder}/top.jsonl"], more))


def test_retrieval_top_equals_scikit_learn_nearest_neighbors(tmp_path, monkeypatch):
  from sklearn.neighbors import NearestNeighbors

  texts = [f"第{number}句" for number in range(30)]
  pictures, pool = _pool(tmp_path, texts)
  monkeypatch.setattr(score_matrices, "_CELLS", 100)  # three pictures at once
  _top(tmp_path, "--k=4").succeeded("4 of 30 different sentences for each of 7 pictures")
  rows = files.rows(tmp_path / "top.jsonl")
  far, places = NearestNeighbors(n_neighbors=4, metric="cosine").fit(pool).kneighbors(pictures)
  assert [row["image/key"] for row in rows] == [f"p{number}" for number in range(7) for _ in range(4)]
  assert [row["caption"] for row in rows] == [texts[place] for place in places.reshape(-1)]
  assert [row["score"] for row in rows] == pytest.approx((1 - far).reshape(-1), abs=1e-5)
  # The page for annotators takes them as they are.
  suggested = annotation_page.read_sentences([tmp_path / "top.jsonl"], "zh")
  assert suggested["p0"] == [texts[place] for place in places[0]]


def test_retrieval_top_deduplicates_and_keeps_pool_order_of_ties(tmp_path):
  _pool(tmp_path, ["a", "b", "a", "c", "d"])
  np.save(tmp_path / "pool.npy", np.array([[1, 0], [1, 1], [0, 1], [1, 1], [2, 2]], "f4"))
  np.save(tmp_path / "photos/pictures.npy", np.tile(np.array([1, 1], "f4"), (7, 1)))
  _top(tmp_path, "--k=9").succeeded()
  rows = files.rows(tmp_path / "top.jsonl")
  assert [row["caption"] for row in rows[:4]] == ["b", "c", "d", "a"] and len(rows) == 4 * 7


@pytest.mark.parametrize(
  "change, message",
  [
    (lambda folder: (folder / "pool.txt").write_text("a\n"), "3 embeddings for 1 sentence in 'zh'"),
    (lambda folder: (folder / "photos/keys.txt").write_text("p0\n"), "1 key for 7 rows"),
    (lambda folder: (folder / "photos/keys.txt").unlink(), "keys.txt: cannot be read"),
    (lambda folder: np.save(folder / "pool.npy", np.ones((3, 2), "f4")), "width 6, but candidates: width 2"),
  ],
)
def test_retrieval_top_refuses_a_mismatched_pool(tmp_path, change, message):
  _pool(tmp_path, ["a", "b", "c"])
  change(tmp_path)
  _top(tmp_path).refused(message)
  assert not (tmp_path / "top.jsonl").exists()
