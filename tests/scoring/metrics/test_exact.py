import numpy as np

from xmcap.scoring import metrics


def test_exact_is_equality_of_words_with_one_reference():
  corpus = metrics.Corpus(
    [["a", "b"], ["b", "a"], [], ["c"]], [[["x"], ["a", "b"]], [["a", "b"]], [[]], [["c", "c"]]]
  )
  statistics = metrics.Exact().statistics(corpus)
  assert statistics.tolist() == [[1.0], [0.0], [0.0], [0.0]]
  assert metrics.Exact().aggregate(statistics.sum(axis=0), np.array(4.0)) == 0.25


def test_exact_is_formatted_in_per_cent():
  assert metrics.Exact().format(0.25) == "25.0%"
