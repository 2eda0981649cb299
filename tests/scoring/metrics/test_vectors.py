"""Metrics of embeddings, from given cosines."""

import numpy as np
import pytest

from xmcap.scoring import metrics
from xmcap.scoring.metrics import Corpus, Cosines

# jmhessel/clipscore at 1036465 (get_clip_score and get_refonlyclipscore, numpy 2.4.6) on these vectors.
PICTURES = np.array([[1, 2, 0.5], [0.2, -1, 0.3], [-1, 0, 2]])
CAPTIONS = np.array([[2, 1, 1], [-1, 0.5, 0.1], [0.5, 1, 1]])
REFERENCES = [[[1, 1, 0], [2, 1, 2]], [[-3, 1, 1]], [[0.1, 1, -0.2], [1, 0, 0], [-1, 1, 1]]]
CLIP_SCORES = [2.0044593143431833, 0.0, 1.1180339887498947]
LARGEST = [0.9525793444156804, 0.9669875568304565, 0.5773502691896258]
REF_CLIP_SCORES = [1.2914315705066601, 0.0, 0.7614760150626921]


def cosine(first, second):
  return float(np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second))


def corpus(picture, largest=None, mean=None):
  count = len(picture)
  made = Corpus([["a"]] * count, [[["a"]]] * count)
  zeros = np.zeros(count)
  largest, mean = (zeros if each is None else np.array(each) for each in (largest, mean))
  made.cosines = Cosines(np.array(picture), largest, mean)
  return made


def scores(name, held):
  metric = metrics.CAPTION_METRICS[name]
  return metric.image_scores(metric.statistics(held))


@pytest.fixture
def given():
  of_references = [
    [cosine(caption, each) for each in others] for caption, others in zip(CAPTIONS, REFERENCES, strict=True)
  ]
  pictures = [cosine(*pair) for pair in zip(CAPTIONS, PICTURES, strict=True)]
  return corpus(pictures, [max(each) for each in of_references], [np.mean(each) for each in of_references])


def test_clip_scores_equal_the_reference_implementation(given):
  np.testing.assert_allclose(scores("clip_score", given), CLIP_SCORES, atol=1e-12)
  np.testing.assert_allclose(scores("similarity_max", given), LARGEST, atol=1e-12)
  np.testing.assert_allclose(scores("ref_clip_score", given), REF_CLIP_SCORES, atol=1e-12)


def test_similarity_mean_is_over_references(given):
  assert scores("similarity_mean", given)[0] == pytest.approx((3 / 12**0.5 + 7 / 54**0.5) / 2)


def test_clip_score_of_many_images_is_their_mean(given):
  metric = metrics.CAPTION_METRICS["clip_score"]
  assert metric.aggregate(metric.statistics(given).sum(0), np.float64(3)) == pytest.approx(
    np.mean(CLIP_SCORES)
  )


def test_negative_cosines_in_clip_score_and_similarity():
  held = corpus([-0.5, 0.4, 0.0], largest=[0.8, -0.2, 0.0], mean=[0.1, -0.3, 0.0])
  assert scores("clip_score", held).tolist() == [0, 1, 0]
  assert scores("ref_clip_score", held).tolist() == [0, 0, 0]
  assert scores("similarity_max", held).tolist() == [0.8, -0.2, 0]
  assert scores("similarity_mean", held).tolist() == [0.1, -0.3, 0]


def test_clip_score_without_cosines_is_refused():
  with pytest.raises(ValueError, match="Corpus.cosines"):
    scores("clip_score", Corpus([["a"]], [[["a"]]]))


def test_names_of_metrics_of_vectors():
  assert metrics.parse("similarity,clip_score") == ("clip_score", "similarity_max", "similarity_mean")
  assert not {"clip_score", "similarity_max"} & set(metrics.parse("all"))
