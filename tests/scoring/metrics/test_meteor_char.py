"""METEOR on characters, against a search through all alignments; test_coco_cn.py has scores of COCO-CN."""

import random

import numpy as np
import pytest

from xmcap.scoring.metrics import METRICS, Corpus, meteor_char, parse

_METRIC = METRICS["meteor_char"]


def _all_alignments(hypothesis, reference, number=0, used=frozenset(), last=-1):
  """Yields (matches as a negative number, chunks, displacement) of each alignment of a caption from a token on."""
  if number == len(hypothesis):
    yield 0, 0, 0
    return
  yield from _all_alignments(hypothesis, reference, number + 1, used)
  for place, token in enumerate(reference):
    if token == hypothesis[number] and place not in used:
      begins = last < 0 or place != last + 1
      for matches, chunks, moved in _all_alignments(hypothesis, reference, number + 1, used | {place}, place):
        yield matches - 1, chunks + begins, moved + abs(number - place)


def test_meteor_char_alignment_equals_exhaustive_search():
  rng = random.Random(1)
  for _ in range(500):
    hypothesis = "".join(rng.choices("abc", k=rng.randint(0, 6)))
    reference = "".join(rng.choices("abcd", k=rng.randint(0, 6)))
    matches, chunks, moved = min(_all_alignments(hypothesis, reference))
    assert meteor_char.align(hypothesis, reference) == (-matches, chunks, moved), (hypothesis, reference)


def test_meteor_char_by_hand():
  corpus = Corpus([["红色", "的", "iPhone"]], [[["iPhone", "是", "红色"], ["大", "海"]]])
  # Four tokens each; 红, 色 and iPhone match, in two chunks.
  statistics = _METRIC.statistics(corpus)
  np.testing.assert_array_equal(statistics, [[4, 4, 3, 2]])
  assert _METRIC.image_scores(statistics) == pytest.approx(0.75 * (1 - 0.6 * (2 / 3) ** 0.2))


def test_captions_equal_to_a_reference_score_one_and_empty_ones_zero():
  corpus = Corpus([["大海"], ["红", "花"], []], [[["大", "海"]], [["红花"]], [["红花"]]])
  statistics = _METRIC.statistics(corpus)
  np.testing.assert_array_equal(_METRIC.image_scores(statistics), [1, 1, 0])
  assert _METRIC.aggregate(statistics[:2].sum(axis=0), np.float64(2)) == 1
  assert 0 < _METRIC.aggregate(statistics.sum(axis=0), np.float64(3)) < 1


@pytest.mark.parametrize("pair", [("的" * 10_000, "的" * 10_000), ("的海" * 5_000, "海的" * 5_000)])
def test_meteor_char_of_the_longest_captions(pair):
  assert meteor_char.align(*pair)[0] == 10_000  # hours, if its time were not bounded


def test_meteor_char_is_not_among_all():
  assert "meteor_char" not in parse("all") and parse("meteor_char") == ("meteor_char",)
