import random

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import sacrebleu

from xmcap.scoring import metrics, tokenizers

_HYPOTHESES = ["a dog runs on the beach at at at night", "two cats sleep on a sofa", "man rides", ""]
_REFERENCES = [
  ["a dog runs on the beach", "the dog runs on a beach at night"],
  ["two cats sleep on a red sofa"],
  ["a man rides a horse", "man on horse riding", "a horse"],
  ["red"],
]

_caption = st.lists(st.sampled_from("abcde"), max_size=9).map(" ".join)
_corpora = st.lists(st.tuples(_caption, st.lists(_caption, min_size=1, max_size=4)), min_size=1, max_size=8)


def _corpus(hypotheses, references):
  return metrics.Corpus(
    [text.split() for text in hypotheses], [[text.split() for text in texts] for texts in references]
  )


def _sacrebleu_references(references):
  """sacreBLEU wants the first reference of every image, then the second of every image; None for none."""
  return [
    [texts[i] if i < len(texts) else None for texts in references] for i in range(max(map(len, references)))
  ]


def _sacrebleu(n):
  return sacrebleu.BLEU(tokenize="none", force=True, max_ngram_order=n)


# sacreBLEU 2.6.0, BLEU(tokenize="none", force=True, max_ngram_order=n).corpus_score on these captions.
@pytest.mark.parametrize(
  "n, expected",
  [(1, 88.8888888888889), (2, 84.32740427115677), (3, 74.57926280542647), (4, 67.48481562860263)],
)
def test_bleu_golden(n, expected):
  metric = metrics.Bleu(n)
  statistics = metric.statistics(_corpus(_HYPOTHESES, _REFERENCES))
  assert metric.aggregate(statistics.sum(axis=0), np.array(4.0)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@hypothesis.settings(max_examples=40, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_statistics_equal_sacrebleu(n, corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = _sacrebleu(n)._extract_corpus_statistics(hypotheses, _sacrebleu_references(references))
  np.testing.assert_array_equal(metrics.Bleu(n).statistics(_corpus(hypotheses, references)), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@hypothesis.settings(max_examples=40, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_corpus_score_equals_sacrebleu(n, corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = _sacrebleu(n).corpus_score(hypotheses, _sacrebleu_references(references)).score
  metric = metrics.Bleu(n)
  statistics = metric.statistics(_corpus(hypotheses, references))
  assert metric.aggregate(statistics.sum(axis=0), np.array(float(len(corpus)))) == pytest.approx(
    expected, rel=1e-12
  )


@hypothesis.settings(max_examples=40, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_image_scores_equal_sacrebleu_sentence_bleu(corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = [
    sacrebleu.sentence_bleu(text, list(texts), tokenize="none").score
    for text, texts in zip(hypotheses, references, strict=True)
  ]
  metric = metrics.Bleu(4)
  scores = metric.image_scores(metric.statistics(_corpus(hypotheses, references)))
  np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_larger_corpus_equals_sacrebleu():
  rng = random.Random(0)
  words = [f"w{i}" for i in range(40)]

  def caption():
    return " ".join(rng.choices(words, weights=[1 / (i + 1) for i in range(40)], k=rng.randint(0, 20)))

  hypotheses = [caption() for _ in range(300)]
  references = [[caption() for _ in range(rng.randint(1, 5))] for _ in range(300)]
  expected = _sacrebleu(4)._extract_corpus_statistics(hypotheses, _sacrebleu_references(references))
  np.testing.assert_array_equal(metrics.Bleu(4).statistics(_corpus(hypotheses, references)), expected)


def test_aggregate_takes_many_sets_of_images():
  metric = metrics.Bleu(2)
  statistics = metric.statistics(_corpus(_HYPOTHESES, _REFERENCES))
  totals = np.stack([statistics[:2].sum(axis=0), statistics[2:].sum(axis=0)])[None]
  scores = metric.aggregate(totals, np.array([[2.0, 2.0]]))
  assert scores.shape == (1, 2)
  assert scores[0, 1] == metric.aggregate(totals[0, 1], np.array(2.0))


def test_signature_is_that_of_sacrebleu():
  assert metrics.Bleu(3).signature == (
    f"n=3,case=mixed,eff=no,tok=none,smooth=exp,sacrebleu={sacrebleu.__version__}"
  )


def test_sentence_bleu_is_sacrebleus_mean():
  # sacreBLEU 2.6.0, sentence_bleu, on text with upper case and punctuation.
  texts = ["A dog runs on the Beach.", "Two cats", "it's red, red", ""]
  references = [["a dog runs on the Beach, fast.", "A dog."], ["Two cats sleep."], ["It's red."], ["no"]]
  split = tokenizers.get("13a", "en")
  corpus = metrics.Corpus(split.tokenize(texts), [split.tokenize(each) for each in references])
  metric = metrics.CAPTION_METRICS["sentence_bleu"]
  statistics = metric.statistics(corpus)
  expected = [sacrebleu.sentence_bleu(text, each).score for text, each in zip(texts, references, strict=True)]
  np.testing.assert_allclose(metric.image_scores(statistics), expected, atol=1e-9)
  mean = metric.aggregate(statistics.sum(axis=0), np.float64(4))
  assert mean == pytest.approx(np.mean(expected), abs=1e-9)
  assert "eff=yes" in metric.signature
