import pytest

from xmcap.scoring import tokenizers


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


def test_whitespace_tokenizer_of_a_batch():
  assert tokenizers.get("whitespace", "en").tokenize(["A b", "", "c."]) == [["a", "b"], [], ["c"]]
