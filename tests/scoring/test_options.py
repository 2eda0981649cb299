"""The options of `score` as one value."""

import dataclasses
import inspect
import sys

import pytest

from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.scoring import score
from xmcap.scoring.options import ScoringOptions

_REFERENCES = {"k1": {"en": ["a dog"]}, "k2": {"en": ["two cats"]}}
_PREDICTIONS = {"k1": {"en": "a dog"}, "k2": {"en": "a cat"}}
_MODULE = sys.modules["xmcap.scoring.score"]


def test_score_arguments_equal_scoring_options():
  arguments = list(inspect.signature(score).parameters.values())[2:]
  fields = dataclasses.fields(ScoringOptions)
  assert [(one.name, one.default) for one in arguments] == [(one.name, one.default) for one in fields]


def test_score_passes_each_option_on(monkeypatch):
  passed = {}
  monkeypatch.setattr(_MODULE, "ScoringOptions", lambda **options: passed.update(options))
  monkeypatch.setattr(_MODULE, "score_captions", lambda references, predictions, options: None)
  options = {
    "languages": "en", "title": "t", "protocol": "xmcap", "metrics": "exact", "tokenizer": "char", "missing": "empty",
    "normalize": "orthography", "document_frequencies": {}, "subset": "keys", "clean": "all", "bootstrap": 2, "seed": 3,
    "scale": 100, "wrong_language": "zero", "health": True, "vectors": "folder", "keep": ["words"], "processes": 4,
  }  # fmt: skip
  score(_REFERENCES, _PREDICTIONS, **options)
  assert passed == options and passed.keys() == {field.name for field in dataclasses.fields(ScoringOptions)}


def test_protocol_sets_unset_scoring_options():
  settled = ScoringOptions(protocol="paligemma", languages="en,de").settled
  assert (settled.protocol, settled.tokenizer, settled.metrics) == ("paligemma", "coco", ("cider_d",))
  assert ScoringOptions(tokenizer="char").settled.protocol == ""


def test_replaced_scoring_options_are_checked_again():
  options = ScoringOptions(metrics="bleu_4")
  assert dataclasses.replace(options, metrics="exact").settled.metrics == ("exact",)
  message = "--protocol=xm3600 is cider, not bleu_4: leave out --metrics"
  assert message in refusal(dataclasses.replace, options, protocol="xm3600")


@pytest.mark.parametrize(
  "options, message",
  [
    ({"missing": 3}, "missing=3 must be a string"),
    ({"bootstrap": True}, "bootstrap=True must be a whole number"),
    ({"seed": -1}, "--seed: must be a whole number from 0"),
    ({"wrong_language": "drop"}, "--wrong_language=drop: must be keep or zero"),
    ({"metrics": "meteor", "languages": "de"}, "metric 'meteor' is for en only, not for de"),
    ({"vectors": "folder"}, "--vectors: no metric of --metrics compares embeddings"),
  ],
)
def test_invalid_scoring_options_are_refused(options, message):
  with pytest.raises(UsageError, match=message):
    ScoringOptions(**options)
