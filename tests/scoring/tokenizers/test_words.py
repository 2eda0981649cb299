import numpy as np

from xmcap.scoring.tokenizers.words import CaptionWords, number, split


def test_caption_words_are_numbered_alphabetically():
  words = CaptionWords.of([["a", "dog"], [], ["a", "cat", "a"]])
  assert words.vocabulary == ("a", "cat", "dog")
  assert words.numbers.tolist() == [0, 2, 0, 1, 0] and words.lengths.tolist() == [2, 0, 3]


def test_caption_words_round_trip():
  captions = [["a", "dog"], [], ["a", "cat", "a"]]
  words, none = CaptionWords.of(captions), CaptionWords.of([])
  assert words.captions() == captions and none.captions() == []
  assert words.texts() == ["a dog", "", "a cat a"] and none.texts() == []


def test_narrow_keeps_the_words():
  captions = [["a", "dog"], [], ["a", "cat", "a"]]
  words = CaptionWords.of(captions).narrow()
  assert words.numbers.dtype == np.uint8
  assert words.captions() == captions and words.texts() == ["a dog", "", "a cat a"]


def test_split_of_a_text_of_several_blocks():
  words = [f"w{number % 9973}" for number in range(400_000)]  # over 2**21 characters
  distinct, numbers = split(" ".join(words))
  assert [distinct[place] for place in numbers.tolist()] == words
  assert len(distinct) - len(set(distinct)) <= 2  # a word that is in two blocks


def test_number_of_no_words():
  distinct, numbers = number([])
  assert distinct == () and numbers.dtype == np.int64 and len(numbers) == 0
