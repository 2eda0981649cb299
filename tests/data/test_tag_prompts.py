"""Tags in prompts: which tags, where they stand, and what is refused."""

import json

import numpy as np
import pytest

from xmcap.data.tag_prompts import TagPrompts
from xmcap.errors import UsageError


class Letters:
  """A vocabulary of letters, with a LangId each for Chinese and English."""

  def prompt(self, code):
    return [{"zh": 3, "en": 4}[code]]

  def encode(self, text):
    return [ord(letter) for letter in text]


LETTERS = Letters()
OWN = {"a": {"en": ["dog", "sea"], "zh": ["X"]}, "b": {"en": [], "zh": ["Y", "Z"]}}


def _extended(tags, codes, width=9):
  codes = np.array(codes)
  prompts = np.zeros((*codes.shape, width), np.int32)
  for row, code in zip(prompts.reshape(-1, width), codes.reshape(-1), strict=True):
    row[:1] = LETTERS.prompt(code) if code else 0
  return tags.extend(prompts, ["a", "b"], codes, LETTERS)


def _texts(prompts):
  return [["".join(map(chr, row[row > 9])) for row in of_picture] for of_picture in prompts]


def test_tags_in_the_language_of_the_caption_follow_the_language():
  prompts = _extended(TagPrompts("own").read(OWN), [["en", "zh"], ["zh", "en"]])
  assert _texts(prompts) == [["dogsea", "X"], ["YZ", ""]]
  assert prompts[:, :, 0].tolist() == [[4, 3], [3, 4]]


def test_tags_of_one_language_serve_all_languages():
  prompts = _extended(TagPrompts("own", language="zh").read(OWN), [["en", "zh"], ["en", ""]])
  assert _texts(prompts) == [["X", "X"], ["YZ", ""]]
  assert not prompts[1, 1].any()


def test_predicted_tags_come_best_first_and_no_more_than_wanted(tmp_path):
  rows = [("a", {"x": 0.1, "y": 0.9, "z": 0.5}), ("b", ["v", "w", "u"])]
  lines = [json.dumps({"image/key": key, "language": "en", "tags": tags}) for key, tags in rows]
  (tmp_path / "one").write_text(lines[0])
  (tmp_path / "two").write_text(lines[1])
  tags = TagPrompts((str(tmp_path / "one"), str(tmp_path / "two")), most=2).read(None)
  assert _texts(_extended(tags, [["en"], ["en"]])) == [["yz"], ["vw"]]
  twice = TagPrompts((str(tmp_path / "one"), str(tmp_path / "one")))
  with pytest.raises(UsageError, match="'a' has 'en' tags in another file too: keep one"):
    twice.read(None)


def test_prompts_that_are_too_long_are_refused_with_the_picture_and_the_length():
  tags = TagPrompts("own").read(OWN)
  assert tags.width(OWN, LETTERS, ["en", "zh"]) == 7
  tags.check_length(OWN, LETTERS, ["en", "zh"], 7)
  with pytest.raises(UsageError, match="picture 'a': the prompt of 'en' with tags has 7 tokens: raise prompt_length"):
    tags.check_length(OWN, LETTERS, ["en", "zh"], 6)


def test_pictures_without_a_list_of_tags_are_named():
  with pytest.raises(UsageError, match="the records: no tags of 2 pictures .*c.*: predict them first"):
    TagPrompts("own").read(OWN).check(["a", "c", "d"])


def test_own_tags_need_records():
  with pytest.raises(UsageError, match="'own', but these pictures are not records"):
    TagPrompts("own").read(None)


def test_at_least_one_tag():
  with pytest.raises(UsageError, match="TagPrompts.most is 0"):
    TagPrompts("own", most=0)
