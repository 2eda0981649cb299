import dataclasses

import pytest

from tests.make.refusals import refusal
from xmcap.scoring import health, metrics
from xmcap.scoring.health import fidelity

_ENGLISH = [
  "a black dog runs on the beach",
  "two cats sleep on a red sofa",
  "a man rides his horse",
  "the sea",
]


def _measure(language, hypotheses, references=None):
  references = [["a reference"]] * len(hypotheses) if references is None else references
  known = health.Vocabularies.of({language: [text for texts in references for text in texts]})
  verdicts = fidelity.judge(language, hypotheses, known)
  texts = metrics.interleave(hypotheses, references)
  return health.measure(language, texts, _counts(hypotheses, references), known, verdicts)


def _counts(hypotheses, references):
  return metrics.Corpus(
    [text.split() for text in hypotheses], [[text.split() for text in texts] for texts in references]
  ).ngrams


def test_healthy_captions():
  found = _measure("en", _ENGLISH, [[text, text] for text in _ENGLISH])
  assert found == health.Health(
    wrong_script=0.0,
    wrong_language=0.0,
    wrong_language_references=0.0,
    undecided=0.0,
    undecided_references=0.0,
    empty=0.0,
    repetitive=0.0,
    truncated=None,
    truncated_references=None,
    copy=None,
    words=21 / 4,
    length_ratio=1.0,
    most_frequent_references=2 / 8,
  )


def test_wrong_script_is_of_captions_with_letters_below_half():
  captions = ["чёрный щенок", "a black dog", "пёс dog и", "пёс dogs", "42", ""]
  assert _measure("ru", captions).wrong_script == 2 / 4
  assert _measure("ru", ["пёс dog"]).wrong_script == 0.0


def test_wrong_language():
  captions = ["Ein schwarzer Hund läuft am Strand entlang", *_ENGLISH[:3], "42", ""]
  found = _measure("de", captions, [["Zwei Katzen schlafen auf einem Sofa", _ENGLISH[0]]] * len(captions))
  assert (found.wrong_language, found.wrong_language_references) == (3 / 4, 1 / 2)


def test_wrong_language_of_an_unsupported_language_is_none():
  found = _measure("mi", ["Etahi motuka tawhito kei roto i tetahi whare"])
  assert (found.wrong_language, found.wrong_language_references) == (None, None)
  assert (found.undecided, found.undecided_references) == (1.0, 1.0)


def test_health_share_of_empty_captions():
  assert _measure("en", ["", "a dog", " ", "a cat"]).empty == 1 / 2


def test_health_of_empty_captions_only():
  found = _measure("en", ["", ""])
  assert (found.wrong_script, found.wrong_language, found.repetitive, found.truncated) == (None,) * 4
  assert (found.empty, found.words, found.length_ratio) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
  ("caption", "expected"),
  [
    ("a man on a horse and a man on a horse", True),
    ("dog dog dog dog dog", True),
    ("dog dog dog dog", False),
    ("a man on a horse and a man on the horse", False),
    ("b c d a a b c d", False),
    ("", False),
  ],
)
def test_repetitive_captions(caption, expected):
  assert _measure("en", [caption, "a"]).repetitive == (0.5 if expected else 0.0)


def test_repetitive_is_of_captions_with_words():
  assert _measure("en", ["dog " * 9, "a dog", ""]).repetitive == 1 / 2


def test_truncated_captions_and_references():
  references = [["the dog runs"]] * 30 + [["the dog runs,"]]
  found = _measure("en", ["a dog and the", "a dog,", ""] + ["the dog runs"] * 28, references)
  assert (found.truncated, found.truncated_references) == (2 / 30, 1 / 31)


def test_length_ratio():
  found = _measure("en", ["a b c", "", "a b c"], [["a b", "a b c d"], ["a b c d"], ["a b c d e f"]])
  assert (found.words, found.length_ratio) == (2.0, 2 / 4)


def test_health_as_dict_has_the_names_of_measures():
  found = _measure("en", _ENGLISH)
  assert list(found.as_dict()) == list(health.MEASURES)
  assert dataclasses.replace(found, copy=0.5).as_dict()["copy"] == 0.5


def test_values_are_plain_numbers():
  assert {type(value) for value in _measure("en", _ENGLISH).as_dict().values()} == {float, type(None)}


def test_health_measure_format():
  shown = {name: health.MEASURES[name].format(0.125) for name in ("copy", "words", "length_ratio")}
  assert shown == {"copy": "12.5%", "words": "0.1", "length_ratio": "0.12"}
  assert health.MEASURES["copy"].format(None) == "-"


def test_health_of_an_unknown_language_is_refused():
  assert "unknown language 'xx'" in refusal(_measure, "xx", ["a"])
