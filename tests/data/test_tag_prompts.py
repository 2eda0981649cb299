"""`TagPrompts`: tags in prompts, their languages and order, and refused settings."""

import json

import numpy as np
import pytest

from tests.data.streams import captions
from tests.make.tiny_corpus import tiny_record, write_corpus
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


def test_predicted_tags_are_sorted_by_score_and_limited(tmp_path):
  rows = [("a", {"x": 0.1, "y": 0.9, "z": 0.5}), ("b", ["v", "w", "u"])]
  lines = [json.dumps({"image/key": key, "language": "en", "tags": tags}) for key, tags in rows]
  (tmp_path / "one").write_text(lines[0])
  (tmp_path / "two").write_text(lines[1])
  tags = TagPrompts((str(tmp_path / "one"), str(tmp_path / "two")), most=2).read(None)
  assert _texts(_extended(tags, [["en"], ["en"]])) == [["yz"], ["vw"]]
  twice = TagPrompts((str(tmp_path / "one"), str(tmp_path / "one")))
  with pytest.raises(UsageError, match="'a' has 'en' tags in another file too: keep one"):
    twice.read(None)


def test_prompt_longer_than_prompt_length_is_refused():
  tags = TagPrompts("own").read(OWN)
  assert tags.width(OWN, LETTERS, ["en", "zh"]) == 7
  tags.check_length(LETTERS, ["en", "zh"], 7)
  with pytest.raises(
    UsageError, match="picture 'a': the prompt of 'en' with tags has 7 tokens: raise prompt_length"
  ):
    tags.check_length(LETTERS, ["en", "zh"], 6)
  tags.check_length(LETTERS, ["en", "zh"], 6, keys=["b"])


def test_pictures_without_a_list_of_tags_are_named():
  with pytest.raises(UsageError, match="the records: no tags of 2 pictures .*c.*: predict them first"):
    TagPrompts("own").read(OWN).check(["a", "c", "d"])


def test_tag_prompts_name_a_language_without_tags():
  tags = TagPrompts("own").read({"a": {"en": [], "zh": ["X"]}, "b": {"zh": ["Y"]}})
  tags.check(["a", "b"], ["zh"])
  with pytest.raises(UsageError, match=r"no 'en' tags of 1 picture \(b\), only in other languages"):
    tags.check(["a", "b"], ["zh", "en"])
  of_one = TagPrompts("own", language="zh").read({"b": {"zh": ["Y"]}})
  of_one.check(["b"], ["en"])


def test_own_tags_need_records():
  with pytest.raises(UsageError, match="'own', but these pictures are not records"):
    TagPrompts("own").read(None)


def test_tag_prompts_most_of_0_is_refused():
  with pytest.raises(UsageError, match="TagPrompts.most is 0"):
    TagPrompts("own", most=0)


def test_caption_stream_puts_own_tags_into_prompts(tmp_path, register):
  tags = {0: ["dog"], 1: ["a", "dog"], 2: []}
  pictures = [tiny_record(index) for index in tags]
  for index, picture in enumerate(pictures):
    picture.tags_by_language = {"en": tags[index]} if tags[index] else {}
  corpus = register(write_corpus(tmp_path, pictures))
  plain = captions(corpus, batch_size=6, prompt_length=12)
  stream = captions(corpus, batch_size=6, prompt_length=12, prompt_tags=TagPrompts("own", language="en"))
  batch, expected = stream.batch(0), plain.batch(0)
  vocabulary = stream.vocabulary
  for key, rows, of_plain in zip(
    batch["key"], batch["prompt_tokens"], expected["prompt_tokens"], strict=True
  ):
    ids = [token for tag in tags[int(key, 16)] for token in vocabulary.encode(tag)]
    for row, start in zip(rows, of_plain, strict=True):
      assert row[row != 0].tolist() == [*start[start != 0].tolist(), *ids]
  np.testing.assert_array_equal(
    stream.language_of(batch["prompt_tokens"]), plain.language_of(expected["prompt_tokens"])
  )
  np.testing.assert_array_equal(batch["target_tokens"], expected["target_tokens"])
  assert stream.signature() != plain.signature()
  with pytest.raises(UsageError, match="raise prompt_length, which is 2"):
    captions(corpus, prompt_length=2, prompt_tags=TagPrompts("own", language="en"))


def test_text_of_a_tagger_is_read_in_the_language_of_the_tags(tmp_path):
  (tmp_path / "id.tagvotes.txt").write_text("a x 0.1 y 0.9\nb v 0.5\n")
  tags = TagPrompts(str(tmp_path / "id.tagvotes.txt"), language="zh").read(None)
  assert _texts(_extended(tags, [["en"], ["zh"]])) == [["yx"], ["v"]]
  with pytest.raises(
    UsageError, match=r"text names no language; give it with --language=CODE, or TagPrompts.language"
  ):
    TagPrompts(str(tmp_path / "id.tagvotes.txt")).read(None)
