import random

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import sacrebleu

from xmcap.scoring import metrics

_HYPOTHESES = ["a dog runs on the beach at at at night", "zwei katzen schlafen", "银色 的 跑车", ""]
_REFERENCES = [
  ["a dog runs on the beach", "the dog runs on a beach at night"],
  ["zwei kätzchen schlafen auf dem sofa"],
  ["银色 的 老式 跑车", "一辆 跑车", "车"],
  ["red"],
]

# Few letters, so that n-grams repeat; one outside the Basic Multilingual Plane.
_word = st.text("abcä😀", min_size=1, max_size=4)
_caption = st.lists(_word, max_size=5).map(" ".join)
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


def test_chrf_golden():
  # sacreBLEU 2.6.0, CHRF().corpus_score on these captions.
  metric = metrics.Chrf()
  statistics = metric.statistics(_corpus(_HYPOTHESES, _REFERENCES))
  score = metric.aggregate(statistics.sum(axis=0), np.array(4.0))
  assert score == pytest.approx(59.15284299885241, abs=1e-9)


@hypothesis.settings(max_examples=150, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_statistics_equal_sacrebleu(corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = sacrebleu.CHRF()._extract_corpus_statistics(hypotheses, _sacrebleu_references(references))
  np.testing.assert_array_equal(metrics.Chrf().statistics(_corpus(hypotheses, references)), expected)


@hypothesis.settings(max_examples=60, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_corpus_score_equals_sacrebleu(corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = sacrebleu.CHRF().corpus_score(hypotheses, _sacrebleu_references(references)).score
  metric = metrics.Chrf()
  totals = metric.statistics(_corpus(hypotheses, references)).sum(axis=0)
  assert metric.aggregate(totals, np.array(float(len(corpus)))) == pytest.approx(expected, abs=1e-12)


@hypothesis.settings(max_examples=60, deadline=None, database=None)
@hypothesis.given(_corpora)
def test_image_scores_equal_sacrebleu_sentence_chrf(corpus):
  hypotheses, references = zip(*corpus, strict=True)
  expected = [
    sacrebleu.sentence_chrf(text, list(texts)).score
    for text, texts in zip(hypotheses, references, strict=True)
  ]
  metric = metrics.Chrf()
  scores = metric.image_scores(metric.statistics(_corpus(hypotheses, references)))
  np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_larger_corpus_equals_sacrebleu():
  rng = random.Random(0)
  words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 6))) for _ in range(40)]

  def caption():
    return " ".join(rng.choices(words, weights=[1 / (i + 1) for i in range(40)], k=rng.randint(0, 20)))

  hypotheses = [caption() for _ in range(200)]
  references = [[caption() for _ in range(rng.randint(1, 5))] for _ in range(200)]
  expected = sacrebleu.CHRF()._extract_corpus_statistics(hypotheses, _sacrebleu_references(references))
  np.testing.assert_array_equal(metrics.Chrf().statistics(_corpus(hypotheses, references)), expected)


def test_aggregate_takes_many_sets_of_images():
  metric = metrics.Chrf()
  statistics = metric.statistics(_corpus(_HYPOTHESES, _REFERENCES))
  totals = np.stack([statistics[:2].sum(axis=0), statistics[2:].sum(axis=0)])[None]
  scores = metric.aggregate(totals, np.array([[2.0, 2.0]]))
  assert scores.shape == (1, 2)
  assert scores[0, 1] == metric.aggregate(totals[0, 1], np.array(2.0))


def test_signature_has_the_parameters_of_sacrebleu():
  metric = sacrebleu.CHRF()
  metric.corpus_score(["a"], [["a"]])
  parameters = metric.get_signature().format().replace("|", ",").replace(":", "=")  # 2.6.0
  ours = set(metrics.Chrf().signature.split(","))
  assert set(parameters.split(",")) - ours == {"nrefs=1", f"version={sacrebleu.__version__}"}
