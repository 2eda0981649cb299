import numpy as np

from xmcap.scoring.tokenizers.words import CaptionWords, number


def test_caption_words_are_numbered_alphabetically():
  words = CaptionWords.of([["a", "dog"], [], ["a", "cat", "a"]])
  assert words.vocabulary == ("a", "cat", "dog")
  assert words.numbers.tolist() == [0, 2, 0, 1, 0] and words.lengths.tolist() == [2, 0, 3]


def test_caption_words_round_trip():
  captions = [["a", "dog"], [], ["a", "cat", "a"]]
  words, none = CaptionWords.of(captions), CaptionWords.of([])
  assert words.captions() == captions and none.captions() == []
  assert words.texts() == ["a dog", "", "a cat a"] and none.texts() == []


def test_number_of_no_words():
  distinct, numbers = number([])
  assert distinct == () and numbers.dtype == np.int64 and len(numbers) == 0
