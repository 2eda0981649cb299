"""What all tokenisers have in common."""

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import tokenizers


@pytest.mark.parametrize("name", [name for name in tokenizers.TOKENIZERS if name != "ptb"])
def test_tokenizer_words_have_no_white_space(name):
  texts = ["a\u00a0b\u3000c\u2028d\x1ce\x85f", "1\u00a01/2"]
  assert all(word.split() == [word] for words in tokenizers.get(name, "en").tokenize(texts) for word in words)


@pytest.mark.parametrize("name", ["default", "char", "raw", "split", "whitespace"])
def test_tokenizers_split_references_as_predictions(name):
  tokenizer = tokenizers.get(name, "en")
  assert tokenizer.tokenize_references(["A b."], ["c"]) == tokenizer.tokenize(["A b."])


def test_tokenizers_get_caches_tokenizers():
  assert tokenizers.get("default", "en") is tokenizers.get("default", "en")


def test_unknown_tokenizer_suggests_the_nearest():
  with pytest.raises(UsageError, match="unknown tokeniser 'Whitespaces'; did you mean 'whitespace'"):
    tokenizers.get("Whitespaces", "en")


def test_unknown_tokenizer_without_a_near_name_lists_all():
  with pytest.raises(
    UsageError,
    match="unknown tokeniser 'zzz'; there are: default, char, given, morphemes, ptb, coco, coco_spacy, coco_xm100, "
    "raw, rouge, split, whitespace, 13a",
  ):
    tokenizers.get("zzz", "en")


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
  assert [version.partition(".")[0] for version in versions.values()] == [
    "2",
    "2+dotted-i",
    "1+dotted-i",
    "1+dotted-i",
  ]
  assert tokenizers.get("default", "az").version.startswith("2+dotted-i.")
  assert not any("dotted" in tokenizers.get(name, "en").version for name in versions)
