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


def test_dictionary_is_nltks():
  """nltk 3.9.1: IBMModel1([AlignedSent(target, source)], 12).translation_table, the best target of each source."""
  expected = {
    "red": "rouge", "apple": "pomme", "green": "verte", "book": "livre", "heart": "coeur", "face": "visage",
    "sun": "soleil", "with": "soleil",
  }  # fmt: skip
  assert translation.learn(words(ENGLISH), words(FRENCH)) == expected


def test_words_that_the_empty_word_explains_better_have_no_counterpart():
  learned = translation.learn(words(["a dog", "cat", "the owl"]), words(["le hund", "le katze", "le eule"]))
  assert "le" not in learned.values() and learned["cat"] == "katze"


def test_no_texts_make_no_dictionary():
  assert translation.learn([], []) == {}


@pytest.mark.parametrize(("times", "expected"), [(1, "a"), (3, "b")])
def test_the_more_frequent_counterpart_wins(times, expected):
  english = words(["owl day"] * 2 + ["owl night"] * times + ["day", "night"])
  other = words(["a x"] * 2 + ["b y"] * times + ["x", "y"])
  assert translation.learn(english, other)["owl"] == expected
