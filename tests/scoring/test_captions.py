import collections
import types

import numpy as np
import pytest

from xmcap.errors import UsageError
from xmcap.scoring import captions, score

_REFERENCES = {"k": {"en": ["a dog"]}}
_PREDICTIONS = {"k": {"en": "a dog"}}


@pytest.mark.parametrize(
  "references, message",
  [
    ("captions.jsonl", "references: a text, must be a dictionary, .* as read_references returns"),
    ([], "references: of type list, must be a dictionary"),
    ({1: {"en": ["a"]}}, "references: the image key 1 is of type int, must be a text"),
    ({"k": ["a"]}, r"references\['k'\]: of type list, must be a dictionary"),
    ({"k": {1: ["a"]}}, "references: the language code 1 is of type int"),
    ({"k": {"eng": ["a"]}}, "references: unknown language 'eng'; did you mean 'en'"),
    ({"k": {"en": "a dog"}}, r"references\['k'\]\['en'\]: a text, must be a list of texts"),
    ({"k": {"en": None}}, r"references\['k'\]\['en'\]: of type NoneType, must be a list of texts"),
    ({"k": {"en": ["a", 1]}}, r"references\['k'\]\['en'\]: of type int, must be a text"),
    ({"a\nb": {"en": 1}}, r"references\['a\\nb'\]\['en'\]: of type int"),
  ],
)
def test_references_that_are_none_are_named(references, message):
  with pytest.raises(UsageError, match=message) as caught:
    score(references, _PREDICTIONS)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  "predictions, message",
  [
    ("ours.jsonl", "predictions: a text, must be a dictionary, .* as read_predictions returns"),
    ({1: {"en": "a"}}, "predictions: the image key 1 is of type int"),
    ({"k": "a dog"}, r"predictions\['k'\]: a text, must be a dictionary, language code -> captions"),
    ({"k": {None: "a"}}, "predictions: the language code None is of type NoneType"),
    ({"k": {"en": ["a"]}}, r"predictions\['k'\]\['en'\]: of type list, must be a text"),
    ({"k": {"en": float("nan")}}, r"predictions\['k'\]\['en'\]: of type float, must be a text"),
  ],
)
def test_predictions_that_are_none_are_named(predictions, message):
  with pytest.raises(UsageError, match=message):
    score(_REFERENCES, predictions)


def test_what_behaves_like_texts_and_dictionaries_will_do():
  text = np.str_("a dog")
  captions.check_references(
    types.MappingProxyType(
      {np.str_("k"): collections.OrderedDict(en=(text,), th=collections.UserList([text]))}
    )
  )
  captions.check_predictions({"k": {"en": text}})
