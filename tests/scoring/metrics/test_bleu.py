import numpy as np
import pytest
import sacrebleu

from tests.scoring.metrics.corpora import any_corpus, as_sacrebleu, corpus, drawn
from xmcap.scoring import metrics, tokenizers

_HYPOTHESES = ["a dog runs on the beach at at at night", "two cats sleep on a sofa", "man rides", ""]
_REFERENCES = [
  ["a dog runs on the beach", "the dog runs on a beach at night"],
  ["two cats sleep on a red sofa"],
  ["a man rides a horse", "man on horse riding", "a horse"],
  ["red"],
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
  statistics = metric.statistics(corpus(_HYPOTHESES, _REFERENCES))
  assert metric.aggregate(statistics.sum(axis=0), np.array(4.0)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [1, 4])
@any_corpus(40)
def test_bleu_statistics_and_corpus_score_equal_sacrebleu(n, pairs):
  hypotheses, references = zip(*pairs, strict=True)
  metric, theirs = metrics.Bleu(n), _sacrebleu(n)
  statistics = metric.statistics(corpus(hypotheses, references))
  columns = as_sacrebleu(references)
  np.testing.assert_array_equal(statistics, theirs._extract_corpus_statistics(hypotheses, columns))
  score = metric.aggregate(statistics.sum(axis=0), np.array(float(len(pairs))))
  assert score == pytest.approx(theirs.corpus_score(hypotheses, columns).score, rel=1e-12)


@any_corpus(40)
def test_bleu_image_scores_equal_sacrebleu_sentence_bleu(pairs):
  expected = [sacrebleu.sentence_bleu(text, list(texts), tokenize="none").score for text, texts in pairs]
  metric = metrics.Bleu(4)
  scores = metric.image_scores(metric.statistics(corpus(*zip(*pairs, strict=True))))
  np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_bleu_statistics_of_300_images_equal_sacrebleu():
  hypotheses, references = zip(*drawn([f"w{i}" for i in range(40)]), strict=True)
  expected = _sacrebleu(4)._extract_corpus_statistics(hypotheses, as_sacrebleu(references))
  np.testing.assert_array_equal(metrics.Bleu(4).statistics(corpus(hypotheses, references)), expected)


@pytest.mark.parametrize("metric", [metrics.Bleu(2), metrics.Chrf()])
def test_bleu_and_chrf_aggregate_many_sets_of_images(metric):
  statistics = metric.statistics(corpus(_HYPOTHESES, _REFERENCES))
  totals = np.stack([statistics[:2].sum(axis=0), statistics[2:].sum(axis=0)])[None]
  scores = metric.aggregate(totals, np.array([[2.0, 2.0]]))
  assert scores.shape == (1, 2)
  assert scores[0, 1] == metric.aggregate(totals[0, 1], np.array(2.0))


def test_bleu_signature_is_that_of_sacrebleu():
  assert metrics.Bleu(3).signature == (
    f"n=3,case=mixed,eff=no,tok=none,smooth=exp,sacrebleu={sacrebleu.__version__}"
  )


def test_sentence_bleu_is_the_mean_of_sacrebleu():
  # sacreBLEU 2.6.0, sentence_bleu, on text with upper case and punctuation.
  texts = ["A dog runs on the Beach.", "Two cats", "it's red, red", ""]
  references = [["a dog runs on the Beach, fast.", "A dog."], ["Two cats sleep."], ["It's red."], ["no"]]
  split = tokenizers.get("13a", "en")
  words = metrics.Corpus(split.tokenize(texts), list(map(split.tokenize, references)))
  metric = metrics.CAPTION_METRICS["sentence_bleu"]
  statistics = metric.statistics(words)
  expected = [sacrebleu.sentence_bleu(text, own).score for text, own in zip(texts, references, strict=True)]
  np.testing.assert_allclose(metric.image_scores(statistics), expected, atol=1e-9)
  mean = metric.aggregate(statistics.sum(axis=0), np.float64(4))
  assert mean == pytest.approx(np.mean(expected), abs=1e-9)
  assert "eff=yes" in metric.signature


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_coco_bleu_equals_pycocoevalcap(n):
  scorer = pytest.importorskip("pycocoevalcap.bleu.bleu")
  theirs, of_each = scorer.Bleu(4).compute_score(
    dict(enumerate(_REFERENCES)), {number: [text] for number, text in enumerate(_HYPOTHESES)}, verbose=0
  )
  metric = metrics.CocoBleu(n)
  statistics = metric.statistics(corpus(_HYPOTHESES, _REFERENCES))
  assert metric.aggregate(statistics.sum(axis=0), np.array(4.0)) == pytest.approx(theirs[n - 1], rel=1e-12)
  np.testing.assert_allclose(metric.image_scores(statistics), of_each[n - 1], rtol=1e-9)
