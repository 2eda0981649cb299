"""Tags by language and captions translated by people."""

import pytest

from tests import lazily
from tests.make.images import plain
from xmcap.corpora import tfds_builders
from xmcap.data import record_writer, records
from xmcap.data.records import Caption, Record
from xmcap.errors import XmcapError

tfds = lazily.Module("tensorflow_datasets")


def tagged() -> Record:
  captions = [Caption("zh", "一只狗", "一 只 狗", "translated"), Caption("en", "a dog")]
  return Record(
    "COCO_train2014_000000000001", plain(), captions, tags_by_language={"zh": ["狗", "草地"], "en": ["dog"]}
  )


def test_tags_by_language_round_trip():
  assert records.parse(records.serialize(tagged())) == tagged()


def test_tags_by_language_parse_from_tfds_bytes(tmp_path):
  serialized = tfds_builders.features().serialize_example(
    tfds_builders.features().encode_example(tfds_builders.as_example(tagged()))
  )
  assert records.parse(serialized) == tagged()


def test_tfds_reads_the_tags(tmp_path):
  split = record_writer.write_split(tmp_path, "train", [0], lambda _: [tagged()], dataset="toy", processes=1)
  record_writer.write_metadata(tmp_path, [split], dataset="toy")
  (example,) = tfds.builder_from_directory(tmp_path).as_data_source(split="train")
  assert [tag.decode() for tag in example["tags_by_language"]["tag"]] == ["狗", "草地", "dog"]
  assert [code.decode() for code in example["tags_by_language"]["language"]] == ["zh", "zh", "en"]


@pytest.mark.parametrize(
  ("tags", "message"),
  [
    ({"xx-unknown-language": ["a"]}, "tags in the unknown language 'xx-unknown-language'"),
    ({"zh": ["狗", " "]}, "tag ' ' is empty"),
    ({"zh": ["a\nb"]}, "contains a line break"),
  ],
)
def test_invalid_tags_by_language_are_refused(tags, message):
  with pytest.raises(XmcapError, match=message):
    records.check(Record("k", plain(), [], tags_by_language=tags))


def test_unknown_caption_source_is_refused():
  with pytest.raises(XmcapError, match="source 'guessed' is not one of human, mt, translated"):
    records.check(Record("k", plain(), [Caption("en", "a", source="guessed")]))
