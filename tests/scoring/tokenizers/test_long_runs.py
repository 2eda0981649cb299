"""Tokenizing the longest captions of one repeated character, which takes segmenters hours if runs are not split."""

import pytest

from xmcap.reading.captions import MAX_CAPTION
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import normalization, segmenters


def _full(*pairs):
  return [pytest.param(*pair, marks=pytest.mark.full) for pair in pairs]


@pytest.mark.parametrize("language, unit", [
  ("zh", "的是"), ("ja", "ー"), ("th", "ー"), ("en", "\u0301\u0316"), ("en", "a."),
  *_full(("zh", "龘"), ("zh", "a哈"), ("ja", "ア"), ("ja", "ก"), ("th", "\u0301\u0316"), ("en", " ")),
])  # fmt: skip
def test_longest_caption_of_one_character_is_tokenized(language, unit):
  caption = (unit * MAX_CAPTION)[:MAX_CAPTION]
  words = tokenizers.get("default", language).tokenize([caption])[0]
  normalized = normalization.Normalizer(language)([caption])[0]
  assert "".join(words) == "".join(normalized.split())


def test_run_of_characters_up_to_the_limit_is_not_split():
  for length in (999, 1000):
    text = f"{'a' * length} {'b' * length}"
    assert segmenters._bounded(text) == text
  assert segmenters._bounded("a" * 2001) == f"{'a' * 1000} {'a' * 1000} a"


@pytest.mark.parametrize("language, unit, word", [("ja", "あ", "東京"), ("th", "a", "ไทย")])
def test_run_of_characters_beyond_the_limit_is_split(language, unit, word):
  tokenize = tokenizers.get("default", language).tokenize
  assert tokenize([unit * (1000 - len(word)) + word])[0][-1] == word
  assert tokenize([unit * 999 + word])[0][-2:] == [word[0], word[1:]]
