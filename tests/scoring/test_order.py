"""Scores and signatures are independent of the order of lines and of references."""

import random

import numpy as np
import pytest

from tests.scoring import release
from xmcap.scoring import References, compare, score


def _shuffled(captions: dict, seed: int) -> dict:
  draw = random.Random(seed)
  keys = draw.sample(list(captions), len(captions))
  return {
    key: {
      code: draw.sample(texts, len(texts)) if isinstance(texts, list) else texts
      for code, texts in draw.sample(list(captions[key].items()), len(captions[key]))
    }
    for key in keys
  }


@pytest.mark.parametrize("seed", range(3))
def test_scores_and_signature_are_the_same_in_any_order(seed):
  references, predictions = release.captions(60, seed)
  first = score(references, predictions, metrics="all", bootstrap=20, health=True)
  second = score(
    _shuffled(references, seed), _shuffled(predictions, seed + 9), metrics="all", bootstrap=20, health=True
  )
  assert first.table == second.table and first.health == second.health
  for code, held in first.statistics.items():
    other = second.statistics[code]
    places = [other.keys.index(key) for key in held.keys]
    for name, values in held.values.items():
      np.testing.assert_array_equal(values, other.values[name][places])
  assert all(row.difference == 0 for row in compare({"a": first, "b": second}, resamples=20).rows)


def test_kept_words_are_in_the_order_of_captions():
  references = {"b": {"en": ["Two Dogs", "a dog", "a dog"]}, "a": {"en": ["cats", "a cat"]}}
  predictions = {"b": {"en": "The Dog"}, "a": {"en": "One cat"}}
  words = score(references, predictions, keep="words").words["en"]
  assert words.hypotheses == ("one cat", "the dog")
  assert words.references == (("cats", "a cat"), ("two dogs", "a dog", "a dog"))


@pytest.mark.parametrize("swap", [False, True])
def test_tokenizer_given_keeps_words_with_their_captions(swap):
  texts, given = ["b b", "a a", "a a"], ["B b", "x y", "a z"]
  if swap:
    texts, given = texts[::-1], given[::-1]
  # So many that the release splits as the default does, that the two are no reason to refuse.
  others = ["c"] * 50
  references = References(
    {"k": {"en": texts}, "l": {"en": others}}, tokenized={"k": {"en": given}, "l": {"en": others}}
  )
  result = score(references, {"k": {"en": "a z"}, "l": {"en": "c"}}, tokenizer="given", keep="words")
  assert result.words["en"].references[0] == tuple(text.lower() for text in given)
  assert result.statistics["en"].keys == ("k", "l")


def test_signature_hash_changes_with_references():
  references = {"k": {"en": ["a", "b"]}, "l": {"en": ["c"]}}
  predictions = {"k": {"en": "a"}, "l": {"en": "c"}}
  signatures = {
    score(changed, predictions).table.signature.partition("references:")[2]
    for changed in (
      references,
      {"k": {"en": ["a", "b", "b"]}, "l": {"en": ["c"]}},
      {"k": {"en": ["a", "c"]}, "l": {"en": ["b"]}},
      {"k": {"en": ["a", "a"]}, "l": {"en": ["c"]}},
    )
  }
  assert len(signatures) == 4
