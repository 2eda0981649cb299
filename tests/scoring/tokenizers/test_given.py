import pytest

from xmcap.errors import UsageError
from xmcap.scoring import tokenizers


def test_references_are_split_as_released():
  given = tokenizers.get("given", "zh")
  words = given.tokenize_references(["一辆银色的跑车。", "车"], ["一 辆 银色 的 跑车 。", "车"])
  assert words == [["一", "辆", "银色", "的", "跑车"], ["车"]]


def test_references_are_normalised_as_predictions_are():
  given = tokenizers.get("given", "en")
  (reference,) = given.tokenize_references(["A ski-doo, red."], ["A ski-doo , red ."])
  assert reference == given("A ski-doo, red.") == ["a", "ski", "doo", "red"]


def test_predictions_are_split_by_the_default():
  text = "一辆银色的老式跑车，停在展厅里。"
  assert tokenizers.get("given", "zh")(text) == tokenizers.get("default", "zh")(text)


def test_only_given_needs_the_words_of_the_release():
  assert [name for name, tokenizer in tokenizers.TOKENIZERS.items() if tokenizer.needs_tokenized] == ["given"]


@pytest.mark.parametrize(
  "tokenized, message",
  [(None, "missing for"), (["a"], "missing for 'c d'"), (["a b", " "], "missing for 'c d'")],
)
def test_missing_words_are_an_error(tokenized, message):
  with pytest.raises(UsageError, match=f"'caption/tokenized' for each reference in 'en'.* {message}"):
    tokenizers.get("given", "en").tokenize_references(["a b", "c d"], tokenized)


def test_version_names_the_default_and_its_segmenter():
  assert tokenizers.get("default", "zh").version in tokenizers.get("given", "zh").version
