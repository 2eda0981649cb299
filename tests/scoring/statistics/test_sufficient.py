import numpy as np
import pytest

from xmcap.scoring.statistics.sufficient import Statistics, joint_columns, joint_scores

_EN = Statistics(("b", "a", "c"), {"cider": np.array([[1.0], [2.0], [6.0]])}, 5)
_TH = Statistics(("a",), {"cider": np.array([[4.0]])}, 1)


def test_statistics_row_has_counts_and_means():
  assert _EN.row() == {"images": 3, "references": 5, "cider": 3.0}


def test_image_scores_are_in_the_order_of_the_keys():
  assert _EN.image_scores("cider").tolist() == [1.0, 2.0, 6.0]


def test_totals_of_no_image_give_nan():
  assert np.isnan(_EN.scores(np.zeros((1, 2)))["cider"][0])


def test_joint_columns_have_a_row_per_image():
  keys, columns = joint_columns({"en": _EN, "th": _TH})
  assert keys == ("a", "b", "c")
  # ones and statistics of en, then of th, which lacks b and c
  assert columns.tolist() == [[1, 2, 1, 4], [1, 1, 0, 0], [1, 6, 0, 0]]


def test_joint_scores_of_sets_of_images():
  _, columns = joint_columns({"en": _EN, "th": _TH})
  found = joint_scores({"en": _EN, "th": _TH}, np.array([[1.0, 1, 0], [0, 1, 1]]) @ columns)
  assert found["en"]["cider"].tolist() == [1.5, 3.5]
  assert found["th"]["cider"][0] == 4.0 and np.isnan(found["th"]["cider"][1])
  assert found["2 languages"]["cider"][0] == 2.75 and np.isnan(found["2 languages"]["cider"][1])


def test_bleu_is_that_of_the_totals_and_no_mean():
  sacrebleu = pytest.importorskip("sacrebleu")  # 2.6.0
  from xmcap.scoring import metrics

  texts, references = ["a b c d e", "f g h"], ["a b c d x", "f g h i"]
  corpus = metrics.Corpus([t.split() for t in texts], [[t.split()] for t in references])
  scores = Statistics(("1", "2"), {"bleu_2": metrics.METRICS["bleu_2"].statistics(corpus)}, 2)
  bleu = sacrebleu.metrics.BLEU(tokenize="none", max_ngram_order=2, force=True)
  assert scores.row()["bleu_2"] == pytest.approx(bleu.corpus_score(texts, [references]).score, abs=1e-9)
