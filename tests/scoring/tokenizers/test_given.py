import pytest

from tests.make.refusals import refusal
from xmcap import scoring
from xmcap.errors import UsageError
from xmcap.reading.references import References
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


def test_only_tokenizer_given_needs_tokenized_references():
  assert [name for name, tokenizer in tokenizers.TOKENIZERS.items() if tokenizer.needs_tokenized] == ["given"]


@pytest.mark.parametrize(
  "tokenized, message",
  [(None, "missing for"), (["a"], "missing for 'c d'"), (["a b", " "], "missing for 'c d'")],
)
def test_tokenizer_given_without_tokenized_references_is_refused(tokenized, message):
  with pytest.raises(UsageError, match=f"'caption/tokenized' for each reference in 'en'.* {message}"):
    tokenizers.get("given", "en").tokenize_references(["a b", "c d"], tokenized)


def test_version_names_the_default_and_its_segmenter():
  assert tokenizers.get("default", "zh").version in tokenizers.get("given", "zh").version


def _release(**captions):
  """Returns references of one caption an image: a caption, and its words in the release."""
  return References(
    {key: {"zh": [text]} for key, (text, _) in captions.items()},
    tokenized={key: {"zh": [words]} for key, (_, words) in captions.items()},
  )


def test_tokenizer_given_refuses_languages_split_differently():
  references = _release(a=("两只猫睡觉", "两 只 猫 睡 觉"), b=("火车", "火车"))
  predictions = {key: {"zh": captions["zh"][0]} for key, captions in references.items()}
  message = refusal(scoring.score, references, predictions, tokenizer="given")
  assert "in another way than predictions can be split: zh 50%; use --tokenizer=default" in message


def test_tokenizer_given_splits_a_copied_reference_as_released():
  texts = {f"k{place}": "火车" + "上" * place for place in range(1, 40)}
  default = tokenizers.get("default", "zh")
  captions = {key: (text, " ".join(default(text))) for key, text in texts.items()}
  captions["k0"] = ("两只猫睡觉", "两 只 猫 睡 觉")  # 1 of 40 differs
  predictions = {key: {"zh": text} for key, (text, _) in captions.items()}
  table = scoring.score(_release(**captions), predictions, metrics="exact", tokenizer="given").table
  assert table.rows["zh"]["exact"] == 1
  assert table.notes == (
    "references whose words in the release differ from those of --tokenizer=default: zh 2.5%",
  )
