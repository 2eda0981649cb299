import random

import numpy as np
import pytest

from xmcap.scoring import metrics
from xmcap.scoring.metrics import document_frequency

_RNG = random.Random(0)


def _caption(longest=10):
  words = [f"w{i}" for i in range(20)]
  return _RNG.choices(words, weights=[1 / (i + 1) for i in range(20)], k=_RNG.randint(0, longest))


def _corpus(images, held=None):
  references = [[_caption() for _ in range(_RNG.randint(1, 3))] for _ in range(images)]
  return metrics.Corpus([_caption() for _ in range(images)], references, held)


def _contains(words, ngram):
  return any(tuple(words[i : i + len(ngram)]) == ngram for i in range(len(words) - len(ngram) + 1))


def _fingerprint(corpus):
  return document_frequency.DocumentFrequency.of(corpus.ngrams).fingerprint


def test_frequencies_of_another_corpus_are_counted_images():
  large, small = _corpus(40), _corpus(6)
  held = document_frequency.DocumentFrequency.of(large.ngrams)
  counts = small.ngrams
  for n, order in enumerate(counts.orders(4), 1):
    ngrams = [tuple(counts.vocabulary[word] for word in counts.words[at : at + n]) for at in order.start]
    expected = [
      sum(any(_contains(text, ngram) for text in texts) for texts in large.references) for ngram in ngrams
    ]
    assert held.frequencies(counts, n).tolist() == expected


@pytest.mark.parametrize("name", ["cider", "cider_d"])
def test_scores_with_the_frequencies_of_the_same_references_are_the_same(name):
  corpus = _corpus(30)
  held = document_frequency.DocumentFrequency.of(corpus.ngrams)
  again = metrics.Corpus(corpus.hypotheses, corpus.references, held)
  metric = metrics.METRICS[name]
  np.testing.assert_allclose(metric.statistics(again), metric.statistics(corpus), atol=1e-12)


def test_one_image_scores_with_the_frequencies_of_many():
  held = document_frequency.DocumentFrequency.of(_corpus(40).ngrams)
  words = ["w0", "w1", "w2", "w3", "w4"]
  corpus = metrics.Corpus([words], [[words]], held)
  assert metrics.Cider().statistics(corpus)[0, 0] == pytest.approx(10.0)
  assert metrics.Cider().statistics(metrics.Corpus([words], [[words]]))[0, 0] == 0.0


def test_fingerprint_ignores_order_and_hypotheses_and_nothing_else():
  corpus = _corpus(25)
  fingerprint = _fingerprint(corpus)
  other = metrics.Corpus(corpus.hypotheses[::-1], corpus.references[::-1])
  assert _fingerprint(other) == fingerprint
  changed = [*corpus.references[:-1], [["w0", "w1", "w19", "w18", "w17"]]]
  assert _fingerprint(metrics.Corpus(corpus.hypotheses, changed)) != fingerprint


def test_a_corpus_without_words():
  corpus = metrics.Corpus([[]], [[[]]])
  held = document_frequency.DocumentFrequency.of(corpus.ngrams)
  assert held.frequencies(_corpus(3).ngrams, 2).sum() == 0
