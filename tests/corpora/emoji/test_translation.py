"""IBM Model 1, against NLTK's."""

import pytest

from xmcap.corpora.emoji import translation

ENGLISH = [
  "red apple",
  "green apple",
  "red book",
  "book",
  "green heart",
  "red heart",
  "sun with face",
  "face",
]
FRENCH = [
  "pomme rouge", "pomme verte", "livre rouge", "livre", "coeur verte", "coeur rouge", "soleil avec visage", "visage",
]  # fmt: skip


def words(texts):
  return [text.split() for text in texts]


def test_ibm_model_1_equals_nltk():
  """nltk 3.9.1: IBMModel1([AlignedSent(target, source)], 12).translation_table, the best target of each source."""
  expected = {
    "red": "rouge", "apple": "pomme", "green": "verte", "book": "livre", "heart": "coeur", "face": "visage",
    "sun": "soleil", "with": "soleil",
  }  # fmt: skip
  assert translation.learn(words(ENGLISH), words(FRENCH)) == expected


def test_ibm_model_1_null_word_leaves_words_untranslated():
  learned = translation.learn(words(["a dog", "cat", "the owl"]), words(["le hund", "le katze", "le eule"]))
  assert "le" not in learned.values() and learned["cat"] == "katze"


def test_ibm_model_1_of_no_texts_is_empty():
  assert translation.learn([], []) == {}


@pytest.mark.parametrize(("times", "expected"), [(1, "a"), (3, "b")])
def test_ibm_model_1_tie_goes_to_the_more_frequent_word(times, expected):
  english = words(["owl day"] * 2 + ["owl night"] * times + ["day", "night"])
  other = words(["a x"] * 2 + ["b y"] * times + ["x", "y"])
  assert translation.learn(english, other)["owl"] == expected
