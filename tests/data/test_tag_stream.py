"""The stream of pictures with their tags (`stream.TagStream`)."""

import numpy as np
import pytest

from tests.data.streams import captions, dealt_out, equal
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, colour, tiny_record, write_corpus
from xmcap.data.stream import TagStream
from xmcap.errors import UsageError, XmcapError


def test_tags_in_reading_order(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=3, image_size=SIDE)
  batch = stream.batch(0)
  assert stream.tags == ("dog", "cat", "owl")
  assert batch["tags"].shape == (NUM_PICTURES, 3) and batch["tags"].dtype == np.int32
  assert batch["weights"].tolist() == [1.0] * NUM_PICTURES
  for key, image, tags in zip(batch["key"], batch["image"], batch["tags"], strict=True):
    index = int(key, 16)
    assert tags.tolist() == ([1, 2, 3][: index % 4] + [0, 0, 0])[:3]
    np.testing.assert_array_equal(image, colour(index))
  assert stream.lost == {}


def test_tags_beyond_the_last_slot_are_counted(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE)
  assert set(stream.batch(0)["tags"].ravel()) == {0, 1, 2}
  assert stream.lost == {"tags beyond the last slot": NUM_PICTURES // 4}


def test_padding_beyond_the_split_is_not_counted_as_lost(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE)
  once, _ = stream.first(NUM_PICTURES, multiple=2 * NUM_PICTURES)
  assert len(once.batch(0)["key"]) == 2 * NUM_PICTURES
  assert stream.lost == once.lost == {"tags beyond the last slot": NUM_PICTURES // 4}


def test_tags_of_any_number_of_workers_are_the_same(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE, workers=3)
  for step, batch in enumerate(stream.batches(num_steps=3)):
    equal(batch, stream.batch(step))
  assert stream.lost == {"tags beyond the last slot": 6 * NUM_PICTURES // 4}  # three batches, made twice


def test_tags_and_captions_see_pictures_in_the_same_order(tiny):
  tags = TagStream(tiny.name, batch_size=6, image_size=SIDE)
  np.testing.assert_array_equal(tags.batch(5)["key"], captions(tiny).batch(5)["key"])
  equal(dealt_out(tags, 5, 2), tags.batch(5))


def test_an_unknown_tag_is_named(tmp_path, register):
  record = tiny_record(0)
  record.tags = ["unicorn"]
  stream = TagStream(register(write_corpus(tmp_path, [record])).name, batch_size=1, image_size=SIDE)
  with pytest.raises(XmcapError, match="picture '0000000000000000': tag 'unicorn' is not in .*tags.txt"):
    stream.batch(0)


def test_num_slots_of_0_is_refused(tiny):
  with pytest.raises(UsageError, match="num_slots is 0"):
    TagStream(tiny.name, num_slots=0)
