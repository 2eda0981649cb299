"""Judgements of captions in the layouts of their writers, and Kendall's tau of metrics with them.

The steps are those of jmhessel/clipscore, flickr8k_example/download.py and compute_metrics.py.
"""

import json

import numpy as np
import pytest
from scipy import stats

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap.human import judgements
from xmcap.scoring import metrics

_TOKENS = {
  "a.jpg#0": "A dog runs .", "a.jpg#1": "The dog is running", "b.jpg#0": "A man on a horse", "b.jpg#1": "a rider",
}  # fmt: skip


@pytest.fixture
def tokens(tmp_path):
  return files.lines(tmp_path / "Flickr8k.token.txt", *(f"{name}\t{text}" for name, text in _TOKENS.items()))


def _rows(judged):
  return [
    *zip(judged.keys, judged.captions, map(list, judged.references), judged.ratings.tolist(), strict=True)
  ]


def test_three_experts_and_no_caption_of_the_image_itself(tmp_path, tokens):
  path = files.lines(
    tmp_path / "ExpertAnnotations.txt",
    "a.jpg\tb.jpg#0\t1\t2\t1",
    "a.jpg\ta.jpg#1\t4\t4\t4",
    "b.jpg\ta.jpg#0\t1\t1\t1",
  )
  references = ["A dog runs .", "The dog is running"]
  assert _rows(judgements.read(path, tokens)) == [
    *(("a.jpg", "A man on a horse", references, rating) for rating in (1.0, 2.0, 1.0)),
    *[("b.jpg", "A dog runs .", ["A man on a horse", "a rider"], 1.0)] * 3,
  ]


def test_shares_of_a_crowd_and_no_judged_caption_among_the_references(tmp_path, tokens):
  path = files.lines(
    tmp_path / "CrowdFlowerAnnotations.txt", "a.jpg\tb.jpg#0\t0.333333333333\t1\t2", "a.jpg\ta.jpg#1\t1\t3\t0"
  )
  assert _rows(judgements.read(path, tokens)) == [
    ("a.jpg", "A man on a horse", ["A dog runs ."], pytest.approx(1 / 3)),
    ("a.jpg", "The dog is running", ["A dog runs ."], 1.0),
  ]


def test_clipscores_file_and_polaris_rows_are_the_same_judgements(tmp_path):
  judged = [{"caption": " a  dog", "rating": 1.0}, {"caption": "two dogs", "rating": 0.5}]
  image = {
    "human_judgement": judged,
    "image_path": "Flicker8k_Dataset/a.jpg",
    "ground_truth": ["the dog", "dogs"],
  }
  of_clipscore = files.json(tmp_path / "flickr8k.json", {"a": image})
  refs = str(["the dog", "dogs"])
  of_polaris = files.csv(
    tmp_path / "polaris.csv",
    ["mt", "refs", "score", "imgid"],
    [" a  dog", refs, 1.0, "a"],
    ["two dogs", refs, 0.5, "a"],
  )
  expected = [("a", "a dog", ["the dog", "dogs"], 1.0), ("a", "two dogs", ["the dog", "dogs"], 0.5)]
  assert _rows(judgements.read(of_clipscore)) == _rows(judgements.read(of_polaris)) == expected


def test_taus_are_scipys_of_each_judgement(tmp_path):
  captions = ["a dog runs", "a cat", "dogs run fast here", "a dog", "the dog runs", "no"]
  ratings = [4, 1, 2, 3, 4, 1]
  rows = [
    {
      "cand": text,
      "refs": ["a dog runs", "the dog is running"],
      "human_score": rating,
      "imgid": str(number // 2),
    }
    for number, (text, rating) in enumerate(zip(captions, ratings, strict=True))
  ]
  path = files.jsonl(tmp_path / "composite.jsonl", *rows)
  xmcap(
    "human",
    "judgements",
    f"--judgements={path}",
    "--metrics=rouge_l,coco_bleu_1",
    f"--out={tmp_path / 'out'}",
  ).succeeded("6 judgements of captions of 3 images")
  written = json.loads((tmp_path / "out" / "judgements.json").read_text(encoding="utf-8"))
  for result in written["correlations"]:
    metric = metrics.CAPTION_METRICS[result["metric"]]
    words = [[text.split() for text in row["refs"]] for row in rows]
    scores = metric.image_scores(
      metric.statistics(metrics.Corpus([text.split() for text in captions], words))
    )
    for variant in "bc":
      expected = stats.kendalltau(scores, ratings, variant=variant)[0]
      assert result[f"tau_{variant}"] == pytest.approx(expected)
    assert "|judgements:6|" in result["signature"]


def test_a_constant_rating_has_no_tau(tmp_path):
  keys, captions = [*"12345"], ["a dog", "a cat", "dogs", "the dog", "a dog runs"]
  judged = judgements.Judgements(keys, captions, [["a dog"]] * 5, np.ones(5))
  (result,) = judgements.correlate(judged, ["rouge_l"]).correlations
  assert (result.tau_b, result.tau_c) == (None, None)


def test_four_judgements_have_no_tau_and_a_note():
  captions = ["a dog", "a cat", "dogs", "the dog"]
  judged = judgements.Judgements([*"1234"], captions, [["a dog"]] * 4, np.arange(4.0))
  findings = judgements.correlate(judged, ["rouge_l"])
  assert (findings.correlations[0].tau_b, findings.correlations[0].tau_c) == (None, None)
  assert findings.notes[0] == "no coefficient (-) of 4 judgements: it takes 5 or more"


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("a.jpg\tc.jpg#0\t1\t2\t1", "line 1: not an image, a caption of"),
    ("a.jpg\tb.jpg#0\t1\t2", "line 1: not an image"),
    ("a.jpg\tb.jpg#0\t1\t2\tnan", "the rating 'nan' is no number"),
    ("a.jpg\ta.jpg#0\t1\t3\t0\na.jpg\ta.jpg#1\t1\t3\t0", "'a.jpg' has no references"),
  ],
)
def test_refused_lines(tmp_path, tokens, line, message):
  assert message in refusal(judgements.read, files.lines(tmp_path / "e.txt", line), tokens)


@pytest.mark.parametrize(
  ("rows", "message"),
  [
    ([{"mt": "a", "refs": ["b"]}], "no human_score or score or rating; there are mt, refs"),
    ([{"mt": "a", "refs": "b", "score": 1, "imgid": 1}], "the references a list of texts"),
    ([{"mt": "a", "refs": [], "score": 1, "imgid": 1}], "'1' has no references for 'a'"),
  ],
)
def test_refused_rows(tmp_path, rows, message):
  assert message in refusal(judgements.read, files.jsonl(tmp_path / "j.jsonl", *rows))
