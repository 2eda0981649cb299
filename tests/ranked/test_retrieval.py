"""`xmcap score retrieval`, from files to tables, and what it refuses."""

import json
import pickle

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.ranked.tables import table
from tests.scoring import embeddings
from xmcap.ranked import retrieval


def _run(options, out, *more):
  return xmcap("score", "retrieval", *options, f"--out={out}", *more)


@pytest.fixture
def options(tmp_path):
  return embeddings.retrieval(tmp_path / "in")


def _unit(array):
  return array / np.linalg.norm(array, axis=-1, keepdims=True)


def _plain(folder, code, k):
  """R@k both ways by sorting, as the paper defines it."""
  pictures = _unit(np.load(folder / "pictures.npy").astype(np.float64))
  texts = _unit(np.load(folder / f"texts/{code}.npy").astype(np.float64))
  rows = files.rows(folder / "captions.jsonl")
  image = np.array([number for number, row in enumerate(rows) for _ in row[code]["caption"]])
  scores = texts @ pictures.T
  t2i = [number in np.argsort(-row)[:k] for row, number in zip(scores, image, strict=True)]
  i2t = [bool((image[np.argsort(-column)[:k]] == number).any()) for number, column in enumerate(scores.T)]
  return np.mean(t2i), np.mean(i2t)


def test_retrieval_recall_equals_a_plain_reference(options, tmp_path):
  _run(options, tmp_path / "out").succeeded("T2I R@1")
  written = table(tmp_path / "out")
  for code, row in written["languages"].items():
    for k in (1, 5, 10):
      assert (row[f"t2i_r{k}"], row[f"i2t_r{k}"]) == pytest.approx(
        _plain(tmp_path / "in", code, k), abs=1e-12
      )
    assert 0.1 < row["t2i_r1"] < 1 and row["captions"] > row["images"] == 20


def test_retrieval_caption_layouts_give_the_same_scores(options, tmp_path):
  rows = files.rows(tmp_path / "in/captions.jsonl")
  held = {
    "images": [row["image/key"] for row in rows],
    "captions": {code: [row[code]["caption"] for row in rows] for code in ("en", "th")},
  }
  (tmp_path / "pairs.json").write_text(json.dumps(held))
  others = [
    f"--captions={tmp_path / 'pairs.json'}" if "--captions" in option else option for option in options
  ]
  _run(options, tmp_path / "a").succeeded()
  _run(others, tmp_path / "b").succeeded()
  assert (tmp_path / "a/table.json").read_bytes() == (tmp_path / "b/table.json").read_bytes()


def test_retrieval_averages_captions_and_images_equally():
  pictures = np.eye(12, dtype=np.float32)
  # Three captions of the first picture are right, that of each other one finds the next picture.
  image = np.array([0, 0, 0, *range(1, 12)])
  texts = np.concatenate([pictures[[0, 0, 0]], np.roll(pictures, -2, axis=0)[:-1]])
  captions = {"en": retrieval.CaptionRows(image, tuple(f"text {i}" for i in range(14)))}
  result = retrieval.score_retrieval(pictures, [f"{i}" for i in range(12)], captions, {"en": lambda: texts})
  row = result.table.rows["en"]
  assert row["t2i_r1"] == pytest.approx(3 / 14)
  # The first picture ties with the last one's caption; no caption finds the second, so that all 14 tie.
  assert row["i2t_r1"] == pytest.approx((3 / 4 + 1 / 14) / 12)


