"""What all tokenisers have in common, and the small ones: char, whitespace, sacreBLEU's 13a, rouge-score's rouge."""

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from tests.make.refusals import refusal
from xmcap.scoring import tokenizers


@pytest.mark.parametrize("name", [name for name in tokenizers.TOKENIZERS if name != "ptb"])
def test_tokenizer_words_have_no_white_space(name):
  texts = ["a\u00a0b\u3000c\u2028d\x1ce\x85f", "1\u00a01/2"]
  assert all(word.split() == [word] for words in tokenizers.get(name, "en").tokenize(texts) for word in words)


@pytest.mark.parametrize("name", ["default", "char", "raw", "split", "whitespace"])
def test_tokenizers_split_references_as_predictions(name):
  tokenizer = tokenizers.get(name, "en")
  assert tokenizer.tokenize_references(["A b."], ["c"]) == tokenizer.tokenize(["A b."])


@pytest.mark.parametrize("name", ["char", "whitespace"])
def test_tokenizers_take_a_batch(name):
  assert tokenizers.get(name, "en").tokenize(["a b", "", "c"]) == [["a", "b"], [], ["c"]]


def test_tokenizers_get_caches_tokenizers():
  assert tokenizers.get("default", "en") is tokenizers.get("default", "en")


def test_unknown_tokenizers_and_languages_are_refused():
  assert "unknown tokeniser 'Whitespaces'; did you mean 'whitespace'" in refusal(
    tokenizers.get, "Whitespaces", "en"
  )
  message = "unknown tokeniser 'zzz'; there are: default, char, given, "
  assert message in refusal(tokenizers.get, "zzz", "en")
  assert "unknown language 'xx'" in refusal(tokenizers.get, "default", "xx")


# ICU 78.2 (`toLocaleLowerCase` of Node 20), whose rule is Unicode's SpecialCasing.txt.
@pytest.mark.parametrize(
  ("language", "text", "lower"),
  [
    ("tr", "IŞIK", "ışık"),
    ("tr", "İstanbul I\u0307zmir", "istanbul izmir"),
    ("tr-CY", "ISPARTA", "ısparta"),
    ("az", "İKİ İT QAPININ YANINDA", "iki it qapının yanında"),
    ("az", "QIZIL BALIQ", "qızıl balıq"),
    ("en", "I IS", "i is"),
  ],
)
def test_lower_case_is_that_of_the_language(language, text, lower):
  for name in ("default", "whitespace", "split"):
    assert tokenizers.get(name, language)(text) == lower.split(), name
  assert tokenizers.get("char", language)(text) == list(lower.replace(" ", ""))


def test_versions_change_only_with_the_words():
  versions = {name: tokenizers.get(name, "tr").version for name in ("default", "char", "whitespace", "split")}
  rules = [version.partition(".")[0] for version in versions.values()]
  assert rules == ["2", "2+dotted-i", "1+dotted-i", "1+dotted-i"]
  assert tokenizers.get("default", "az").version.startswith("2+dotted-i.")
  assert not any("dotted" in tokenizers.get(name, "en").version for name in versions)


@pytest.mark.parametrize(
  "language, text, words",
  [
    ("zh", "银色的 跑车。", ["银", "色", "的", "跑", "车", "。"]),
    ("en", "A\u3000b\u00a0\n\tC", ["a", "b", "c"]),
    ("en", "ﬁ½", ["f", "i", "1", "\u2044", "2"]),  # NFKC
    ("th", "รถ", ["ร", "ถ"]),
    ("hi", "की", ["क", "ी"]),  # a letter and its mark are two code points
    ("ja", "ガ", ["ガ"]),  # composed by NFKC
    ("en", "😀", ["😀"]),
    ("en", " ", []),
  ],
)
def test_char_tokenizer_splits_code_points(language, text, words):
  assert tokenizers.get("char", language)(text) == words


@pytest.mark.parametrize(
  "text, words",
  [
    ("A ski-doo, don't 银色的 + $5", ["a", "skidoo", "dont", "银色的", "+", "$5"]),
    ("a\u00a0b\nc ... d", ["a", "b", "c", "d"]),
    ("...", []),
    ("", []),
  ],
)
def test_whitespace_tokenizer_deletes_punctuation_only(text, words):
  assert tokenizers.get("whitespace", "zh")(text) == words


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
  assert "tokeniser 'rouge' has no letters but a to z" in refusal(tokenizers.get, "rouge", "th")
