"""What an evaluator hands on to the scores."""

import json

import pytest

from xmcap.evaluators import CaptionEvaluator
from xmcap.scoring import score

_KEYS = ("a", "b", "c")


@pytest.fixture
def files(tmp_path):
  with open(tmp_path / "captions.jsonl", "w", encoding="utf-8") as references:
    for key in _KEYS:
      references.write(
        json.dumps({"image/key": key, "image/locale": "de", "en": {"caption": [f"{key} dog"]}}) + "\n"
      )
  (tmp_path / "keys").write_text("c\na\n")
  return tmp_path


def _evaluator(files, **options):
  return CaptionEvaluator(predictor=None, references=str(files / "captions.jsonl"), **options)


def test_the_signature_names_the_subset(files):
  evaluator = _evaluator(files, subset=str(files / "keys"))
  assert list(evaluator.references) == ["a", "c"]
  table = score(evaluator.references, {"a": {"en": "a dog"}, "c": {"en": "dog"}}, **evaluator.options).table
  assert "subset:file#" in table.signature


def test_the_references_keep_their_regions(files):
  assert _evaluator(files, limit=2).references.locales == {"a": "de", "b": "de"}


def test_a_limit_takes_the_first_images(files):
  assert list(_evaluator(files, limit=2).references) == ["a", "b"]
