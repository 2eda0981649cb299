import random

import hypothesis.strategies as st
import numpy as np
import pytest
import sacrebleu

from tests.scoring.metrics.corpora import any_corpus, as_sacrebleu, corpus, drawn
from xmcap.scoring import metrics

# Few letters, so that n-grams repeat; one outside the Basic Multilingual Plane.
_WORDS = st.text("abcä😀", min_size=1, max_size=4)


def test_chrf_golden():
  # sacreBLEU 2.6.0, CHRF().corpus_score on these captions.
  hypotheses = ["a dog runs on the beach at at at night", "zwei katzen schlafen", "银色 的 跑车", ""]
  references = [
    ["a dog runs on the beach", "the dog runs on a beach at night"],
    ["zwei kätzchen schlafen auf dem sofa"],
    ["银色 的 老式 跑车", "一辆 跑车", "车"],
    ["red"],
  ]
  metric = metrics.Chrf()
  statistics = metric.statistics(corpus(hypotheses, references))
  score = metric.aggregate(statistics.sum(axis=0), np.array(4.0))
  assert score == pytest.approx(59.15284299885241, abs=1e-9)


@any_corpus(60, _WORDS)
def test_chrf_statistics_and_scores_equal_sacrebleu(pairs):
  hypotheses, references = zip(*pairs, strict=True)
  metric, theirs, columns = metrics.Chrf(), sacrebleu.CHRF(), as_sacrebleu(references)
  statistics = metric.statistics(corpus(hypotheses, references))
  np.testing.assert_array_equal(statistics, theirs._extract_corpus_statistics(hypotheses, columns))
  score = metric.aggregate(statistics.sum(axis=0), np.array(float(len(pairs))))
  assert score == pytest.approx(theirs.corpus_score(hypotheses, columns).score, abs=1e-12)
  of_images = [sacrebleu.sentence_chrf(text, list(texts)).score for text, texts in pairs]
  np.testing.assert_allclose(metric.image_scores(statistics), of_images, atol=1e-12)


def test_chrf_statistics_of_200_images_equal_sacrebleu():
  rng = random.Random(0)
  words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 6))) for _ in range(40)]
  hypotheses, references = zip(*drawn(words, 200), strict=True)
  expected = sacrebleu.CHRF()._extract_corpus_statistics(hypotheses, as_sacrebleu(references))
  np.testing.assert_array_equal(metrics.Chrf().statistics(corpus(hypotheses, references)), expected)


def test_chrf_signature_has_the_parameters_of_sacrebleu():
  metric = sacrebleu.CHRF()
  metric.corpus_score(["a"], [["a"]])
  parameters = metric.get_signature().format().replace("|", ",").replace(":", "=")  # 2.6.0
  ours = set(metrics.Chrf().signature.split(","))
  assert set(parameters.split(",")) - ours == {"nrefs=1", f"version={sacrebleu.__version__}"}