def test_retrieval_mrr_and_hit_rate_equal_ranx():
  """Expected values: ranx 0.3.21, mrr and hit_rate@k of the same scores."""
  rng = np.random.default_rng(5)
  pictures = rng.normal(size=(12, 6))
  texts = np.repeat(pictures, 3, axis=0) + 1.3 * rng.normal(size=(36, 6))
  captions = {"en": retrieval.CaptionRows(np.arange(36) // 3, tuple(f"text {i}" for i in range(36)))}
  found = retrieval.score_retrieval(
    pictures.astype("f4"), [f"{i:02}" for i in range(12)], captions, {"en": lambda: texts.astype("f4")}
  )
  row = found.table.rows["en"]
  assert [row[f"t2i_{name}"] for name in ("mrr", "r1", "r5", "r10")] == pytest.approx(
    [0.5548941798941799, 0.3333333333333333, 0.8333333333333334, 0.9722222222222222]
  )
  assert [row[f"i2t_{name}"] for name in ("mrr", "r1", "r5", "r10")] == pytest.approx(
    [0.7222222222222222, 0.5833333333333334, 1, 1]
  )
  assert (row["t2i_median_rank"], row["i2t_median_rank"]) == (2, 1)


def test_retrieval_of_collapsed_embeddings_scores_chance(tmp_path):
  count = 50
  captions = {"en": retrieval.CaptionRows(np.arange(count), tuple(f"text {i}" for i in range(count)))}
  same = np.ones((count, 4), np.float32)
  result = retrieval.score_retrieval(same, [f"{i}" for i in range(count)], captions, {"en": lambda: same})
  assert result.table.rows["en"]["t2i_r5"] == pytest.approx(5 / count)
  assert result.table.rows["en"]["i2t_r10"] == pytest.approx(10 / count)
  assert result.table.rows["en"]["t2i_mrr"] == pytest.approx(np.mean(1 / np.arange(1, count + 1)))
  assert result.table.rows["en"]["t2i_median_rank"] == 25.5
  assert any("expected value" in note for note in result.table.notes)


def test_retrieval_confidence_intervals_and_comparisons(options, tmp_path):
  others = embeddings.retrieval(tmp_path / "other", seed=0)
  texts = np.load(tmp_path / "other/texts/en.npy")
  np.save(
    tmp_path / "other/texts/en.npy", texts + np.random.default_rng(1).normal(size=texts.shape).astype("f4")
  )
  _run(options, tmp_path / "a", "--bootstrap=100").succeeded()
  _run(others, tmp_path / "b").succeeded()
  cell = table(tmp_path / "a")["languages"]["en"]["t2i_r1"]
  assert cell["low"] <= cell["score"] <= cell["high"] and cell["low"] < cell["high"]
  folders = tmp_path / "a", tmp_path / "b"
  result = xmcap("compare", *folders, "--metrics=t2i_r1,i2t_r1", "--resamples=100")
  result.succeeded("I2T R@1: b against a")


def _rows(name, width=None, **rows):
  def change(folder):
    array = np.load(folder / name)
    for row, value in rows.items():
      array[int(row[3:])] = value
    np.save(folder / name, array[:, :width])

  return change


def _captions(*keys):
  rows = [{"image/key": key, "en": {"caption": ["a"]}} for key in keys]
  return lambda folder: files.jsonl(folder / "captions.jsonl", *rows)


def _array(name, array):
  return lambda folder: np.save(folder / name, array)


def _nothing(folder):
  pass


@pytest.mark.parametrize(
  "change, more, message",
  [
    (_captions("1"), [], "20 embeddings for 1 picture"),
    (_captions(*map(str, range(20))), [], "for 20 captions"),
    (lambda folder: (folder / "texts/th.npy").unlink(), [], "no embeddings of the captions in th"),
    (_array("texts/en.npy", np.ones((3, 8), "f4")), [], "embed the captions of the file"),
    (_rows("pictures.npy", row3=np.nan), [], "pictures.npy, row 3: holds NaN or infinity"),
    (_rows("texts/th.npy", row2=np.inf), [], "th.npy, row 2: holds NaN or infinity"),
    (_rows("pictures.npy", row5=0), [], "pictures, row 5: an embedding of length 0"),
    (_rows("texts/en.npy", row4=0), [], "texts of en, row 4: an embedding of length 0"),
    (_rows("texts/en.npy", width=5), [], "texts of en: width 5, but pictures: width 8"),
    (_array("pictures.npy", np.array([{}])), [], "a pickle"),
    (lambda folder: (folder / "texts/en.npy").write_bytes(pickle.dumps([1])), [], "a pickle"),
    (lambda folder: (folder / "texts/qq.npy").write_bytes(b""), [], "unknown language 'qq'"),
    (_nothing, ["--languages=jp"], "'ja'"),
    (_nothing, ["--k=1,7"], "--k=1,7: name some of 1, 5, 10"),
    (_nothing, ["--languages=da"], "no captions in da"),
    (_nothing, ["--bootstrap=100001"], "--bootstrap=100001: give a number from 0 to 100,000"),
  ],
)
def test_retrieval_input_errors_are_one_line(options, tmp_path, change, more, message):
  change(tmp_path / "in")
  _run(options, tmp_path / "out", *more).refused(message)


def _pairs(folder, images, captions):
  files.json(folder / "pairs.json", {"images": images, "captions": captions})
  places = ("captions", "pairs.json"), ("pictures", "pictures.npy"), ("texts", "texts")
  return [f"--{name}={folder / place}" for name, place in places]


def test_retrieval_refuses_fewer_candidates_than_k(tmp_path):
  (tmp_path / "texts").mkdir()
  for name in ("pictures", "texts/en"):
    np.save(tmp_path / f"{name}.npy", np.eye(2, dtype=np.float32))
  options = _pairs(tmp_path, [1, 2], {"en": [["a"], ["b"]]})
  message = "R@10 needs at least 10 candidates, but there are only 2 pictures"
  _run(options, tmp_path / "out").refused(message)
  _run(options, tmp_path / "out", "--k=1").succeeded()


@pytest.mark.parametrize(
  "images, captions, message",
  [
    ([1, 1], {"en": [["a"], ["b"]]}, "occurs twice"),
    ([1, 2], {"en": [["a"]]}, "1 lists of captions for 2 images"),
    ([1, 2], {"qq": [["a"], ["b"]]}, "unknown language 'qq'"),
    ([1, 2], {"en": ["a", "b"]}, "not a file of captions"),
  ],
)
def test_retrieval_refuses_malformed_pairs(tmp_path, images, captions, message):
  _run(_pairs(tmp_path, images, captions), tmp_path / "out").refused(message)


def test_retrieval_report_shows_all_ten_metrics(options, tmp_path, page):
  _run(options, tmp_path / "out", "--title=mine & yours").succeeded()
  page.goto((tmp_path / "out/report.html").as_uri())
  assert page.locator("h1").text_content() == "mine & yours"
  assert page.locator(".tile").count() == 10 and page.locator("#heat").count() == 0
  assert "T2I R@k, MRR, nDCG" in page.locator("#reading").text_content()
