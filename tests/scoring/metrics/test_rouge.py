import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from xmcap.scoring import metrics, tokenizers

_caption = st.lists(st.sampled_from("abcde"), max_size=9).map(" ".join)
_corpora = st.lists(st.tuples(_caption, st.lists(_caption, min_size=1, max_size=4)), min_size=1, max_size=8)


def _scores(hypotheses, references):
  corpus = metrics.Corpus(
    [text.split() for text in hypotheses], [[text.split() for text in texts] for texts in references]
  )
  return metrics.RougeL().statistics(corpus)[:, 0]


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


@hypothesis.settings(max_examples=150, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_equals_pycocoevalcap(corpus):
  # pycocoevalcap 1.2; an empty caption and an empty reference are equal there, which the next test is about.
  rouge = pytest.importorskip("pycocoevalcap.rouge.rouge", reason="pip install pycocoevalcap")
  hypotheses, references = zip(*corpus, strict=True)
  _, expected = rouge.Rouge().compute_score(
    dict(enumerate(references)), {i: [text] for i, text in enumerate(hypotheses)}
  )
  both_empty = [text == "" and "" in texts for text, texts in corpus]
  scores = _scores(hypotheses, references)
  np.testing.assert_allclose(scores, np.where(both_empty, 0, expected), atol=1e-12)


def test_rouge_l_of_an_empty_caption_is_zero():
  assert _scores(["", ""], [[""], ["a", ""]]).tolist() == [0.0, 0.0]


def test_signature_tells_beta():
  assert metrics.RougeL().signature == "beta=1.2,precision=max,recall=max"


def test_f1_is_rouge_scores():
  # rouge-score 0.1.2, RougeScorer(["rougeL"]).score_multi on these captions.
  corpus = [
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
  words = metrics.Corpus([split(text) for text, _ in corpus], [split.tokenize(texts) for _, texts in corpus])
  expected = [0.5454545454545454, 0.4, 0, 1, 0.6]
  np.testing.assert_allclose(metrics.RougeLF1().statistics(words)[:, 0], expected, atol=1e-12)
