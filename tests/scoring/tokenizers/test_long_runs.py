"""Tokenizing the longest captions of one repeated character within a time limit."""

import time

import pytest

from xmcap.reading.captions import MAX_CAPTION
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import normalization, segmenters

_SECONDS = 20


@pytest.mark.parametrize("language, unit", [
  ("zh", "龘"), ("zh", "的是"), ("zh", "a哈"), ("ja", "ー"), ("ja", "ア"), ("ja", "ก"), ("th", "ー"),
  ("th", "\u0301\u0316"), ("en", "\u0301\u0316"), ("en", " "), ("en", "a."),
])  # fmt: skip
def test_longest_caption_of_one_character_is_tokenized_in_seconds(language, unit):
  tokenizer = tokenizers.get("default", language)
  tokenizer.tokenize(["x"])  # loads what it needs
  start = time.monotonic()
  words = tokenizer.tokenize([(unit * MAX_CAPTION)[:MAX_CAPTION]])[0]
  assert time.monotonic() - start < _SECONDS
  given = normalization.Normalizer(language)([(unit * MAX_CAPTION)[:MAX_CAPTION]])[0]
  assert "".join(words) == "".join(given.split())


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
