import pytest

from xmcap.scoring import tokenizers


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


def test_char_tokenizer_of_a_batch():
  assert tokenizers.get("char", "en").tokenize(["ab", "", "c"]) == [["a", "b"], [], ["c"]]
