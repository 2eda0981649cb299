"""THumB's text processing (section 2.2.3)."""

import pytest

from tests.make.refusals import refusal
from xmcap import scoring
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import sentence


@pytest.mark.parametrize(
  "text, finished",
  [
    ("  a dog runs ", "A dog runs."),
    ("a dog runs .", "A dog runs."),
    ("A dog runs.", "A dog runs."),
    ("a u.s . flag", "A u.s . flag."),
    ("a cake on a plate..", "A cake on a plate.."),
    ("McDonald's", "McDonald's."),
    ("  ", ""),
    (" . ", "."),
  ],
)
def test_sentence_processes_text_as_thumb(text, finished):
  assert sentence.finish("en", [text]) == [finished]
  assert sentence.finish("en", [finished]) == [finished]


def test_sentence_is_applied_to_captions_and_references():
  references = {"1": {"en": ["A dog runs."]}, "2": {"en": ["two cats sit ."]}}
  predictions = {"1": {"en": " a dog runs"}, "2": {"en": "Two cats sit."}}
  options = {"tokenizer": "13a", "metrics": "sentence_bleu"}
  assert scoring.score(references, predictions, **options).table.rows["en"]["sentence_bleu"] < 99
  result = scoring.score(references, predictions, normalize="sentence", **options)
  assert result.table.rows["en"]["sentence_bleu"] == pytest.approx(100)
  assert "|normalization:sentence-1," in result.table.signature


def test_sentence_is_for_english():
  assert "is for en, not for zh" in refusal(tokenizers.get, "char", "zh", "sentence")
  references = {"1": {"de": ["ein Hund"]}}
  assert "--languages=en" in refusal(
    scoring.score, references, {"1": {"de": "ein Hund"}}, normalize="sentence"
  )
