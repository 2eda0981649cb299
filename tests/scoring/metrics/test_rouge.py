import numpy as np
import pytest

from tests.scoring.metrics.corpora import any_corpus, corpus
from xmcap.scoring import metrics, tokenizers


def _scores(hypotheses, references):
  return metrics.RougeL().statistics(corpus(hypotheses, references))[:, 0]


def test_rouge_l_golden():
  # pycocoevalcap 1.2, Rouge().compute_score on these captions.
  scores = _scores(
    ["a dog runs on the beach at night", "cats sleep", "a man rides a horse", ""],
    [
      ["a dog runs on the beach", "the dog runs on a beach at night"],
      ["two cats sleep on a red sofa"],
      ["man on horse riding", "a horse"],
      ["red"],
    ],
  )
  expected = [0.8798076923076923, 0.40397350993377484, 0.6192893401015228, 0.0]
  np.testing.assert_allclose(scores, expected, atol=1e-12)


@any_corpus(60)
def test_rouge_l_equals_pycocoevalcap(pairs):
  # pycocoevalcap 1.2; an empty caption and an empty reference are equal there, which the next test is about.
  rouge = pytest.importorskip("pycocoevalcap.rouge.rouge", reason="pip install pycocoevalcap")
  hypotheses, references = zip(*pairs, strict=True)
  _, expected = rouge.Rouge().compute_score(
    dict(enumerate(references)), {i: [text] for i, text in enumerate(hypotheses)}
  )
  both_empty = [text == "" and "" in texts for text, texts in pairs]
  scores = _scores(hypotheses, references)
  np.testing.assert_allclose(scores, np.where(both_empty, 0, expected), atol=1e-12)


def test_rouge_l_of_an_empty_caption_is_zero():
  assert _scores(["", ""], [[""], ["a", ""]]).tolist() == [0.0, 0.0]


def test_rouge_l_signature_has_beta():
  assert metrics.RougeL().signature == "beta=1.2,precision=max,recall=max"


def test_rouge_l_f1_equals_rouge_score():
  # rouge-score 0.1.2, RougeScorer(["rougeL"]).score_multi on these captions.
  pairs = [
    (
      "A dog runs on the beach.",
      ["A brown dog running along the beach, near water.", "The dog runs on sand!"],
    ),
    ("Two kids' kites: 3 of them", ["Kids with 3 kites.", "A kite"]),
    ("", ["a dog"]),
    ("A café.", ["A cafe.", "A caf."]),
    ("a b c a b", ["b a c b a", "..."]),
  ]
  split = tokenizers.get("rouge", "en")
  words = metrics.Corpus([split(text) for text, _ in pairs], [split.tokenize(texts) for _, texts in pairs])
  expected = [0.5454545454545454, 0.4, 0, 1, 0.6]
  np.testing.assert_allclose(metrics.RougeLF1().statistics(words)[:, 0], expected, atol=1e-12)
