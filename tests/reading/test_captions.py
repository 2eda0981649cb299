"""References and predictions as Python dictionaries: which types are accepted and which are refused."""

import collections
import types

import numpy as np
import pytest

from tests.make.refusals import refusal
from xmcap.reading import captions
from xmcap.scoring import score

_REFERENCES = {"k": {"en": ["a dog"]}}
_PREDICTIONS = {"k": {"en": "a dog"}}


@pytest.mark.parametrize(
  "references, message",
  [
    (
      "r.jsonl",
      "references: 'r.jsonl' must be a dictionary; the form is {image key: {language code: captions}}",
    ),
    ([], "references: [] must be a dictionary"),
    ({1.5: {"en": ["a"]}}, "references[1.5]: the key of an image must be a string or a whole number"),
    ({1: {"en": ["a"]}, "1": {}}, "references['1']: must be given once, "),
    ({1: ["a"]}, "references[1]: ['a'] must be a dictionary; the form is {image key: {language code: "),
    ({"k": ["a"]}, "references['k']: ['a'] must be a dictionary"),
    ({"k": {1: ["a"]}}, "references['k'][1]: 1 must be a language code such as 'en'"),
    ({"k": {"eng": ["a"]}}, "references['k']['eng']: unknown language 'eng'; did you mean 'en'"),
    ({"k": {"en": "a dog"}}, "references['k']['en']: 'a dog' must be a list of strings"),
    ({"k": {"en": None}}, "references['k']['en']: None must be a list of strings"),
    ({"k": {"en": ["a", 1]}}, "references['k']['en']: ['a', 1] must be a list of strings"),
    ({"a\nb": {"en": 1}}, "references['a\\nb']['en']: 1 must be"),
  ],
)
def test_score_refuses_malformed_references(references, message):
  assert message in refusal(score, references, _PREDICTIONS)


@pytest.mark.parametrize(
  "predictions, message",
  [
    ("ours.jsonl", "predictions: 'ours.jsonl' must be a dictionary"),
    ({None: {"en": "a"}}, "predictions[None]: the key of an image must be a string or a whole number"),
    ({"k": "a dog"}, "predictions['k']: 'a dog' must be a dictionary; the form is"),
    ({"k": {None: "a"}}, "predictions['k'][None]: None must be a language code"),
    ({"k": {"en": ["a"]}}, "predictions['k']['en']: ['a'] must be a string"),
    ({"k": {"en": float("nan")}}, "predictions['k']['en']: nan must be a string"),
  ],
)
def test_score_refuses_malformed_predictions(predictions, message):
  assert message in refusal(score, _REFERENCES, predictions)


def test_plain_references_accepts_str_and_mapping_subtypes():
  text = np.str_("a dog")
  references = {np.str_("k"): collections.OrderedDict(en=(text,), th=collections.UserList([text]))}
  held = captions.plain_references(types.MappingProxyType(references))
  assert held == {"k": {"en": ["a dog"], "th": ["a dog"]}}
  assert type(next(iter(held))) is type(held["k"]["en"][0]) is str
  assert captions.plain_predictions({np.int64(7): {"en": text}}) == {"7": {"en": "a dog"}}
