"""The tokenizers `13a` of sacreBLEU and `rouge` of rouge-score."""

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from xmcap.errors import UsageError
from xmcap.scoring import tokenizers

_TEXTS = ["Two kids' kites: 3 of them", "A café.", "", "1,000 dogs -- or 3-4?", "Tom &amp; Jerry\n"]


def test_13a_is_sacrebleus():
  assert tokenizers.get("13a", "en").tokenize(_TEXTS) == [Tokenizer13a()(text).split() for text in _TEXTS]


def test_rouge_is_rouge_scores():
  # rouge-score 0.1.2, tokenize.tokenize(text, None).
  assert tokenizers.get("rouge", "en").tokenize(_TEXTS) == [
    ["two", "kids", "kites", "3", "of", "them"],
    ["a", "caf"],
    [],
    ["1", "000", "dogs", "or", "3", "4"],
    ["tom", "amp", "jerry"],
  ]


def test_rouge_tokenizer_refuses_non_latin_languages():
  with pytest.raises(UsageError, match="tokeniser 'rouge' has no letters but a to z.*not 'th'"):
    tokenizers.get("rouge", "th")
