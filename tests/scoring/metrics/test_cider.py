import collections
import math

import hypothesis
import numpy as np
import pytest

from tests.scoring import human_captions
from tests.scoring.metrics.corpora import any_corpus, corpus, drawn
from xmcap.errors import UsageError
from xmcap.scoring import metrics, tokenizers
from xmcap.scoring.metrics import ngrams

_REFERENCES = [
  ["a dog runs on the beach", "the dog runs on a beach at night"],
  ["two cats sleep on a red sofa"],
  ["a man rides a horse", "man on horse riding", "a horse"],
  ["red"],
]
_HYPOTHESES = ["a dog runs on the beach at at at night", "cats sleep", "a man rides a horse", "red"]


def _slow_cider(hypotheses, references):
  """Plain CIDEr from equations 1 to 3 of Vedantam et al. (2015), times 10, with dictionaries and loops."""

  def counts(words, n):
    return collections.Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

  scores = [0.0] * len(references)
  for n in (1, 2, 3, 4):
    frequency = collections.Counter()
    for texts in references:
      frequency.update({gram for text in texts for gram in counts(text.split(), n)})

    def vector(text, n=n, frequency=frequency):
      return {
        gram: count * math.log(len(references) / max(1, frequency[gram]))
        for gram, count in counts(text.split(), n).items()
      }

    for i, texts in enumerate(references):
      hypothesis_vector = vector(hypotheses[i])
      for text in texts:
        reference_vector = vector(text)
        dot = sum(weight * reference_vector.get(gram, 0.0) for gram, weight in hypothesis_vector.items())
        norm = math.hypot(*hypothesis_vector.values()) * math.hypot(*reference_vector.values())
        scores[i] += 10 * (dot / norm if norm else 0.0) / len(texts) / 4
  return scores


def _pycocoevalcap(hypotheses, references):
  """Scores of images by pycocoevalcap 1.2, whose `Cider` is CIDEr-D."""
  cider = pytest.importorskip("pycocoevalcap.cider.cider", reason="pip install pycocoevalcap")
  return cider.Cider().compute_score(
    dict(enumerate(references)), {i: [text] for i, text in enumerate(hypotheses)}
  )[1]


def test_cider_d_golden():
  # pycocoevalcap 1.2, Cider().compute_score on these captions.
  scores = metrics.CiderD().statistics(corpus(_HYPOTHESES, _REFERENCES))[:, 0]
  np.testing.assert_allclose(
    scores, [4.095276443057788, 1.9708120717400714, 4.651766330103579, 2.5], atol=1e-12
  )


def test_aggregate_is_the_mean_over_images():
  metric = metrics.CiderD()
  statistics = metric.statistics(corpus(_HYPOTHESES, _REFERENCES))
  score = metric.aggregate(statistics.sum(axis=0), np.float64(len(statistics)))
  assert score == pytest.approx(3.3044637112253596, abs=1e-12)  # pycocoevalcap 1.2


@any_corpus(60)
def test_cider_d_equals_pycocoevalcap(pairs):
  hypotheses, references = zip(*pairs, strict=True)
  hypothesis.assume(any(text for texts in references for text in texts))  # it fails without a single n-gram
  scores = metrics.CiderD().statistics(corpus(hypotheses, references))[:, 0]
  np.testing.assert_allclose(scores, _pycocoevalcap(hypotheses, references), atol=1e-9)


@any_corpus(60)
def test_cider_equals_the_equations(pairs):
  hypotheses, references = zip(*pairs, strict=True)
  scores = metrics.Cider().statistics(corpus(hypotheses, references))[:, 0]
  np.testing.assert_allclose(scores, _slow_cider(hypotheses, references), atol=1e-9)


def test_cider_d_of_300_images_equals_pycocoevalcap():
  hypotheses, references = zip(*drawn([f"w{i}" for i in range(40)]), strict=True)
  scores = metrics.CiderD().statistics(corpus(hypotheses, references))[:, 0]
  np.testing.assert_allclose(scores, _pycocoevalcap(hypotheses, references), atol=1e-9)


@pytest.mark.full  # words that are drawn have the same n-grams
@human_captions.needs_captions
@pytest.mark.parametrize("language", ["en", "de"])
def test_cider_d_of_real_captions_equals_pycocoevalcap(language):
  tokenize = tokenizers.get("default", language).tokenize
  columns = [tokenize(human_captions.multi30k(f"task2_test_2016.{i}.{language}")) for i in range(1, 6)]
  hypotheses, references = columns[0], list(zip(*columns[1:], strict=True))
  joined = (
    [" ".join(words) for words in hypotheses],
    [[" ".join(words) for words in texts] for texts in references],
  )
  scores = metrics.CiderD().statistics(metrics.Corpus(hypotheses, references))[:, 0]
  assert len(scores) == 1000
  np.testing.assert_allclose(scores, _pycocoevalcap(*joined), atol=1e-9)


def test_stable_order_of_values_beyond_32_bits():
  # Numbers beyond 16 bits take a second pass of the radix sort.
  rng = np.random.default_rng(0)
  values = np.repeat(rng.integers(0, 2**33, 250), 2)
  np.testing.assert_array_equal(ngrams._stable_order(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("metric", [metrics.Cider(), metrics.CiderD()])
def test_empty_captions_score_zero(metric):
  assert metric.statistics(corpus(["", ""], [[""], ["", ""]])).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("metric", [metrics.Cider(), metrics.CiderD()])
def test_cider_of_the_only_reference_is_ten(metric):
  captions = ["a b c d", "e f g h"]
  np.testing.assert_allclose(metric.statistics(corpus(captions, [[text] for text in captions])), 10.0)


def test_corpus_demands_one_hypothesis_per_image():
  for hypotheses, references in ((["a"], [["a"], ["b"]]), (["a"], [[]])):
    with pytest.raises(UsageError, match="each image needs one hypothesis and one or more references"):
      corpus(hypotheses, references)


def test_signatures_tell_the_variants_apart():
  assert metrics.Cider().signature == "n=4,stem=no,scale=10"
  assert metrics.CiderD(sigma=4).signature == "n=4,sigma=4,stem=no,scale=10"
